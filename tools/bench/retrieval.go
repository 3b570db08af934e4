package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/embed/static"
	"github.com/vecbolt/vecbolt/rag/embed/static/english"
	"github.com/vecbolt/vecbolt/rag/eval"
	"github.com/vecbolt/vecbolt/rag/rerank"
	"github.com/vecbolt/vecbolt/simd"
)

// weights are the weights of the vector that the retrieval figure tries.
var weights = []float64{0.5, 0.6, 0.7, 0.8, 0.9}

// codesSuffix marks encoders that multiply with weights of one byte.
const codesSuffix = ", int8"

// peerSuffix marks encoders whose vectors Sentence Transformers computes.
const peerSuffix = ", sentence-transformers"

// Names of the runs that put the first documents of another run into a new order.
const (
	firstByVectors = "first 100 of BM25, by vectors"
	firstByWords   = "first 50 of both, 70 % vectors, by rerank.Lexical"
)

// A reranker is a run with the first n documents of another one in a new order.
type reranker struct {
	name string
	of   eval.Runner
	n    int
	by   func(q eval.Query, found []eval.Scored) ([]eval.Scored, error)
}

func (r reranker) Name() string { return r.name }

func (r reranker) Run(ctx context.Context, queries []eval.Query, depth int) (*eval.Run, error) {
	from, err := r.of.Run(ctx, queries, max(depth, r.n))
	if err != nil {
		return nil, err
	}
	run := eval.NewRun(r.name)
	for _, q := range queries {
		found := slices.Clone(from.Rankings[q.ID])
		n := min(r.n, len(found))
		first, err := r.by(q, found[:n])
		if err != nil {
			return nil, err
		}
		for i, d := range append(first, found[n:]...) {
			found[i] = eval.Scored{ID: d.ID, Score: -float64(i)}
		}
		run.Set(q.ID, found[:min(depth, len(found))])
	}
	return run, nil
}

// retrievalModels are the embedders of the retrieval figure.
var retrievalModels = []string{
	"trigram-v1", "glove-100", "english-v1", "all-MiniLM-L6-v2", "bge-small-en-v1.5" + codesSuffix,
	"all-MiniLM-L6-v2" + peerSuffix,
}

// A judgedSet is a directory in the layout of BEIR: corpus.jsonl, queries.jsonl and qrels.
type judgedSet struct {
	name    string
	docs    []db.Document
	queries []eval.Query
	qrels   eval.Qrels
}

// retrievalScores are the nDCG@10 of each question.
type retrievalScores struct {
	sets  []string                                    // names, in the order of the report
	fused map[string]map[string]map[float64][]float64 // by model, set and weight of the vector
	legs  map[string]map[string][2][]float64          // of vectors and of words alone, by model and set
}

// retrievalFigure measures how well embedders search judged sets, alone and together with BM25.
func retrievalFigure(e *env, r *report) error {
	r.Title = "Judged sets"
	dirs, err := filepath.Glob(filepath.Join(e.judged, "*", "corpus.jsonl"))
	if err != nil {
		return err
	}
	dirs = append([]string{filepath.Join(e.shared, "data", "cranfield", "corpus.jsonl")}, dirs...)
	scores := &retrievalScores{fused: map[string]map[string]map[float64][]float64{}, legs: map[string]map[string][2][]float64{}}
	for _, dir := range dirs {
		s, err := readJudged(filepath.Dir(dir))
		if errors.Is(err, os.ErrNotExist) {
			e.logf("%v", err)
			continue
		} else if err != nil {
			return err
		}
		if len(e.sets) > 0 && !slices.Contains(e.sets, s.name) {
			continue
		}
		scores.sets = append(scores.sets, s.name)
		for _, model := range retrievalModels {
			e.logf("retrieval: %s, %s", s.name, model)
			docs, questions, err := vectorsOf(e, s, model)
			if err != nil {
				r.note("%s, %s: %v", s.name, model, err)
				continue
			}
			found, err := searchJudged(e, s, docs, questions)
			if err != nil {
				return err
			}
			scores.add(r, s, model, found)
		}
	}
	scores.compare(r)
	r.note("The sets beside Cranfield are those of tools/judged/fetch.py: -judged names its directory. cisi, cacm and " +
		"med are collections of the SMART project, npl of the National Physical Laboratory, xquad-en and xquad-de the " +
		"paragraphs and questions of XQuAD (Artetxe, Ruder and Yogatama, 2020; CC BY-SA 4.0), where the paragraph of a " +
		"question is its relevant document. No text of them was used to fit english-v1.")
	r.note("The text index is the one of the default language, english, on xquad-de too, as for a user who sets none.")
	r.note(
		"± is half of the 95 %% interval of the mean, from the standard error over questions. p is that of a paired randomisation test against BM25.",
	)
	return nil
}

// add keeps the scores that a model got on a set, and reports them.
func (c *retrievalScores) add(r *report, s *judgedSet, model string, found *eval.Report) {
	if c.fused[model] == nil {
		c.fused[model], c.legs[model] = map[string]map[float64][]float64{}, map[string][2][]float64{}
	}
	c.fused[model][s.name] = map[float64][]float64{}
	legs := c.legs[model][s.name]
	for _, res := range found.Results {
		values := res.Evaluation.Values(eval.NDCG(10))
		who, how := model, "vectors"
		if strings.HasSuffix(model, peerSuffix) && res.Run.Name != how {
			continue // vectors alone are compared
		}
		switch res.Run.Name {
		case "text":
			legs[1] = values
			who, how = "BM25", "words"
			if model != "trigram-v1" {
				continue // the same for all models
			}
		case "vectors":
			legs[0] = values
		case firstByVectors, firstByWords:
			how = res.Run.Name
		default:
			var w float64
			fmt.Sscan(res.Run.Name, &w)
			c.fused[model][s.name][w] = values
			how = fmt.Sprintf("both, %.0f %% vectors", 100*w)
		}
		m, half := interval(values)
		detail := map[string]float64{"±": half, "Recall@100": res.Evaluation.Mean(eval.Recall(100))}
		if res.Versus != nil {
			detail["over BM25"], detail["p"] = res.Versus.Delta, res.Versus.P
		}
		set := fmt.Sprintf("%s: %s documents, %d questions", s.name, number(float64(len(s.docs))), len(found.Queries))
		r.add(measurement{Set: set, Who: who, How: how, Value: m, Unit: "nDCG@10", Detail: detail})
	}
	c.legs[model][s.name] = legs
}

// compare reports what the scores say over all sets.
func (c *retrievalScores) compare(r *report) {
	for _, model := range retrievalModels {
		if len(c.fused[model]) > 1 && !strings.HasSuffix(model, peerSuffix) {
			leaveOneOut(r, model, c.sets, c.fused[model], c.legs[model])
		}
	}
	const large, small = "all-MiniLM-L6-v2", "english-v1"
	if c.legs[large] != nil {
		ratio, n := 0.0, 0.0
		for name, legs := range c.legs[large] {
			ours, _ := interval(c.legs[small][name][0])
			theirs, _ := interval(legs[0])
			ratio, n = ratio+ours/theirs, n+1
		}
		r.atLeast("nDCG@10 of "+small+" by that of "+large+", vectors alone, mean of the sets", 0.85, ratio/n)
	}
	samePeer(r, large, c.legs)
}

// samePeer compares an encoder with Sentence Transformers, on the sets that both have embedded.
func samePeer(r *report, model string, legs map[string]map[string][2][]float64) {
	most := 0.0
	for name, theirs := range legs[model+peerSuffix] {
		a, _ := interval(legs[model][name][0])
		b, _ := interval(theirs[0])
		most = max(most, math.Abs(a-b))
	}
	if n := len(legs[model+peerSuffix]); n > 0 {
		r.atMost(fmt.Sprintf("nDCG@10 of %s less that of sentence-transformers, largest of %d sets", model, n), 0.001, most)
	}
}

// leaveOneOut reports each set with the weight that is best on average of the other sets.
func leaveOneOut(
	r *report,
	model string,
	names []string,
	fused map[string]map[float64][]float64,
	legs map[string][2][]float64,
) {
	gain, variance, n := 0.0, 0.0, 0.0
	least, lost := math.Inf(1), false // over the better leg
	for _, name := range names {
		if fused[name] == nil {
			continue
		}
		best := bestWeight(name, names, fused)
		values := fused[name][best]
		m, half := interval(values)
		vectors, _ := interval(legs[name][0])
		words, _ := interval(legs[name][1])
		diffs := make([]float64, len(values))
		for i, v := range values {
			diffs[i] = v - legs[name][1][i]
		}
		d, wide := interval(diffs)
		gain, variance, n = gain+d, variance+wide*wide, n+1
		better := legs[name][1]
		if vectors > words {
			better = legs[name][0]
		}
		for i, v := range values {
			diffs[i] = v - better[i]
		}
		over, overWide := interval(diffs)
		least = min(least, over)
		lost = lost || over+overWide < 0
		r.add(
			measurement{
				Set:   "weight chosen on the other sets",
				Who:   model,
				How:   name,
				Value: m,
				Unit:  "nDCG@10",
				Detail: map[string]float64{
					"weight":      best,
					"±":           half,
					"better leg":  max(vectors, words),
					"over BM25":   d,
					"over BM25 ±": wide,

					"over the better leg": over, "over the better leg ±": overWide,
				},
			},
		)
	}
	half := math.Sqrt(variance) / n
	r.add(
		measurement{
			Set:    "weight chosen on the other sets",
			Who:    model,
			How:    "mean of the sets, over BM25",
			Value:  gain / n,
			Unit:   "nDCG@10",
			Detail: map[string]float64{"±": half},
		},
	)
	if model != "trigram-v1" && model != "glove-100" {
		r.goal(model+" and BM25 over the better of both, the worst set", "≥ 0", least, least >= 0)
	}
	if model == "english-v1" {
		r.goal(model+" and BM25 significantly worse than the better of both, sets", "none", map[bool]float64{true: 1}[lost], !lost)
		r.goal(
			model+" and BM25 over BM25, mean of the sets, lower end of the 95 % interval",
			"> 0",
			gain/n-half,
			gain > n*half,
		)
	}
}

// bestWeight returns the weight with the highest mean over the sets other than the one of this
// name.
func bestWeight(name string, names []string, fused map[string]map[float64][]float64) (best float64) {
	most := math.Inf(-1)
	for _, w := range weights {
		sum := 0.0
		for _, other := range names {
			if other != name && fused[other] != nil {
				m, _ := interval(fused[other][w])
				sum += m
			}
		}
		if sum > most {
			best, most = w, sum
		}
	}
	return best
}

// interval returns the mean and half of its 95 % interval.
func interval(values []float64) (mean, half float64) {
	n := float64(len(values))
	for _, v := range values {
		mean += v / n
	}
	square := 0.0
	for _, v := range values {
		square += (v - mean) * (v - mean)
	}
	return mean, 1.96 * math.Sqrt(square/max(1, n-1)/n)
}

func readJudged(dir string) (*judgedSet, error) {
	s := &judgedSet{name: filepath.Base(dir)}
	f, err := os.Open(filepath.Join(dir, "corpus.jsonl"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d := json.NewDecoder(bufio.NewReader(f))
	for {
		var raw map[string]string
		if err := d.Decode(&raw); err == io.EOF {
			break
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		s.docs = append(
			s.docs,
			db.Document{ID: raw["_id"], Text: strings.TrimSpace(raw["title"] + "\n" + raw["text"])},
		)
	}
	q, err := os.Open(filepath.Join(dir, "queries.jsonl"))
	if err != nil {
		return nil, err
	}
	defer q.Close()
	if s.queries, err = eval.ReadQueries(q, q.Name()); err != nil {
		return nil, err
	}
	name := filepath.Join(dir, "qrels", "test.tsv")
	if _, err := os.Stat(name); err != nil {
		name = filepath.Join(dir, "qrels.tsv")
	}
	j, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer j.Close()
	s.qrels, err = eval.ReadQrels(j, j.Name())
	return s, err
}

// vectorsOf returns the vectors of documents and questions, from the cache or from the model.
func vectorsOf(e *env, s *judgedSet, model string) (docs, questions [][]float32, err error) {
	texts := make([]string, 0, len(s.docs)+len(s.queries))
	for _, d := range s.docs {
		texts = append(texts, d.Text)
	}
	for _, q := range s.queries {
		texts = append(texts, q.Text)
	}
	name := filepath.Join(e.cache, "retrieval", s.name+"."+strings.ReplaceAll(model, ", ", ".")+".fvecs")
	var all [][]float32
	stored, err := readFvecs(name)
	switch {
	case err == nil:
		if all = rowsOf(stored); len(all) != len(texts) {
			err = fmt.Errorf("%s has %d vectors, not %d", name, len(all), len(texts))
		}
	case errors.Is(err, os.ErrNotExist):
		if base, ok := strings.CutSuffix(model, peerSuffix); ok {
			all, err = peerVectors(e, base, texts)
		} else {
			all, err = ownVectors(e, model, texts, len(s.docs))
		}
		if err != nil {
			return nil, nil, err
		}
		if model != "english-v1" { // which is fast, and may change
			flat := matrix{dim: len(all[0])}
			for _, v := range all {
				flat.data = append(flat.data, v...)
			}
			err = errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), writeFvecs(name, flat))
		}
	}
	if err != nil {
		return nil, nil, err
	}
	return all[:len(s.docs)], all[len(s.docs):], nil
}

// ownVectors returns the vectors of texts, of which the first are documents and the rest questions.
func ownVectors(e *env, model string, texts []string, docs int) (_ [][]float32, err error) {
	var m embed.Embedder
	switch model {
	case "trigram-v1":
		m, err = embed.Open(context.Background(), embed.DefaultConfig(), nil)
	case "english-v1":
		m = english.New()
	case "glove-100":
		var words *static.Words
		if words, err = readGlove(filepath.Join(e.shared, "data", "glove100k")); err == nil {
			m = embed.OfModel("glove", model, words.Dim(), words.Embed)
		}
	default:
		name, int8 := strings.CutSuffix(model, codesSuffix)
		m, err = embed.Local("bert", filepath.Join(e.models, name), &embed.LocalOptions{Int8: int8})
	}
	if err != nil {
		return nil, err
	}
	all, err := embed.Batches(m, nil).EmbedBatch(context.Background(), texts[:docs])
	if err != nil {
		return nil, err
	}
	asked, err := embed.Batches(embed.Queries(m), nil).EmbedBatch(context.Background(), texts[docs:])
	return append(all, asked...), err
}

// peerVectors returns the vectors that Sentence Transformers makes of texts.
func peerVectors(e *env, model string, texts []string) (_ [][]float32, err error) {
	if e.torch == "" {
		return nil, errors.New("not measured: -torch names no Python with sentence-transformers")
	}
	p, err := startEncoder(e, e.torch, "torch_encoder.py", filepath.Join(e.models, model))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	if _, err := p.call(map[string]any{"do": "open", "threads": 1}); err != nil {
		return nil, err
	}
	a, err := p.call(map[string]any{"do": "embed", "texts": texts, "batch": encoderBatch, "vectors": true})
	return a.Vectors, err
}

// rowsOf returns the rows of a matrix.
func rowsOf(m matrix) [][]float32 {
	var rows [][]float32
	for i := range m.rows() {
		rows = append(rows, m.row(i))
	}
	return rows
}

// readGlove reads the word vectors that lie beside the repository.
func readGlove(dir string) (*static.Words, error) {
	m, err := readFvecs(filepath.Join(dir, "base.fvecs"))
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(filepath.Join(dir, "base.txt"))
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	i := 0
	for word := range strings.Lines(string(b)) {
		if i == m.rows() {
			break
		}
		text.WriteString(strings.TrimSpace(word))
		for _, x := range m.row(i) {
			fmt.Fprintf(&text, " %g", x)
		}
		text.WriteByte('\n')
		i++
	}
	return static.ReadWords(&text, nil)
}

// searchJudged puts a set into a database and asks its questions: by words, by vectors, and by both
// with each weight.
func searchJudged(e *env, s *judgedSet, docs, questions [][]float32) (_ *eval.Report, err error) {
	ctx := context.Background()
	dir, err := os.MkdirTemp(e.scratch, "retrieval-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	vdb, err := db.Open(dir, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, vdb.Close()) }()
	c, err := vdb.CreateCollection(ctx, "set", db.Schema{Dim: len(docs[0]), Text: &db.TextIndex{}}, nil)
	if err != nil {
		return nil, err
	}
	rows := slices.Clone(s.docs)
	for i := range rows {
		rows[i].Vector = docs[i]
	}
	for part := range slices.Chunk(rows, 1000) {
		if _, err := c.Upsert(ctx, part...); err != nil {
			return nil, err
		}
	}
	queries := slices.Clone(s.queries)
	for i := range queries {
		queries[i].Vector = questions[i]
	}
	lab := eval.Lab{
		Queries: queries,
		Qrels:   s.qrels,
		Metrics: []eval.Metric{eval.NDCG(10), eval.Recall(100)},
		Seed:    1,
	}
	vector := map[string][]float32{}
	text := map[string]string{}
	for i, d := range s.docs {
		vector[d.ID], text[d.ID] = docs[i], d.Text
	}
	words := eval.Search("text", c, db.Query{}, eval.Text)
	fused := eval.Search("", c, db.Query{Accuracy: db.Exact, Fusion: db.Fusion{Vector: 0.7, Text: 0.3}}, eval.Vector|eval.Text)
	runners := []eval.Runner{
		words,
		reranker{firstByVectors, words, 100, func(q eval.Query, found []eval.Scored) ([]eval.Scored, error) {
			for i, d := range found {
				found[i].Score = simd.Cosine64(q.Vector, vector[d.ID])
			}
			slices.SortStableFunc(found, func(a, b eval.Scored) int { return cmp.Compare(b.Score, a.Score) })
			return found, nil
		}},
		reranker{firstByWords, fused, 50, func(q eval.Query, found []eval.Scored) ([]eval.Scored, error) {
			chunks := make([]rag.Chunk, len(found))
			for i, d := range found {
				chunks[i] = rag.Chunk{ID: d.ID, Text: text[d.ID]}
			}
			chunks, err := rerank.Lexical(0.5).Rerank(ctx, q.Text, chunks)
			for i, c := range chunks {
				found[i] = eval.Scored{ID: c.ID, Score: -float64(i)}
			}
			return found, err
		}},
		eval.Search("vectors", c, db.Query{Accuracy: db.Exact}, eval.Vector),
	}
	for _, w := range weights {
		runners = append(
			runners,
			eval.Search(
				fmt.Sprint(w),
				c,
				db.Query{Accuracy: db.Exact, Fusion: db.Fusion{Vector: w, Text: 1 - w}},
				eval.Vector|eval.Text,
			),
		)
	}
	return lab.Measure(ctx, runners...)
}
