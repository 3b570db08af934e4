package knowledge

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/load"
	"github.com/vecbolt/vecbolt/rag/split"
)

// A change is the update of one file.
type change struct {
	id        string
	docs      []db.Document
	rows      []int        // of docs; nil if the file is no list of rows
	unread    reasons      // why rows of the file are not in docs
	before    int          // chunks before the update
	duplicate *db.Document // an existing file with the same content, if this file is new
	record    db.Metadata
	bytes     int // size in a batch, with vectors
}

// write adds the update of a file to a batch.
func (c *change) write(b *db.Batch, chunks string) {
	for _, d := range c.docs {
		b.Upsert(chunks, d)
	}
	for i := len(c.docs); i < c.before; i++ {
		b.Delete(chunks, chunkID(c.id, i))
	}
	b.Upsert(filesName, db.Document{ID: c.id, Metadata: c.record})
}

// complete gives the record of the file the number of its chunks, and the reasons.
func (c *change) complete() {
	c.record[fileChunks] = int64(len(c.docs))
	if unread := c.unread.list(); len(unread) > 0 {
		c.record[fileUnread] = unread
	}
}

// split reads a file and divides it into chunks. It returns nil if the file cannot be read or
// stored. The change has the reasons why rows of it, or its pages, have no text or cannot be
// stored.
func (l *learner) split(id string, content []byte) (*change, error) {
	c := &change{id: id}
	var refusal error // of the first row that cannot be stored
	for doc, err := range load.Read(l.ctx, id, bytes.NewReader(content), l.o.Load) {
		var skip *load.SkipError
		if errors.As(err, &skip) {
			if skip.Row > 0 {
				c.unread.row(skip.Row, skip.Err)
				continue
			}
			if errors.Is(err, load.ErrEmpty) { // readable but empty: the previous content is removed
				c.unread.first = append(c.unread.first, skip.Err.Error())
				break
			}
			l.skip(id, err)
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		s, err := l.config.splitter(doc, l.embedder, l.opts.Tokens.Count)
		if err != nil {
			return nil, err
		}
		chunks, err := s.Split(l.ctx, doc.Text)
		if err != nil {
			return nil, err
		}
		before := len(c.docs)
		for _, chunk := range chunks {
			n := len(c.docs)
			d := db.Document{ID: chunkID(id, n), Text: chunk.Text, Metadata: metadata(id, doc, chunk, n)}
			if err = storable(d); err != nil {
				c.docs = c.docs[:before]
				break
			}
			c.docs = append(c.docs, d)
		}
		for doc.Row > 0 && len(c.rows) < len(c.docs) {
			c.rows = append(c.rows, doc.Row)
		}
		switch {
		case err != nil && doc.Row == 0:
			l.skip(id, err)
			return nil, nil
		case err != nil:
			c.unread.row(doc.Row, err)
			refusal = cmp.Or(refusal, rowReason(doc.Row, err))
		}
	}
	if len(c.docs) == 0 && refusal != nil {
		l.skip(id, refusal)
		return nil, nil
	}
	return c, nil
}

// storable returns the reason why the database would refuse a document.
func storable(d db.Document) error {
	var b db.Batch
	b.Upsert("", d)
	err := b.Err()
	if cause := errors.Unwrap(err); cause != nil && cause != db.ErrInvalid {
		return cause // without the id of the chunk
	}
	return err
}

func chunkID(file string, i int) string { return fmt.Sprintf("%s#%d", file, i) }

// chunkIDs returns the ids of the chunks of a file.
func chunkIDs(file *db.Document) []string {
	n, _ := file.Metadata[fileChunks].(int64)
	ids := make([]string, max(0, n))
	for i := range ids {
		ids[i] = chunkID(file.ID, i)
	}
	return ids
}

// rowField is the metadata field with the row of a chunk in its file, from 1.
const rowField = "row"

// ownPrefix begins the name under which a chunk has a field of its file whose name Learn uses.
const ownPrefix = "own_"

// metadata has the fields of a document and the position of a chunk in it. A field of the document
// whose name the position takes is kept under another name.
func metadata(id string, doc *load.Document, c split.Chunk, index int) db.Metadata {
	m := db.Metadata(maps.Clone(doc.Metadata))
	if m == nil {
		m = db.Metadata{}
	}
	set := func(field string, value any) {
		own, taken := doc.Metadata[field]
		if _, other := doc.Metadata[ownPrefix+field]; taken && !other && own != value {
			m[ownPrefix+field] = own
		}
		m[field] = value
	}
	set(rag.FieldSourceFile, id)
	set(rag.FieldFormat, string(doc.Format))
	set(rag.FieldChunkIndex, int64(index))
	set(rag.FieldChunkLength, int64(len(c.Text)))
	set(rag.FieldOffset, int64(doc.Base+c.Offset))
	if page := doc.Page(c.Offset); page > 0 {
		set(rag.FieldPage, int64(page))
	} else if line := doc.Line(c.Offset); line > 0 {
		set(rag.FieldLineNumber, int64(line))
	}
	if doc.Row > 0 {
		set(rowField, int64(doc.Row))
	}
	if c.Header != "" {
		set(rag.FieldHeader, c.Header)
	}
	if doc.Title != "" {
		set(rag.FieldTitle, doc.Title)
	}
	return m
}
