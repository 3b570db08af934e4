package knowledge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/eval"
	"github.com/vecbolt/vecbolt/text"
)

// During re-embedding a base has two databases: the active one, named by config.yaml, which answers
// questions, and the next one, which is being built. next.yaml holds the configuration of the next
// one. The switch replaces config.yaml by a rename.
const (
	firstIndex = "index.vdb"
	nextConfig = "next.yaml"
)

// generation returns the number of a base's database: 1 for index.vdb, N for index-N.vdb.
func generation(index string) (n int, ok bool) {
	if index == firstIndex {
		return 1, true
	}
	middle, prefixed := strings.CutPrefix(index, "index-")
	middle, suffixed := strings.CutSuffix(middle, ".vdb")
	n, err := strconv.Atoi(middle)
	return n, prefixed && suffixed && err == nil && n > 1 && n < 1<<30 && indexName(n) == index
}

func indexName(n int) string { return fmt.Sprintf("index-%d.vdb", n) }

// nextIndex names the database that follows the active one.
func nextIndex(c Config) string {
	n, _ := generation(cmp.Or(c.Index, firstIndex))
	return indexName(n + 1)
}

// next returns the configuration of the unfinished re-embedding of a base, if there is one.
func (e *Engine) next(c Config) (next Config, ok bool, err error) {
	next, err = readConfig(filepath.Join(e.dir(c.Name), nextConfig))
	if errors.Is(err, fs.ErrNotExist) {
		return next, false, nil
	}
	return next, err == nil && next.Index == nextIndex(c), err
}

// sweep removes databases that were replaced but not deleted, because the switch was interrupted or
// the database was in use. Databases that are still in use stay until the next sweep.
func (e *Engine) sweep(c Config) {
	now, _ := generation(cmp.Or(c.Index, firstIndex))
	entries, err := os.ReadDir(e.dir(c.Name))
	if err != nil {
		return
	}
	for _, entry := range entries {
		index := strings.TrimSuffix(entry.Name(), removedSuffix)
		if n, ok := generation(index); ok && n < now {
			if err := removeIndex(filepath.Join(e.dir(c.Name), index)); err != nil {
				e.opts.Logger.Debug("a replaced database stays for now", "dir", entry.Name(), "error", err)
			}
		}
	}
	if e.hasOldNext(c) {
		e.sweepNext(c.Name)
	}
}

// hasOldNext reports whether a base has the configuration of a next database that is left over from
// a switch.
func (e *Engine) hasOldNext(c Config) bool {
	if _, err := os.Stat(filepath.Join(e.dir(c.Name), nextConfig)); err != nil {
		return false
	}
	_, ok, err := e.next(c)
	return err == nil && !ok
}

// sweepNext removes the configuration of a next database that is left over from a switch. It takes
// the lock of Reembed, which others fail without.
func (e *Engine) sweepNext(name string) {
	unlock, err := e.lock(context.Background(), name, toReembed, false)
	if err != nil { // it is in use
		return
	}
	defer unlock()
	// Another run may have removed it since, and begun a new one.
	if c, err := e.Config(name); err == nil && e.hasOldNext(c) {
		_ = os.Remove(filepath.Join(e.dir(name), nextConfig))
	}
}

// ReembedOptions tune Reembed.
type ReembedOptions struct {
	// Config names the new embedder by Provider, Model and Embedding; other fields are ignored and
	// stay as they are. nil continues an unfinished re-embedding.
	Config *Config

	// Queries, if any, are the questions that compare both models, instead of a sample of chunks.
	// Their vectors are ignored.
	Queries []eval.Query
	// Qrels, if any, judge which chunks or files answer which Queries.
	Qrels eval.Qrels
	// K is the number of chunks compared per question; 0 means 10.
	K int
	// Sample is the number of chunks used for the comparison if there are no Queries; 0 means 100.
	Sample int

	// Switch decides whether the base answers from the new vectors from now on. If it is nil or
	// returns false, the base stays as it is, and the new vectors are kept for another call.
	Switch func(*Reembedding) bool
	// Progress, if set, is called with the number of files done.
	Progress func(files int)
}

// A Reembedding is the report of Reembed.
type Reembedding struct {
	From     string  `json:"from"` // the previous embedder of the base
	To       string  `json:"to"`
	Files    int     `json:"files"`
	Chunks   int     `json:"chunks"`
	Embedded int     `json:"embedded"` // chunks embedded by this call
	Switched bool    `json:"switched"`
	Seconds  float64 `json:"seconds"`

	// Questions is the number of questions on which both models were compared: Queries, answered as
	// by Query, or a sample of chunks, compared by their nearest neighbours.
	Questions int     `json:"questions"`
	Sampled   bool    `json:"sampled"`
	K         int     `json:"k"`
	Overlap   float64 `json:"overlap"` // mean share of the best K that both models found

	// With judgements: the means of nDCG@K, and whether the difference is significant.
	Before  *float64         `json:"ndcg_before,omitempty"`
	After   *float64         `json:"ndcg_after,omitempty"`
	Compare *eval.Comparison `json:"compare,omitempty"`
}

// Reembed embeds all chunks of a base with another model, in a second database, compares the
// results of both models, and switches if Switch says so. The base answers questions all the time.
// Others can learn until the comparison begins; their chunks are embedded too. Then they wait, as
// it waits for them. A second Reembed meanwhile fails with db.ErrLocked. The switch is atomic, and
// an interrupted call is continued by the next one. If the new model refuses texts, the error names
// them, and the base stays as it is: no passage is lost by a switch. The other files are embedded,
// and the next call tries only those again. Discard drops an unfinished re-embedding.
func (e *Engine) Reembed(ctx context.Context, name string, o ReembedOptions) (*Reembedding, error) {
	start := time.Now()
	r, err := e.reembed(ctx, name, o)
	if c, changed := e.Config(name); changed == nil {
		e.dropEmbedders(c) // of the previous model, or of the next one
	}
	if err != nil {
		return nil, fmt.Errorf("knowledge: reembed %q: %w", name, err)
	}
	if r.Switched { // no database is open here
		if err := e.release(name); err != nil {
			return nil, err
		}
		if c, err := e.Config(name); err == nil {
			e.sweep(c)
		}
		e.at("swept")
	}
	r.Seconds = time.Since(start).Seconds()
	return r, nil
}

func (e *Engine) reembed(ctx context.Context, name string, o ReembedOptions) (r *Reembedding, err error) {
	o.K, o.Sample = cmp.Or(o.K, 10), cmp.Or(o.Sample, 100)
	if o.K < 0 || o.K >= math.MaxInt32 || o.Sample < 0 {
		return nil, fmt.Errorf("%w: k is %d, sample is %d", ErrConfig, o.K, o.Sample)
	}
	if _, err := e.Config(name); err != nil {
		return nil, err
	}
	unlock, err := e.lock(ctx, name, toReembed, false)
	if err != nil {
		return nil, err
	}
	defer unlock()
	c, err := e.Config(name) // another run may have switched since
	if err != nil {
		return nil, err
	}
	l, err := e.staging(ctx, c, o.Config)
	if err != nil {
		return nil, err
	}
	e.at("staged")
	// The long part runs without blocking readers or learners for long.
	err = l.follow(o, func() (*reader, func() error, error) {
		old, err := e.readAlone(ctx, name)
		if err != nil {
			return nil, nil, err
		}
		return old, old.close, nil
	})
	if err != nil {
		return nil, errors.Join(err, l.vdb.Close())
	}
	e.at("followed")

	// Learning is locked out from here on: the base compared must be the base that becomes current.
	old, err := e.readAlone(ctx, name)
	if err != nil {
		return nil, errors.Join(err, l.vdb.Close())
	}
	defer func() { err = errors.Join(err, old.close()) }()
	r = &Reembedding{From: c.embedding().String(), To: l.config.embedding().String(), K: o.K}
	err = r.finish(l, o, old, c)
	if err = errors.Join(err, l.vdb.Close()); err != nil {
		return nil, err
	}
	staged, err := e.readIndex(ctx, l.config, opener(db.Options{ReadOnly: true, Exclusive: true}).open)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, staged.close()) }()
	if err := r.compare(ctx, o, old, staged); err != nil {
		return nil, err
	}
	e.at("compared")
	if o.Switch == nil || !o.Switch(r) {
		return r, nil
	}
	if err := e.switchTo(ctx, l.config); err != nil {
		return nil, err
	}
	r.Switched = true
	e.at("switched")
	return r, nil
}

// switchTo makes a base answer from the index of c. Other settings stay, those that were changed in
// the meantime too. The lock toLearn is held, so that nobody else switches.
func (e *Engine) switchTo(ctx context.Context, c Config) error {
	unlock, err := e.lock(ctx, c.Name, toConfigure, true)
	if err != nil {
		return err
	}
	defer unlock()
	to, err := e.Config(c.Name)
	if err != nil {
		return err
	}
	to.Provider, to.Model, to.Embedding, to.Index = c.Provider, c.Model, c.Embedding, c.Index
	return e.save(to)
}

// finish brings the staged database up to date for the last time.
func (r *Reembedding) finish(l *learner, o ReembedOptions, old *reader, c Config) error {
	if old.config.Index != c.Index {
		return errors.New("the base switched to another index in the meantime")
	}
	err := l.follow(o, func() (*reader, func() error, error) { return old, func() error { return nil }, nil })
	if err != nil {
		return err
	}
	chunks, err := old.chunks.Info()
	if err != nil {
		return err
	}
	if err := l.chunks.SetText(l.ctx, chunks.Schema.Text); err != nil {
		return err
	}
	files, err := old.files.Info()
	if err != nil {
		return err
	}
	m := pin(l.config.embedding(), chunksName)
	for _, field := range []string{learntAt, rooted, learntLanguage, brokenFiles} {
		if value, ok := files.Metadata[field]; ok {
			m[field] = value
		}
	}
	if r.Files, r.Chunks, err = sizes(l.files, l.chunks); err != nil {
		return err
	}
	r.Embedded = l.report.Embedded
	return l.files.SetMetadata(l.ctx, m)
}

// sizes returns the numbers of documents of two collections.
func sizes(files, chunks *db.Collection) (nFiles, nChunks int, err error) {
	f, err := files.Info()
	if err != nil {
		return 0, 0, err
	}
	c, err := chunks.Info()
	return f.Documents, c.Documents, err
}

// Discard drops an unfinished re-embedding. Without one it does nothing. The error matches
// db.ErrLocked while a Reembed runs.
func (e *Engine) Discard(name string) error {
	if _, err := e.Config(name); err != nil {
		return err
	}
	unlock, err := e.lock(context.Background(), name, toReembed, false)
	if err != nil {
		return err
	}
	defer unlock()
	c, err := e.Config(name)
	if err != nil {
		return err
	}
	dir := e.dir(name)
	if err := removeIndex(filepath.Join(dir, nextIndex(c))); err != nil {
		return fmt.Errorf("knowledge: discard the re-embedding of %q: %w", name, err)
	}
	if err := os.Remove(filepath.Join(dir, nextConfig)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("knowledge: discard the re-embedding of %q: %w", name, err)
	}
	return nil
}

// staging opens the next database of a base: empty, or as an earlier call left it.
func (e *Engine) staging(ctx context.Context, c Config, asked *Config) (l *learner, err error) {
	begun, ok, err := e.next(c)
	if err != nil {
		return nil, err
	}
	to := c
	switch {
	case asked != nil:
		to.Provider, to.Model, to.Embedding = asked.Provider, asked.Model, asked.Embedding
		to.fill(e.Defaults(c.Name))
	case ok:
		to.Provider, to.Model, to.Embedding = begun.Provider, begun.Model, begun.Embedding
	default:
		return nil, fmt.Errorf("%w: no provider or model is named, and nothing was begun", ErrConfig)
	}
	to.Index = nextIndex(c)
	l = &learner{Engine: e, ctx: ctx, config: to, seen: map[string]bool{}, begun: true} // finish pins the configuration
	if err := l.settle(); err != nil {
		return nil, err
	}
	if sameEmbedding(l.config, c) {
		return nil, fmt.Errorf("%w: the base has this embedder already: %v", ErrConfig, c.embedding())
	}
	if l.vdb, err = openStaged(e.database(to)); err != nil {
		return nil, err
	}
	if !ok || !sameEmbedding(l.config, begun) { // not begun, or begun with another model
		err = l.vdb.Close()
		if err == nil {
			err = removeIndex(e.database(to))
		}
		if err == nil {
			err = writeConfig(filepath.Join(e.dir(c.Name), nextConfig), l.config, e.hook)
		}
		if err != nil {
			return nil, err
		}
		e.at("begun")
		if l.vdb, err = openStaged(e.database(to)); err != nil {
			return nil, err
		}
	}
	err = l.open()
	if now, changed := e.Config(c.Name); err == nil && (changed != nil || now.Index != c.Index) {
		err = errors.Join(changed, errors.New("the base switched to another index in the meantime"))
	}
	if err != nil {
		return nil, errors.Join(err, l.vdb.Close())
	}
	return l, nil
}

// openStaged opens the next database of a base for one run of Reembed alone: nobody asks it.
func openStaged(dir string) (*db.DB, error) { return db.Open(dir, &db.Options{Exclusive: true}) }

// sameEmbedding reports whether two configurations give the same vectors.
func sameEmbedding(a, b Config) bool {
	x, y := a.embedding(), b.embedding()
	x.BatchSize, y.BatchSize = 0, 0
	j, err := json.Marshal(x)
	k, err2 := json.Marshal(y)
	return err == nil && err2 == nil && string(j) == string(k)
}

// follow updates the staged files to match the base: the same chunks, with vectors of the new
// model. It opens the base for each portion, so that learners can run in between. It fails if the
// new model refuses chunks, after all others are embedded.
func (l *learner) follow(o ReembedOptions, open func() (*reader, func() error, error)) error {
	clear(l.seen)
	l.report.Broken, l.report.Unread = 0, nil
	for after, more := "", true; more; {
		old, done, err := open()
		if err != nil {
			return err
		}
		if err = l.keepIndex(old); err == nil {
			after, more, err = l.portion(old, after)
		}
		if err = errors.Join(err, done()); err != nil {
			return err
		}
		if err := l.write(); err != nil {
			return err
		}
		if o.Progress != nil {
			o.Progress(len(l.seen))
		}
		l.at("written")
	}
	var gone []*db.Document
	for d, err := range l.files.All(l.ctx, nil, db.WithMetadata) {
		if err != nil {
			return err
		}
		if !l.seen[d.ID] {
			gone = append(gone, d)
		}
	}
	if err := l.drop(gone); err != nil {
		return err
	}
	return l.report.refusal()
}

// refusal is the error of a re-embedding for files with chunks that the new model refuses. It names
// the first ones.
func (r *Report) refusal() error {
	if r.Broken == 0 {
		return nil
	}
	const most = 10
	errs := []error{fmt.Errorf("the new model refuses chunks, so the base stays as it is; files: %d", r.Broken)}
	for _, u := range r.Unread[:min(most, len(r.Unread))] {
		errs = append(errs, fmt.Errorf("%s: %s", u.File, u.Reason))
	}
	return errors.Join(errs...)
}

// keepIndex gives the staged chunks the index of the base's before they are written: its files are
// built once.
func (l *learner) keepIndex(old *reader) error {
	chunks, err := old.chunks.Info()
	if err != nil {
		return err
	}
	return l.chunks.SetIndex(l.ctx, chunks.Schema.Index)
}

// portion collects files after id after that differ from the staged ones, until there are enough to
// embed or a page has been read. more reports whether there may be further files.
func (l *learner) portion(old *reader, after string) (last string, more bool, err error) {
	page, err := old.files.List(l.ctx, db.ListQuery{After: after, Limit: 1000, Select: db.WithMetadata})
	if err != nil {
		return "", false, err
	}
	staged, err := l.files.GetMany(l.ctx, page.IDs(), db.WithMetadata)
	if err != nil {
		return "", false, err
	}
	for i, file := range page.Documents {
		last = file.ID
		l.seen[last] = true
		var before []string
		if was := staged[i]; was != nil {
			if before = chunkIDs(was); same(was.Metadata, file.Metadata) {
				continue
			}
		}
		chunks, err := old.chunks.GetMany(l.ctx, chunkIDs(file), db.WithText|db.WithMetadata)
		if err != nil {
			return "", false, err
		}
		ch := change{id: file.ID, before: len(before), record: file.Metadata}
		for j, d := range chunks {
			if d == nil {
				return "", false, fmt.Errorf("chunk %q is missing", chunkID(file.ID, j))
			}
			ch.docs = append(ch.docs, *d)
		}
		l.pending = append(l.pending, ch)
		if l.texts += len(ch.docs); l.texts >= 4*l.config.Embedding.BatchSize {
			return last, true, nil
		}
	}
	return last, page.Next != "", nil
}

// same reports whether two file records are equal.
func same(a, b db.Metadata) bool {
	return a[fileHash] == b[fileHash] && a[fileSplitter] == b[fileSplitter] && a[fileChunks] == b[fileChunks] &&
		reflect.DeepEqual(a[fileUnread], b[fileUnread])
}

// A side is one of the two models of a comparison.
type side struct {
	name   string
	chunks *db.Collection
	vecs   map[string][]float32 // of the questions
}

// compare fills in the comparison of both models.
func (r *Reembedding) compare(ctx context.Context, o ReembedOptions, old, staged *reader) error {
	sides := [2]side{{name: "before", chunks: old.chunks}, {name: "after", chunks: staged.chunks}}
	if len(o.Queries) == 0 {
		return r.sample(ctx, o, sides)
	}
	texts := make([]string, len(o.Queries))
	for i, q := range o.Queries {
		texts[i] = q.Text
	}
	for i, e := range []embed.Embedder{old.embedder, staged.embedder} {
		vecs, err := embed.Queries(e).EmbedBatch(ctx, texts)
		if err != nil {
			return err
		}
		sides[i].vecs = map[string][]float32{}
		for j, q := range o.Queries {
			sides[i].vecs[q.ID] = vecs[j]
		}
	}
	for _, q := range o.Queries {
		var found [2][]string
		for i, s := range sides {
			hits, err := s.search(ctx, q, o.K)
			if err != nil {
				return err
			}
			for _, h := range hits {
				found[i] = append(found[i], h.ID)
			}
		}
		r.count(found)
	}
	r.mean()
	if len(o.Qrels) == 0 {
		return nil
	}
	judged, err := findJudged(ctx, old.chunks, o.Qrels.Only(o.Queries), "")
	if err != nil {
		return err
	}
	metric := eval.NDCG(o.K)
	lab := eval.Lab{Queries: o.Queries, Qrels: o.Qrels, Metrics: []eval.Metric{metric}, Depth: o.K}
	report, err := lab.Measure(ctx, sides[0].runner(judged), sides[1].runner(judged))
	if err != nil {
		return err
	}
	before, after := report.Results[0].Evaluation.Mean(metric), report.Results[1].Evaluation.Mean(metric)
	r.Before, r.After, r.Compare = &before, &after, report.Results[1].Versus
	return nil
}

// search answers a question as Query does.
func (s side) search(ctx context.Context, q eval.Query, k int) ([]db.Hit, error) {
	query := db.Query{Near: db.Vector(s.vecs[q.ID]), K: k, Select: db.WithMetadata}
	chunks, err := s.chunks.Info()
	if err != nil {
		return nil, err
	}
	if chunks.Schema.Text != nil {
		query.Text = text.Question(q.Text)
	}
	res, err := s.chunks.Search(ctx, query)
	if err != nil {
		return nil, err
	}
	return res.Hits, nil
}

func (s side) runner(judged *judgedIDs) eval.Runner {
	return eval.RunnerFunc(s.name, func(ctx context.Context, q eval.Query, depth int) ([]eval.Scored, error) {
		hits, err := s.search(ctx, q, 4*depth) // several chunks may belong to one file
		if err != nil {
			return nil, err
		}
		chunks := make([]rag.Chunk, len(hits))
		for i, h := range hits {
			chunks[i] = rag.Chunk{ID: h.ID, Score: h.Score, Metadata: h.Metadata}
		}
		return judged.rank(chunks), nil
	})
}

// sample compares the neighbours of random chunks by their stored vectors, without embedding.
func (r *Reembedding) sample(ctx context.Context, o ReembedOptions, sides [2]side) error {
	r.Sampled = true
	var ids []string
	for d, err := range sides[0].chunks.All(ctx, nil, db.IDsOnly) {
		if err != nil {
			return err
		}
		ids = append(ids, d.ID)
	}
	slices.Sort(ids)
	n := min(o.Sample, len(ids))
	for i := range n {
		var found [2][]string
		for j, s := range sides {
			id := ids[i*len(ids)/n]
			res, err := s.chunks.Search(ctx, db.Query{Near: db.Stored(id), K: o.K + 1, Select: db.IDsOnly})
			if err != nil {
				return err
			}
			for _, h := range res.Hits {
				if h.ID != id && len(found[j]) < o.K {
					found[j] = append(found[j], h.ID)
				}
			}
		}
		r.count(found)
	}
	r.mean()
	return nil
}

// count adds the results of both models for one question.
func (r *Reembedding) count(found [2][]string) {
	r.Questions++
	both := 0
	for _, id := range found[0] {
		if slices.Contains(found[1], id) {
			both++
		}
	}
	if n := max(len(found[0]), len(found[1])); n > 0 {
		r.Overlap += float64(both) / float64(n)
	} else {
		r.Overlap++ // neither model found anything
	}
}

func (r *Reembedding) mean() { r.Overlap /= float64(max(1, r.Questions)) }
