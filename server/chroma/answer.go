package chroma

import (
	"cmp"
	"context"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/server/internal/rest"
)

// partSet lists the parts of an answer.
type partSet struct {
	documents, metadatas, embeddings, distances, uris bool
	names                                             []string
}

// include reads the requested parts; distances are valid only in queries.
func include(asked *[]string, distances bool) (in partSet, err error) {
	in.names = []string{"metadatas", "documents"}
	if distances {
		in.names = append(in.names, "distances")
	}
	if asked != nil {
		in.names = append([]string{}, *asked...)
	}
	for _, name := range in.names {
		switch {
		case name == "documents":
			in.documents = true
		case name == "metadatas":
			in.metadatas = true
		case name == "embeddings":
			in.embeddings = true
		case name == "uris":
			in.uris = true
		case name == "distances" && distances:
			in.distances = true
		default:
			return in, invalidf("include: %.50q is not known here", name)
		}
	}
	return in, nil
}

func (in partSet) selection() (s db.Select) {
	if in.documents {
		s |= db.WithText
	}
	if in.metadatas || in.uris {
		s |= db.WithMetadata
	}
	if in.embeddings {
		s |= db.WithVector
	}
	return cmp.Or(s, db.IDsOnly)
}

// columns holds documents as one array per part. Parts that were not requested are null.
type columns struct {
	IDs        []string      `json:"ids"`
	Documents  []*string     `json:"documents"`
	Embeddings [][]float32   `json:"embeddings"`
	Metadatas  []db.Metadata `json:"metadatas"`
	URIs       []*string     `json:"uris"`
	Distances  []float64     `json:"distances,omitempty"`
}

func newColumns(in partSet) *columns {
	c := &columns{IDs: []string{}}
	if in.documents {
		c.Documents = []*string{}
	}
	if in.embeddings {
		c.Embeddings = [][]float32{}
	}
	if in.metadatas {
		c.Metadatas = []db.Metadata{}
	}
	if in.uris {
		c.URIs = []*string{}
	}
	if in.distances {
		c.Distances = []float64{}
	}
	return c
}

// An allowance is the memory that an answer may still use.
type allowance struct {
	ctx      context.Context // of the request
	records  int
	bytes    int64
	most     int64 // bytes in total
	reserved int64 // bytes that are counted in the server's memory limit
}

// copies is how often an answer is in memory: as documents, and as JSON in a growing buffer.
const copies = 3

// check returns an error if the answer may not continue.
func (a *allowance) check() error {
	if a.records < 0 || a.bytes < 0 {
		return invalidf("the answer is too large: use a smaller limit, and an offset")
	}
	const step = 1 << 20
	if used := a.most - a.bytes; used-a.reserved >= step {
		if err := rest.Reserve(a.ctx, copies*(used-a.reserved)); err != nil {
			return err
		}
		a.reserved = used
	}
	return nil
}

// add adds a document.
func (c *columns) add(d *db.Document, in partSet, left *allowance) error {
	left.records--
	left.bytes -= int64(len(d.ID) + len(d.Text) + 16*len(d.Vector))
	c.IDs = append(c.IDs, d.ID)
	if in.documents {
		var text *string
		if d.Text != "" {
			text = new(d.Text)
		}
		c.Documents = append(c.Documents, text)
	}
	if in.embeddings {
		c.Embeddings = append(c.Embeddings, d.Vector)
	}
	var uri *string
	if text, ok := d.Metadata[uriKey].(string); ok {
		uri = &text
		delete(d.Metadata, uriKey)
	}
	if in.uris {
		c.URIs = append(c.URIs, uri)
	}
	if in.metadatas {
		m := d.Metadata
		if len(m) == 0 {
			m = nil
		}
		left.bytes -= int64(document.Footprint(map[string]any(m)))
		c.Metadatas = append(c.Metadatas, m)
	}
	return left.check()
}

func (a *API) allowance(ctx context.Context) *allowance {
	return &allowance{ctx: ctx, records: a.opts.Results, bytes: a.opts.Answer, most: a.opts.Answer}
}
