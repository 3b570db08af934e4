package eval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/document"
)

// A Runner is a search method to evaluate.
type Runner interface {
	// Name names the run.
	Name() string
	// Run answers every query with at most depth documents.
	Run(ctx context.Context, queries []Query, depth int) (*Run, error)
}

// RunnerFunc makes a Runner from a function that answers one query, best first. It evaluates any
// retrieval system.
func RunnerFunc(name string, search func(ctx context.Context, q Query, depth int) ([]Scored, error)) Runner {
	return funcRunner{name, search}
}

type funcRunner struct {
	name   string
	search func(context.Context, Query, int) ([]Scored, error)
}

func (r funcRunner) Name() string { return r.name }

func (r funcRunner) Run(ctx context.Context, queries []Query, depth int) (*Run, error) {
	run := NewRun(r.name)
	for _, q := range queries {
		docs, err := r.search(ctx, q, depth)
		if err != nil {
			return nil, fmt.Errorf("run %s: query %q: %w", r.name, q.ID, err)
		}
		run.Set(q.ID, docs[:min(depth, len(docs))])
	}
	return run, nil
}

// Legs say which parts of a Query a Runner searches with.
type Legs uint8

// The parts of a query.
const (
	Vector Legs = 1
	Text   Legs = 2
)

// Errors for queries without the part that a Runner needs.
var (
	ErrNoVector = errors.New("query has no vector")
	ErrNoText   = errors.New("query has no text")
)

// ErrNotJudged is matched by the error for a collection without any document that is judged
// relevant: every metric would be 0 and mean nothing.
var ErrNotJudged = errors.New("no document that is judged relevant exists")

// A Searcher is a Runner over a collection.
type Searcher struct {
	name string
	coll *db.Collection
	like db.Query
	legs Legs
}

// Search returns a Runner that searches a collection with the given parts of each query, and fuses
// the rankings if both are given. like holds the settings shared by all searches, such as Where and
// Fusion; its Near, Text, K and Select are ignored.
func Search(name string, coll *db.Collection, like db.Query, legs Legs) *Searcher {
	return &Searcher{name, coll, like, legs}
}

// Name implements Runner.
func (s *Searcher) Name() string { return s.name }

// together is the number of queries that share a pass over the vectors.
const together = 64

// Run implements Runner. The run is exact if every answer is exact.
func (s *Searcher) Run(ctx context.Context, queries []Query, depth int) (*Run, error) {
	run := NewRun(s.name)
	run.Exact = true
	for group := range slices.Chunk(queries, together) {
		asked := make([]db.Query, len(group))
		for i, q := range group {
			var err error
			if asked[i], err = s.query(q, depth); err != nil {
				return nil, fmt.Errorf("run %s: query %q: %w", s.name, q.ID, err)
			}
		}
		results, err := s.coll.SearchBatch(ctx, asked)
		if err != nil {
			return nil, fmt.Errorf("run %s: %w", s.name, err)
		}
		for i, res := range results {
			docs := make([]Scored, len(res.Hits))
			for j := range res.Hits {
				docs[j] = Scored{res.Hits[j].ID, res.Hits[j].Score}
			}
			run.Set(group[i].ID, docs)
			run.Exact = run.Exact && res.Exact
		}
	}
	return run, nil
}

// Known returns ErrNotJudged, with examples of ids, if the collections contain none of the
// documents that are judged relevant.
func (q Qrels) Known(ctx context.Context, colls ...*db.Collection) error {
	relevant := map[string]bool{}
	for _, docs := range q {
		for id, grade := range docs {
			if grade > 0 {
				relevant[id] = true
			}
		}
	}
	ids := sortedIDs(relevant)
	if len(ids) == 0 {
		return nil
	}
	err := fmt.Errorf("%w: judged are %d ids such as %.100q", ErrNotJudged, len(ids), ids[0])
	for _, coll := range colls {
		for d, err := range coll.GetSeq(ctx, ids, db.IDsOnly) {
			if err != nil || d != nil {
				return err
			}
		}
		info, failed := coll.Info()
		if failed != nil {
			return failed
		}
		page, failed := coll.List(ctx, db.ListQuery{Limit: 1, Select: db.IDsOnly})
		switch {
		case failed != nil:
			return failed
		case len(page.Documents) == 0:
			err = fmt.Errorf("%w; collection %q is empty", err, info.Name)
		default:
			err = fmt.Errorf("%w; ids in collection %q are such as %.100q", err, info.Name, page.Documents[0].ID)
		}
	}
	return err
}

func (s *Searcher) query(q Query, depth int) (db.Query, error) {
	like := s.like
	like.Near, like.Text, like.K, like.Select = nil, "", depth, db.IDsOnly
	if s.legs&Vector != 0 {
		if len(q.Vector) == 0 {
			return like, ErrNoVector
		}
		like.Near = db.Vector(q.Vector)
	}
	if s.legs&Text != 0 {
		if q.Text == "" {
			return like, ErrNoText
		}
		like.Text = q.Text
	}
	return like, nil
}

// A Diagnosis counts the relevant documents of all queries by outcome.
type Diagnosis struct {
	Found       int `json:"found"`        // in the run
	IndexMissed int `json:"index_missed"` // an exact search finds them, this one did not
	RankedLow   int `json:"ranked_low"`   // found by the search, but below the depth
	// out of reach of the search: missing, excluded by Where, or without a vector or text to search
	NotInCorpus int `json:"not_in_corpus"`

	// Missing are the relevant documents that are not in the run, by query, the highest judgements
	// first.
	Missing map[string][]Missing `json:"-"`
}

// A Missing is a relevant document that is not in a run.
type Missing struct {
	ID    string
	Grade int
	Why   Reason
	Rank  int // true rank, from 1; 0 if unknown or searched by text
}

// A Reason is why a document was not found.
type Reason string

// The reasons.
const (
	IndexMissed Reason = "the index missed it"
	RankedLow   Reason = "it ranks low"
	NotInCorpus Reason = "it is not in the corpus"
)

// Diagnose says why relevant documents are missing from a run that s made from queries. It costs an
// exact pass over all vectors for each query with missing documents. With texts, it costs an exact
// search if the run is not exact.
func (s *Searcher) Diagnose(ctx context.Context, qrels Qrels, run *Run, queries []Query,
	depth int) (*Diagnosis, error) {
	d := &Diagnosis{Missing: map[string][]Missing{}}
	var lacking []Query
	for _, q := range queries {
		found := idSet(run.Rankings[q.ID])
		for _, doc := range sortedIDs(qrels[q.ID]) {
			switch grade := qrels[q.ID][doc]; {
			case grade <= 0:
			case found[doc]:
				d.Found++
			default:
				d.Missing[q.ID] = append(d.Missing[q.ID], Missing{ID: doc, Grade: grade, Why: RankedLow})
			}
		}
		if missing := d.Missing[q.ID]; missing != nil {
			slices.SortStableFunc(missing, func(a, b Missing) int { return cmp.Compare(b.Grade, a.Grade) })
			lacking = append(lacking, q)
		}
	}
	// Ranking all documents that contain a word of the query takes too long to do for every query,
	// and only yields one figure of the report. A condition, however, can only be checked by the
	// database.
	explain := s.byRerun
	if s.legs == Vector || s.like.Where != nil {
		explain = s.byExplain
	}
	if err := explain(ctx, d.Missing, run, lacking, depth); err != nil {
		return nil, err
	}
	for _, missing := range d.Missing {
		for _, m := range missing {
			switch m.Why {
			case IndexMissed:
				d.IndexMissed++
			case NotInCorpus:
				d.NotInCorpus++
			default:
				d.RankedLow++
			}
		}
	}
	return d, nil
}

// byExplain asks the database about each missing document.
func (s *Searcher) byExplain(ctx context.Context, missing map[string][]Missing, _ *Run,
	queries []Query, depth int) error {
	for _, q := range queries {
		asked, err := s.query(q, depth)
		if err != nil {
			return err
		}
		list := missing[q.ID]
		ids := make([]string, len(list))
		for i := range list {
			ids[i] = list[i].ID
		}
		e, err := s.coll.Explain(ctx, asked, ids...)
		if err != nil {
			return fmt.Errorf("query %q: %w", q.ID, err)
		}
		for i, why := range e.WhyNot {
			switch {
			case why.Stage == "missing" || why.Stage == "vector" || why.Stage == "where":
				list[i].Why = NotInCorpus
				continue
			case why.Hit > 0 || why.Stage == "graph":
				list[i].Why = IndexMissed
			}
			list[i].Rank = why.Rank
		}
	}
	return nil
}

// byRerun looks the missing documents up in the collection and in the results of an exact search.
func (s *Searcher) byRerun(ctx context.Context, missing map[string][]Missing, run *Run,
	queries []Query, depth int) error {
	exact := run
	if !run.Exact {
		like := *s
		like.like.Accuracy = db.Exact
		var err error
		if exact, err = like.Run(ctx, queries, depth); err != nil {
			return err
		}
	}
	lost := map[string]bool{}
	for _, list := range missing {
		for _, m := range list {
			lost[m.ID] = true
		}
	}
	reached, err := s.reached(ctx, sortedIDs(lost))
	if err != nil {
		return err
	}
	for id, list := range missing {
		truth := idSet(exact.Rankings[id])
		for i := range list {
			switch {
			case !reached[list[i].ID]:
				list[i].Why = NotInCorpus
			case truth[list[i].ID]:
				list[i].Why = IndexMissed
			}
		}
	}
	return nil
}

// reached returns the documents that exist and have the part that s searches by.
func (s *Searcher) reached(ctx context.Context, ids []string) (map[string]bool, error) {
	reached := map[string]bool{}
	info, err := s.coll.Info()
	if err != nil {
		return nil, err
	}
	text := info.Schema.Text
	for d, err := range s.coll.GetSeq(ctx, ids, db.Everything) {
		if err != nil {
			return nil, err
		}
		if d != nil {
			reached[d.ID] = s.legs&Vector != 0 && len(d.Vector) > 0 || s.legs&Text != 0 && hasText(d, text)
		}
	}
	return reached, nil
}

// hasText reports whether a text index holds anything of a document. A nil index holds its text
// alone.
func hasText(d *db.Document, index *db.TextIndex) bool {
	if d.Text != "" {
		return true
	}
	if index == nil {
		return false
	}
	for _, field := range index.Fields {
		for s := range document.Strings(d.Metadata, field) {
			if s != "" {
				return true
			}
		}
	}
	return false
}

func idSet(docs []Scored) map[string]bool {
	set := make(map[string]bool, len(docs))
	for _, s := range docs {
		set[s.ID] = true
	}
	return set
}
