package rag

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"sync"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/exchange"
)

// An index is a database that mirrors one embedding cache.
type index struct {
	cache string // directory of the cache
	dir   string
	temp  bool // Close removes dir
	vdb   *db.DB

	updating sync.Mutex
}

const collectionName = "chunks"

// Open returns a Retriever over the embedding cache in directory cacheDir. It builds the index, or
// updates the index in Options.Dir. If cacheDir does not exist, Open warns and leaves the index
// unchanged; a new index is then empty.
//
// A file that is named by a hash or begins like an array, but holds no vector, is skipped with a
// warning. Any other file is ignored. A vector whose dimension differs from the first one is an
// error that names the file and both dimensions.
func Open(ctx context.Context, cacheDir string, opts *Options) (*Retriever, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &Retriever{opts: o, index: &index{cache: cacheDir, dir: o.Dir}}
	err = r.index.open(o)
	if err == nil {
		r.chunks, err = r.index.vdb.OpenCollection(ctx, collectionName, db.Schema{Lineage: db.Lineage{Model: o.Model}})
	}
	if err == nil {
		err = r.update(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("%w of %q: %w", ErrLoad, cacheDir, errors.Join(err, r.index.close()))
	}
	return r, nil
}

// Update reads the cache again and brings the index up to date: it writes new and changed chunks
// and removes chunks whose files are gone. A file that is skipped because it is damaged keeps the
// chunk that was read from it before: another program may be writing it. Queries continue during an
// update. Update does nothing for a Retriever made by New.
func (r *Retriever) Update(ctx context.Context) error {
	if r.index == nil {
		return nil
	}
	if err := r.update(ctx); err != nil {
		return fmt.Errorf("%w of %q: %w", ErrLoad, r.index.cache, err)
	}
	return nil
}

func (r *Retriever) update(ctx context.Context) error {
	r.index.updating.Lock()
	defer r.index.updating.Unlock()
	log := r.opts.Logger
	if _, err := os.Stat(r.index.cache); errors.Is(err, fs.ErrNotExist) {
		info, err := r.chunks.Info()
		if err != nil {
			return err
		}
		log.WarnContext(ctx, "no embedding cache", "dir", r.index.cache, "chunks", info.Documents)
		return nil
	}
	src, err := exchange.Open(r.index.cache,
		&exchange.OpenOptions{Format: exchange.EmbeddingCache, Texts: r.opts.Texts})
	if err != nil {
		return err
	}
	seen := recorder{src, map[string]bool{}, log}
	report, err := exchange.Import(ctx, r.chunks, seen, &exchange.ImportOptions{Logger: log})
	if err != nil {
		return err
	}
	removed, err := r.removeExcept(ctx, seen.ids)
	if err != nil {
		return err
	}
	log.DebugContext(ctx, "index follows cache", "dir", r.index.cache, "added", report.Added, "updated", report.Updated,
		"unchanged", report.Unchanged, "skipped", report.Skipped, "removed", removed)
	return nil
}

// removeExcept removes every chunk whose id is not in keep.
func (r *Retriever) removeExcept(ctx context.Context, keep map[string]bool) (int, error) {
	var gone []string
	for d, err := range r.chunks.All(ctx, nil, db.IDsOnly) {
		if err != nil {
			return 0, err
		}
		if !keep[d.ID] {
			gone = append(gone, d.ID)
		}
	}
	if len(gone) == 0 {
		return 0, nil
	}
	return r.chunks.Delete(ctx, gone...)
}

// A recorder records the ids of the documents whose files exist, damaged or not. It leaves metadata
// to the source: a document without a sidecar has none.
type recorder struct {
	exchange.Source
	ids map[string]bool
	log *slog.Logger
}

func (r recorder) Documents(ctx context.Context) iter.Seq2[*exchange.ImportedDocument, error] {
	return func(yield func(*exchange.ImportedDocument, error) bool) {
		for item, err := range r.Source.Documents(ctx) {
			switch {
			case err != nil:
			case item.Skip == nil:
				r.ids[item.Document.ID] = true
				item.Carries |= db.WithMetadata
			case errors.Is(item.Skip, exchange.ErrIgnored): // Import does not report it
				r.log.InfoContext(ctx, "ignored", "file", item.Position.String(), "reason", item.Skip)
			case !errors.Is(item.Skip, fs.ErrNotExist):
				r.ids[item.Document.ID] = true
			}
			if !yield(item, err) {
				return
			}
		}
	}
}

func (x *index) open(o Options) (err error) {
	policy := db.SyncAlways
	if x.dir == "" {
		if x.dir, err = os.MkdirTemp("", "vecbolt-index-"); err != nil {
			return err
		}
		x.temp, policy = true, db.SyncNever
	}
	x.vdb, err = db.Open(x.dir, &db.Options{Sync: policy})
	return err
}

func (x *index) close() (err error) {
	if x.vdb != nil {
		err = x.vdb.Close()
	}
	if x.temp {
		err = errors.Join(err, os.RemoveAll(x.dir))
	}
	return err
}
