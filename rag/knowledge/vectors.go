package knowledge

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/embed"
)

// embed gives every chunk of some files a vector, and returns the files. A row with a text that the
// provider refuses is left out of its file, and another file with such a text is skipped.
func (l *learner) embed(files []change) ([]change, error) {
	docs, err := l.unembedded(files)
	if err != nil {
		return nil, err
	}
	refusals := map[*db.Document]error{}
	if err := l.vectors(docs, refusals); err != nil || len(refusals) == 0 {
		return files, err
	}
	var taken []change
	for _, c := range files {
		if err := c.leaveOut(refusals); err != nil {
			l.skip(c.id, err)
			continue
		}
		taken = append(taken, c)
	}
	return taken, nil
}

// duplicate returns a file that had this content before the run, or nil. Renamed and copied files
// reuse its vectors.
func (l *learner) duplicate(hash string) (*db.Document, error) {
	if l.before == nil {
		l.before = map[string]*db.Document{}
		for d, err := range l.files.All(l.ctx, nil, db.WithMetadata) {
			if err != nil {
				return nil, err
			}
			if h, ok := d.Metadata[fileHash].(string); ok {
				l.before[h] = d
			}
		}
	}
	return l.before[hash], nil
}

// unembedded returns the chunks of some files that are to be embedded. The others get the vector of
// a chunk of the same files, or of files with the same content, that has the same text and header.
func (l *learner) unembedded(files []change) (missing []*db.Document, err error) {
	var docs []*db.Document
	var ids []string // of chunks that may have the same text
	for _, c := range files {
		for i := range c.docs {
			docs = append(docs, &c.docs[i])
			ids = append(ids, c.docs[i].ID)
		}
		if c.duplicate != nil {
			ids = append(ids, chunkIDs(c.duplicate)...)
		}
	}
	known := map[string][]float32{}
	old, err := l.chunks.GetMany(l.ctx, ids, db.Everything)
	if err != nil {
		return nil, err
	}
	for _, d := range old {
		if d != nil {
			known[rag.Embedded(d.Text, d.Metadata)] = d.Vector
		}
	}
	for _, d := range docs {
		if vec := known[rag.Embedded(d.Text, d.Metadata)]; len(vec) == l.config.Embedding.Dimensions {
			d.Vector = vec
			continue
		}
		missing = append(missing, d)
	}
	return missing, nil
}

// vectors embeds chunks. If the provider refuses a request, the halves are tried one after the
// other until the refused text is alone: the error need not name it.
func (l *learner) vectors(docs []*db.Document, refusals map[*db.Document]error) error {
	if len(docs) == 0 {
		return nil
	}
	texts := make([]string, len(docs))
	for i, d := range docs {
		texts[i] = rag.Embedded(d.Text, d.Metadata)
	}
	start := time.Now()
	vecs, err := l.embedder.EmbedBatch(l.ctx, texts)
	if refused(err) {
		// A wrong key or setting, or a broken server, gives the same answer to every text. So try
		// another one, whose vector is of no use to a cache.
		provider := embed.Batches(uncached(l.embedder), nil) // checks the vector
		if _, other := provider.EmbedBatch(l.ctx, []string{rand.Text()}); other != nil {
			return err
		}
		if len(docs) == 1 {
			refusals[docs[0]] = err
			return nil
		}
		half := len(docs) / 2
		if err := l.vectors(docs[:half], refusals); err != nil {
			return err
		}
		return l.vectors(docs[half:], refusals)
	}
	if err != nil {
		return err
	}
	l.opts.Logger.InfoContext(l.ctx, "embedded", "base", l.config.Name, "texts", len(texts), "provider", l.embedder.Provider(),
		"model", l.embedder.Model(), "dimensions", l.config.Embedding.Dimensions, "took", time.Since(start))
	for i, d := range docs {
		d.Vector = vecs[i]
	}
	l.report.Embedded += len(texts)
	return nil
}

// refused reports whether a provider answered that it does not embed some texts, for example
// because one is too long. Some servers call that an error of their own, or return no valid vector.
func refused(err error) bool {
	var e *embed.Error
	if !errors.As(err, &e) {
		return false
	}
	if e.Kind == embed.ErrInvalidResponse {
		return true
	}
	switch e.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity,
		http.StatusInternalServerError:
		return true
	}
	return false
}

// leaveOut removes rows with a text that the provider refused. The error has such
// texts, if the file has no rows or none would be left.
func (c *change) leaveOut(refusals map[*db.Document]error) error {
	if c.rows == nil {
		return c.passages(refusals)
	}
	out := map[int]bool{}
	var first error
	for i := range c.docs {
		err := refusals[&c.docs[i]]
		if err == nil {
			continue
		}
		if row := c.rows[i]; !out[row] {
			out[row] = true
			c.unread.row(row, err)
			first = cmp.Or(first, rowReason(row, err))
		}
	}
	if len(out) == 0 {
		return nil
	}
	docs, rows := c.docs, c.rows
	c.docs, c.rows = nil, nil
	for i, d := range docs {
		if !out[rows[i]] {
			d.ID = chunkID(c.id, len(c.docs))
			d.Metadata[rag.FieldChunkIndex] = int64(len(c.docs))
			c.docs, c.rows = append(c.docs, d), append(c.rows, rows[i])
		}
	}
	if len(c.docs) == 0 {
		return first
	}
	c.record[fileRefused] = true
	c.complete()
	return nil
}

// passages is the error for the passages that the provider refused, nil without any. It shows
// the first ones, so that not each of them needs a run to be found.
func (c *change) passages(refusals map[*db.Document]error) error {
	const most = 5
	var shown []string
	n := 0
	for i := range c.docs {
		err := refusals[&c.docs[i]]
		if err == nil {
			continue
		}
		if n++; n <= most {
			shown = append(shown, fmt.Sprintf("the passage %.60q: %v", c.docs[i].Text, err))
		}
	}
	switch {
	case n == 0:
		return nil
	case n > most:
		shown = append(shown, fmt.Sprintf("and %d more passages", n-most))
	}
	return errors.New(strings.Join(shown, "; "))
}
