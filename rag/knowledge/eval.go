package knowledge

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/eval"
)

// EvalOptions say how a base is asked when it is measured.
type EvalOptions struct {
	// Runs are the ways to ask that are compared, the first being the baseline. A run is "base",
	// the configuration as it is, or a strategy, and then, after plus signs, a reranker and keys of
	// the configuration: "hybrid", "hybrid+lexical", "hybrid+fusion=rrf", "base+candidates=50". A
	// run that names a strategy has no reranker unless it names one. None means DefaultRuns.
	Runs []string
	// Judged is the kind of the judged ids: "file", "row" (FILE:ROW, rows counted from 1), "chunk",
	// or the path of a metadata field with texts or integers. Empty means the one that knows most
	// of the ids; judgements of files may then name rows or chunks, too.
	Judged string
	// Set sets keys of the configuration in all runs, as QueryOptions.Set does.
	Set   map[string]any
	Where filter.Expr // filter on the metadata of chunks
	// Progress, if set, is called after each question of each run.
	Progress func(done, total int)

	most int // as in QueryOptions
}

// An Evaluation is the result of Eval.
type Evaluation struct {
	*eval.Report
	Judged  string // the kind of the judged ids, as in EvalOptions
	IDs     int    // ids that are judged relevant
	Unknown int    // those that the base does not have
}

// asConfigured is the name of the run that changes nothing in the configuration of a base.
const asConfigured = "base"

// Eval measures how well a base finds the ids that are judged relevant. It ranks the judged ids by
// their best chunk; a chunk that belongs to none takes its place under its own id. A reranker
// orders the chunks that it gets in an answer, the key candidates or four times top_k, and the rest
// follows in the order of the search. Neither siblings nor the cache take part.
//
// lab has the questions, judgements, metrics and depth. Only the texts of questions are used. The
// error matches eval.ErrNotJudged if the base has none of the ids that are judged relevant, and
// ErrConfig if a run cannot be asked, for example for want of vectors.
func (e *Engine) Eval(ctx context.Context, name string, lab eval.Lab, o EvalOptions) (*Evaluation, error) {
	r, err := e.read(ctx, name)
	if err != nil {
		return nil, err
	}
	defer r.close()
	ev := evaluator{engine: e, reader: r, lab: lab, o: o, spent: &usage{}}
	result, err := ev.measure(ctx)
	e.state(name).spend(ev.spent, r.config)
	if err != nil {
		return nil, fmt.Errorf("knowledge: evaluate %q: %w", name, err)
	}
	return result, nil
}

// An evaluator is one call of Eval.
type evaluator struct {
	engine *Engine
	reader *reader
	lab    eval.Lab
	o      EvalOptions
	judged *judgedIDs
	vecs   map[string][]float32 // of the questions, by id
	spent  *usage

	done, total int // questions of all runs
}

func (ev *evaluator) measure(ctx context.Context) (*Evaluation, error) {
	chunks, err := ev.reader.stats()
	if err != nil {
		return nil, err
	}
	if chunks.Documents == 0 {
		return nil, fmt.Errorf("%w: the base has no chunks", ErrConfig)
	}
	qrels := ev.lab.Qrels.Only(ev.lab.Queries)
	ev.lab.Queries = slices.DeleteFunc(slices.Clone(ev.lab.Queries), func(q eval.Query) bool { return qrels[q.ID] == nil })
	if len(ev.lab.Queries) == 0 {
		return nil, fmt.Errorf("%w: none of the questions is judged", eval.ErrNotJudged)
	}
	for _, q := range ev.lab.Queries {
		if strings.TrimSpace(q.Text) == "" {
			return nil, fmt.Errorf("question %q: %w", q.ID, eval.ErrNoText)
		}
	}
	if ev.judged, err = findJudged(ctx, ev.reader.chunks, qrels, ev.o.Judged); err != nil {
		return nil, err
	}
	if len(ev.o.Runs) == 0 {
		ev.o.Runs = DefaultRuns()
	}
	ctx = context.WithValue(context.WithValue(ctx, usageKey{}, ev.spent), completionsKey{}, &completions{})
	var runners []eval.Runner
	for _, run := range ev.o.Runs {
		runner, err := ev.runner(ctx, run, chunks)
		if err != nil {
			return nil, fmt.Errorf("run %s: %w", run, err)
		}
		runners = append(runners, runner)
	}
	ev.total = len(runners) * len(ev.lab.Queries)
	report, err := ev.lab.Measure(ctx, runners...)
	if err != nil {
		return nil, err
	}
	report.Title = ev.reader.config.Name
	return &Evaluation{Report: report, Judged: ev.judged.kind, IDs: len(ev.judged.relevant), Unknown: len(ev.judged.relevant) - ev.judged.known}, nil
}

// stats describes the collection of chunks.
func (r *reader) stats() (s db.CollectionStats, err error) {
	info, err := r.chunks.Info()
	if err != nil {
		return s, err
	}
	all, err := r.vdb.Stats()
	i := slices.IndexFunc(all.Collections, func(c db.CollectionStats) bool { return c.Name == info.Name })
	if err == nil && i < 0 {
		err = fmt.Errorf("%w: collection %q", ErrNotFound, info.Name)
	}
	if err != nil {
		return s, err
	}
	return all.Collections[i], nil
}

// DefaultRuns returns the runs of Eval if none are named: the configuration as it is, and the
// strategies and rerankers that need no model.
func DefaultRuns() []string {
	return []string{asConfigured, "dense", "text", "hybrid", "hybrid+lexical", "hybrid+mmr"}
}

// keysOf returns the keys of the configuration that a run sets.
func keysOf(run string) (map[string]any, error) {
	set := map[string]any{}
	for i, part := range strings.Split(run, "+") {
		key, value, isKey := strings.Cut(part, "=")
		switch {
		case part == "":
			return nil, fmt.Errorf("%w: want a strategy or %q, and then + and a reranker or KEY=VALUE", ErrConfig, asConfigured)
		case isKey:
			set[key] = value
		case i == 0 && part == asConfigured:
		case i == 0:
			set["strategy"], set["reranker"] = part, "none"
		default:
			set["reranker"] = part
		}
	}
	return set, nil
}

// runner returns the runner of a run.
func (ev *evaluator) runner(ctx context.Context, run string, chunks db.CollectionStats) (eval.Runner, error) {
	own, err := keysOf(run)
	if err != nil {
		return nil, err
	}
	set := map[string]any{}
	maps.Copy(set, ev.o.Set)
	maps.Copy(set, own)
	c, err := ev.reader.config.forQuestion(QueryOptions{Set: set, most: ev.o.most})
	if err != nil {
		return nil, err
	}
	po, err := ev.engine.pipelineOptions(ctx, c, chunks.Schema.Text != nil)
	if err != nil {
		return nil, err
	}
	words := po.Strategy.String() == "text"
	switch {
	case !words && chunks.Vectors == 0:
		return nil, fmt.Errorf("%w: no chunk has a vector: strategy %v would find nothing", ErrConfig, po.Strategy)
	case words && chunks.Schema.Text == nil:
		return nil, fmt.Errorf("strategy text: %w", db.ErrTextIndex)
	}
	po.Expand, po.Cache = nil, nil
	a := &asker{evaluator: ev, opts: *po, candidates: max(cmp.Or(c.TopK, rag.DefaultTopK), cmp.Or(c.Candidates, 4*cmp.Or(c.TopK, rag.DefaultTopK))),
		chunks: chunks.Documents, vector: !words, pipelines: map[int]*rag.Pipeline{}}
	return eval.RunnerFunc(run, a.ask), nil
}

// An asker asks the questions of one run.
type asker struct {
	*evaluator
	opts       rag.PipelineOptions
	candidates int // chunks that the reranker gets
	chunks     int // in the base
	vector     bool
	pipelines  map[int]*rag.Pipeline // by number of chunks
}

// ask ranks the depth best judged ids for a question. As several chunks may belong to one id, it
// asks for more chunks until there are enough ids.
func (a *asker) ask(ctx context.Context, q eval.Query, depth int) ([]eval.Scored, error) {
	var vec []float32
	if a.vector {
		if err := a.embed(ctx); err != nil {
			return nil, err
		}
		vec = a.vecs[q.ID]
	}
	for k := max(depth, a.candidates); ; k *= 2 {
		p, err := a.pipeline(k, depth)
		if err != nil {
			return nil, err
		}
		answer, err := p.QueryVector(ctx, q.Text, vec, a.o.Where)
		if err != nil {
			return nil, err
		}
		ranked := a.judged.rank(answer.Chunks)
		if a.short(len(ranked), answer.Candidates, k, depth) {
			continue
		}
		a.done++
		if a.o.Progress != nil {
			a.o.Progress(a.done, a.total)
		}
		return ranked[:min(depth, len(ranked))], nil
	}
}

// short reports whether a search for k chunks found too few ids, and a search for more may find
// more.
func (a *asker) short(ids, found, k, depth int) bool {
	return ids < depth && found >= k && k < a.chunks
}

// embed embeds the questions of all runs.
func (ev *evaluator) embed(ctx context.Context) error {
	if ev.vecs != nil {
		return nil
	}
	texts := make([]string, len(ev.lab.Queries))
	for i, q := range ev.lab.Queries {
		texts[i] = q.Text
	}
	vecs, err := embed.Queries(ev.reader.embedder).EmbedBatch(ctx, texts)
	if err != nil {
		return fmt.Errorf("embed the questions: %w", err)
	}
	ev.vecs = map[string][]float32{}
	for i, q := range ev.lab.Queries {
		ev.vecs[q.ID] = vecs[i]
	}
	return nil
}

// pipeline returns the pipeline that searches for k chunks.
func (a *asker) pipeline(k, depth int) (*rag.Pipeline, error) {
	if p := a.pipelines[k]; p != nil {
		return p, nil
	}
	po := a.opts
	po.TopK, po.Candidates = k, k
	if a.opts.Rerank != nil {
		po.Rerank = head{a, k, depth}
	}
	p, err := rag.NewPipeline(a.reader.chunks, a.reader.embedder, &po)
	if err == nil {
		a.pipelines[k] = p
	}
	return p, err
}

// A head reranks the chunks that are reranked in an answer, and leaves the rest behind them.
type head struct {
	*asker
	k, depth int
}

// Rerank implements rag.Reranker.
func (h head) Rerank(ctx context.Context, question string, chunks []rag.Chunk) ([]rag.Chunk, error) {
	if h.short(len(h.judged.rank(chunks)), len(chunks), h.k, h.depth) {
		return chunks, nil // ask searches for more
	}
	n := min(h.candidates, len(chunks))
	first, err := h.opts.Rerank.Rerank(ctx, question, slices.Clone(chunks[:n]))
	return slices.Concat(first, chunks[n:]), err
}

// What judged ids can be, apart from metadata fields.
const (
	judgedFile  = "file"
	judgedRow   = "row"
	judgedChunk = "chunk"
)

var units = []string{judgedChunk, judgedRow, judgedFile} // the smallest first

// judgedIDs maps chunks to the ids that are judged.
type judgedIDs struct {
	kind     string          // as EvalOptions.Judged
	asked    bool            // the caller named the kind
	relevant map[string]bool // the ids that are judged relevant
	judged   map[string]bool // all ids
	known    int             // relevant ids that the base has
}

// findJudged finds the kind of the judged ids. It reads the metadata of all chunks.
func findJudged(ctx context.Context, chunks *db.Collection, qrels eval.Qrels, kind string) (*judgedIDs, error) {
	j := &judgedIDs{kind: kind, asked: kind != "", relevant: map[string]bool{}, judged: map[string]bool{}}
	for _, docs := range qrels {
		for id, grade := range docs {
			j.judged[id] = true
			if grade > 0 {
				j.relevant[id] = true
			}
		}
	}
	if len(j.relevant) == 0 {
		return nil, fmt.Errorf("%w: nothing is judged 1 or more", eval.ErrNotJudged)
	}
	found := map[string]map[string]bool{} // relevant ids by kind
	examples := map[string]string{}
	note := func(kind, id string) {
		if id == "" {
			return
		}
		if found[kind] == nil {
			found[kind], examples[kind] = map[string]bool{}, id
		}
		if j.relevant[id] {
			found[kind][id] = true
		}
	}
	for d, err := range chunks.All(ctx, nil, db.WithMetadata) {
		if err != nil {
			return nil, err
		}
		if j.asked {
			note(kind, idOf(kind, d.ID, d.Metadata))
			continue
		}
		for _, k := range slices.Concat(units, ownFields(d.Metadata)) {
			note(k, idOf(k, d.ID, d.Metadata))
		}
	}
	if !j.asked {
		if err := j.choose(found); err != nil {
			return nil, err
		}
	}
	for _, k := range append(j.also(), j.kind) {
		maps.Copy(found[j.kind], found[k])
	}
	if j.known = len(found[j.kind]); j.known > 0 {
		return j, nil
	}
	var have []string
	for _, k := range slices.Sorted(maps.Keys(examples)) {
		have = append(have, fmt.Sprintf("%s %.100q", k, examples[k]))
	}
	if len(have) == 0 {
		have = []string{fmt.Sprintf("no chunk with a text or an integer in field %q", kind)}
	}
	return nil, fmt.Errorf("%w: judged are %d ids such as %.100q; the base has %s", eval.ErrNotJudged, len(j.relevant),
		slices.Min(slices.Collect(maps.Keys(j.relevant))), strings.Join(have, ", "))
}

// choose sets the kind that knows most of the relevant ids. Two fields that know as many are an
// error.
func (j *judgedIDs) choose(found map[string]map[string]bool) error {
	best, other := judgedFile, ""
	for _, k := range slices.Concat(units, slices.Sorted(maps.Keys(found))) {
		isUnit := slices.Contains(units, k)
		switch n := len(found[k]); {
		case n > len(found[best]):
			best, other = k, ""
		case n == len(found[best]) && n > 0 && k != best && !isUnit && !slices.Contains(units, best):
			other = k
		}
	}
	if other != "" {
		return fmt.Errorf("%w: the judged ids may be the fields %s or %s: name one", ErrConfig, best, other)
	}
	j.kind = best
	return nil
}

// also returns the kinds that are judged beside the chosen one: judgements of files may name
// chunks.
func (j *judgedIDs) also() []string {
	if j.asked || !slices.Contains(units, j.kind) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(units), func(k string) bool { return k == j.kind })
}

// ownFields returns the fields of a chunk that its file has, and not Learn.
func ownFields(m db.Metadata) (names []string) {
	for name := range m {
		switch name {
		case rag.FieldSourceFile, rag.FieldFormat, rag.FieldChunkIndex, rag.FieldChunkLength, rag.FieldOffset, rag.FieldPage,
			rag.FieldLineNumber, rag.FieldHeader, rowField, judgedFile, judgedChunk:
		default:
			names = append(names, name)
		}
	}
	return names
}

// idOf returns the id that a chunk has as a kind; empty if it has none.
func idOf(kind, chunk string, m db.Metadata) string {
	switch kind {
	case judgedChunk:
		return chunk
	case judgedFile:
		file, _ := m[rag.FieldSourceFile].(string)
		return file
	case judgedRow:
		file, _ := m[rag.FieldSourceFile].(string)
		if row, ok := m[rowField].(int64); ok {
			return file + ":" + strconv.FormatInt(row, 10)
		}
		return ""
	}
	v, _ := filter.Lookup(m, kind)
	switch v := v.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	}
	return ""
}

// of returns the id that a chunk counts as.
func (j *judgedIDs) of(c rag.Chunk) string {
	for _, kind := range j.also() {
		if id := idOf(kind, c.ID, c.Metadata); j.judged[id] {
			return id
		}
	}
	return cmp.Or(idOf(j.kind, c.ID, c.Metadata), c.ID)
}

// rank returns the ids of chunks, each once.
func (j *judgedIDs) rank(chunks []rag.Chunk) []eval.Scored {
	ranked := []eval.Scored{}
	have := map[string]bool{}
	for _, c := range chunks {
		if id := j.of(c); !have[id] {
			have[id] = true
			ranked = append(ranked, eval.Scored{ID: id, Score: c.Score})
		}
	}
	return ranked
}

// completions keeps the texts of a chat model, so that runs that differ in other things search for
// the same rewrites, and the model is paid once.
type completions struct {
	mu    sync.Mutex
	texts map[[3]string]string // by model, instructions and text
}

type completionsKey struct{}

// complete returns the text that is kept for a key, or the text of write.
func (c *completions) complete(key [3]string, write func() (string, error)) (string, error) {
	if c == nil {
		return write()
	}
	c.mu.Lock()
	text, ok := c.texts[key]
	c.mu.Unlock()
	if ok {
		return text, nil
	}
	text, err := write()
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.texts == nil {
		c.texts = map[[3]string]string{}
	}
	c.texts[key] = text
	return text, nil
}
