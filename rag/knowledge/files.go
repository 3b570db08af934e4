package knowledge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/rag"
)

// A File is a learnt file of a base.
type File struct {
	Name   string   `json:"name"`
	Chunks int      `json:"chunks"`
	Unread []string `json:"unread,omitempty"` // reasons why it, or rows of it, have no text
}

// Files lists at most limit learnt files of a base, in order of name, after a name; an empty name
// begins with the first file. total counts all files. The error matches ErrNotFound if the base was
// never learnt.
func (e *Engine) Files(ctx context.Context, name, after string, limit int) (files []File, total int, err error) {
	err = e.reading(ctx, name, func(r *reader) error {
		page, err := r.files.List(ctx, db.ListQuery{After: after, Limit: limit, Select: db.WithMetadata})
		if err != nil {
			return err
		}
		total = page.Total
		for _, d := range page.Documents {
			files = append(files, fileOf(d))
		}
		return nil
	})
	return files, total, err
}

func fileOf(d *db.Document) File {
	n, _ := d.Metadata[fileChunks].(int64)
	f := File{Name: d.ID, Chunks: int(n)}
	reasons, _ := d.Metadata[fileUnread].([]any)
	for _, r := range reasons {
		if reason, ok := r.(string); ok {
			f.Unread = append(f.Unread, reason)
		}
	}
	return f
}

// FileChunks returns at most limit chunks of a learnt file, in order, without vectors, beginning
// with the chunk at offset. The error matches ErrNotFound if the base has no such file.
func (e *Engine) FileChunks(ctx context.Context, name, file string, offset, limit int) (f File, chunks []rag.Chunk, err error) {
	if offset < 0 || limit < 0 {
		return f, nil, fmt.Errorf("%w: %d chunks from %d", ErrConfig, limit, offset)
	}
	err = e.reading(ctx, name, func(r *reader) error {
		d, err := r.files.Get(ctx, file, db.WithMetadata)
		if errors.Is(err, db.ErrNotFound) {
			return fmt.Errorf("%w: file %q of base %q", ErrNotFound, file, name)
		}
		if err != nil {
			return err
		}
		f = fileOf(d)
		var ids []string
		for i := offset; i < f.Chunks && len(ids) < limit; i++ {
			ids = append(ids, chunkID(file, i))
		}
		docs, err := r.chunks.GetMany(ctx, ids, db.WithText|db.WithMetadata)
		if err != nil {
			return err
		}
		for _, d := range docs {
			if d != nil {
				chunks = append(chunks, rag.Chunk{ID: d.ID, Text: d.Text, Metadata: d.Metadata})
			}
		}
		return nil
	})
	return f, chunks, err
}

// Unread lists the files and rows of a base that have no readable text, by file, at most 1,000: of
// the last run of Learn for each path.
func (e *Engine) Unread(ctx context.Context, name string) (list []Unread, err error) {
	err = e.reading(ctx, name, func(r *reader) error {
		info, err := r.files.Info()
		if err != nil {
			return err
		}
		list = listOf(info.Metadata[brokenFiles])
		for d, err := range r.files.All(ctx, filter.Exists(fileUnread), db.WithMetadata) {
			if err != nil {
				return err
			}
			for _, reason := range fileOf(d).Unread {
				if list = append(list, Unread{d.ID, reason}); len(list) >= maxUnread {
					return nil
				}
			}
		}
		return nil
	})
	slices.SortStableFunc(list, func(a, b Unread) int { return strings.Compare(a.File, b.File) })
	return list, err
}

// reading calls f with a base that is open for reading.
func (e *Engine) reading(ctx context.Context, name string, f func(r *reader) error) error {
	r, err := e.read(ctx, name)
	if err != nil {
		return err
	}
	if err := errors.Join(f(r), r.close()); err != nil {
		return fmt.Errorf("knowledge: %q: %w", name, err)
	}
	return nil
}

// brokenFiles is the field in the metadata of the collection of files that lists files that cannot
// be read, with the reasons: they have no document there, or one with their previous content.
const brokenFiles = "broken"

// Bounds of a stored list and its reasons, in bytes: it has to fit into the metadata of a
// collection, and the reasons for rows into the record of their file.
const (
	maxReason = 300
	maxBroken = 512 << 10
)

// brokenFiles returns the list to store: files of this run, and files of earlier runs that are not
// below its paths.
func (l *learner) brokenFiles(before any) []any {
	covered := func(file string) bool {
		return slices.ContainsFunc(l.o.Paths, func(path string) bool { return l.covers(path, file) })
	}
	var list []any // pairs, flat: metadata have no lists in lists
	bytes := 0
	for _, u := range append(l.broken, slices.DeleteFunc(listOf(before), func(u Unread) bool { return covered(u.File) })...) {
		reason := brief(u.Reason)
		if bytes += len(u.File) + len(reason); len(list) < 2*maxUnread && bytes <= maxBroken {
			list = append(list, u.File, reason)
		}
	}
	return list
}

// brief cuts a reason to the length that is stored.
func brief(reason string) string {
	return strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "")
}

// covers reports whether a path names an unread file, or a directory above it.
func (l *learner) covers(path, file string) bool {
	if path == stdin || file == stdin {
		return path == file
	}
	return l.root.has(printable(l.root.id(path)), file)
}

func listOf(stored any) (list []Unread) {
	all, _ := stored.([]any)
	for pair := range slices.Chunk(all, 2) {
		file, _ := pair[0].(string)
		reason, _ := pair[len(pair)-1].(string)
		list = append(list, Unread{file, reason})
	}
	return list
}
