package nearest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/topk"
	"github.com/vecbolt/vecbolt/segment/graph"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
)

// A graphPlan is the decision to search the graph of a part for a probe.
type graphPlan struct {
	graph   *graph.Graph // nil: scan the part
	setting levels.Setting
	recall  float64 // promised
	live    bool    // pass over the rows that are excluded, as in graph.FindLive: they are few and dead
}

// usesGraph reports whether a probe searches the graph of a part.
func (p *Probe) usesGraph(part int) bool { return p.Parts[part].plan.graph != nil }

// GraphPlan returns how a probe searches the graph of a part, and its expected cost, in the unit of
// codes.RowPrice. ok is false if it does not, also after a search that ended as a scan.
func (s *Search) GraphPlan(p *Probe, part int) (setting levels.Setting, cost float64, ok bool) {
	if !p.usesGraph(part) {
		return levels.Setting{}, 0, false
	}
	w := p.Parts[part].plan
	return w.setting, s.graphCost(p, part, w), true
}

// planGraphs chooses the parts whose graph a probe searches: where that costs less than an exact
// answer, and more rows match than are needed.
func (s *Search) planGraphs(p *Probe) {
	p.Ledger, p.Sketched = Ledger{}, 0
	for i, part := range s.View.Parts {
		if part.Segment == nil || part.Segment.Graph == nil {
			continue
		}
		if s.View.Def.Schema.Index == engine.IndexNone {
			p.Parts[i].reason = "the collection has no graphs"
		} else if p.Exact() {
			p.Parts[i].reason = "the query wants an exact answer"
		} else if g := part.Segment.Graph.Get(); g != nil {
			s.planGraph(p, i, g)
		} else {
			p.Parts[i].reason = "the graph is not built yet"
		}
	}
}

// planGraph decides whether a probe searches the graph of a part, and says why.
func (s *Search) planGraph(p *Probe, i int, g *graph.Graph) {
	matched := p.MatchedIn(s.View, i)
	if matched <= p.Need {
		p.Parts[i].reason = "no more rows match than are wanted"
		return
	}
	w, raise, ok := s.chooseSetting(p, i, g, s.fewDead(p, i))
	if !ok {
		return
	}
	cost, scan := s.graphCost(p, i, w), s.ScanCost(p, i)
	dear := cost > scan && !s.GraphAlways
	if !dear {
		p.Parts[i].plan = w
	}
	if s.Trace != nil {
		p.Parts[i].reason = w.describe(raise, cost/scan, dear)
	}
}

// mostDead is the share of dead rows up to which a search passes over them. At that share, one
// search for ten rows in nine meets three dead ones among its first twelve, and is repeated as one
// under a filter.
const mostDead = 0.1

// fewDead reports whether the rows of a part that a probe excludes are dead and few.
func (s *Search) fewDead(p *Probe, i int) bool {
	rows := s.View.Parts[i].N
	return p.Parts[i].Live && float64(rows-p.MatchedIn(s.View, i)) <= mostDead*float64(rows)
}

// chooseSetting returns the search of a graph that a probe asks for, and the factor by which its
// calibrated beam was raised. live: it is to pass over dead rows. If the graph cannot keep the
// promise, ok is false, and the reason of the part says why.
func (s *Search) chooseSetting(p *Probe, i int, g *graph.Graph, live bool) (w graphPlan, raise float64, ok bool) {
	w.graph, w.live = g, live
	if p.EF > 0 {
		w.setting.EF = max(p.EF, p.Need)
		w.recall = g.Recall(w.setting.EF, p.Need)
		return w, 1, true
	}
	w.recall = p.Recall
	filtered, threshold := p.Parts[i].Set != nil && !live, p.Least > engine.NegInf
	under := levels.NoFilter
	if filtered {
		under = levels.FilterOf(p.MatchedIn(s.View, i), g.Len())
	}
	if threshold {
		w.setting, ok = g.SettingUpTo(w.recall, p.Need, under)
	} else {
		w.setting, ok = g.Setting(w.recall, p.Need, under)
	}
	if filtered || threshold { // Setting knows scans for all others
		if scan, found := s.cheaperScan(p, i, w, p.Need, ok); found {
			w, ok = scan, true
		}
	}
	if !ok {
		if s.Trace != nil {
			p.Parts[i].reason = fmt.Sprintf("no setting of the graph was measured to reach a recall of %v", w.recall)
		}
		return w, 1, false
	}
	if !g.Covers(w.recall, p.Need, p.MatchedIn(s.View, i)) {
		p.Parts[i].reason = "the graph promises no recall among as many rows as the filter passes over"
		return w, 1, false
	}
	if raise = s.View.Parts[i].Segment.Raise(); raise > 1 {
		w.setting = w.setting.Times(raise)
	}
	return w, raise, true
}

// dearWalk: a scan of sketches replaces a walk if it costs less than this part of the walk. The
// price of walks under a filter is 1.2 to 1.7 times too high. For two stages it is right: with this
// part of it, searches took up to 2.2 times as long.
const dearWalk = 0.6

// cheaperScan returns the plan of a scan of the sketches of a part for a number of rows. found is
// false if the graph has none with the recall, or if the plan to walk is likely to take no longer.
func (s *Search) cheaperScan(p *Probe, i int, walk graphPlan, need int, walks bool) (scan graphPlan, found bool) {
	scan = walk
	if scan.setting, found = walk.graph.ScanSetting(walk.recall, need); !found {
		return scan, false
	}
	dear := dearWalk
	if walk.setting.Within > 0 && p.Parts[i].Set != nil {
		dear = 1
	}
	return scan, !walks || s.graphCost(p, i, scan) < dear*s.graphCost(p, i, walk)
}

// describe returns the line of Explain for a graph search: its price relative to a scan and the
// recall it promises. If dear, it costs more than a scan, so the part is scanned.
func (w graphPlan) describe(raise, cost float64, dear bool) string {
	raised := ""
	if raise > 1 {
		raised = fmt.Sprintf(", %.3g times the calibrated one because queries found less than promised", raise)
	}
	if dear {
		return fmt.Sprintf("%s%s would cost %.2g of a scan", w.name(), raised, cost)
	}
	usual := ""
	if v := w.setting.UsualRecall(); v > 0 {
		usual = fmt.Sprintf("; %.4g was measured for queries like the rows, and of the hardest kind "+
			"%.2g %% found less than half", v, 100*w.setting.Poor())
	}
	return fmt.Sprintf("%s%s costs %.2g of a scan and promises a recall of %.4g%s",
		w.name(), raised, cost, w.recall, usual)
}

// name returns the kind of the search and its setting.
func (w graphPlan) name() string {
	if w.setting.Scans() {
		return w.setting.String()
	}
	return fmt.Sprintf("a beam search with %v", w.setting)
}

// stageName returns the kind of a second stage and its setting.
func stageName(s levels.Stage) string {
	if s.EF == 0 {
		return s.String()
	}
	return fmt.Sprintf("a beam search with %v", s)
}

// graphCost returns the expected cost of a graph search of a part, in the unit of codes.RowPrice.
func (s *Search) graphCost(p *Probe, i int, w graphPlan) float64 {
	if w.live {
		return w.graph.Cost(w.setting, p.Need, w.graph.Len(), false)
	}
	return w.graph.Cost(w.setting, p.Need, p.MatchedIn(s.View, i), p.Parts[i].Set != nil)
}

// A graphJob is the graph search of one probe in one part, and its result.
type graphJob struct {
	probe *Probe
	part  int
	last  graphPlan // of the search that ran last

	outside bool // it needed a second stage because the query is beyond the extent of the rows

	found []topk.Candidate
	stats graph.Stats
}

// searchGraphs does the graph searches of all probes, and stores the results with each. If a graph
// turns out to be damaged, the part is scanned instead.
func (s *Search) searchGraphs(ctx context.Context) error {
	jobs := s.jobs[:0]
	for _, p := range s.Probes {
		p.found = nil
		for i := range p.Parts {
			if p.usesGraph(i) {
				jobs = slices.Grow(jobs, 1)[:len(jobs)+1]
				j := &jobs[len(jobs)-1]
				*j = graphJob{probe: p, part: i, found: j.found[:0]}
			}
		}
	}
	s.jobs = jobs
	if len(jobs) == 0 {
		return nil
	}
	clock := s.Trace.Clock("graph")
	var err error
	if workers := s.graphWorkers(jobs); workers > 1 {
		err = s.searchTogether(ctx, jobs, workers)
	} else {
		err = s.searchSome(ctx, jobs)
	}
	looked, found := 0, 0
	for i := range jobs {
		j := &jobs[i]
		if j.probe.found == nil {
			j.probe.found = j.found
		} else {
			j.probe.found = append(j.probe.found, j.found...)
		}
		compared := j.stats.Estimated + j.stats.Sketched
		j.probe.Ledger.Considered += compared
		j.probe.Sketched += j.stats.Sketched
		looked, found = looked+compared, found+len(j.found)
	}
	clock.Done(looked, found, s.Trace.Taken())
	return err
}

// helpCost is the least cost of graph searches, in the unit of codes.RowPrice, for which another
// goroutine is woken: about as long as the wake takes.
const helpCost = 400_000

// graphWorkers returns how many goroutines do jobs. Few searches are worth another goroutine if the
// longest of them is not nearly all: one probe in several segments.
func (s *Search) graphWorkers(jobs []graphJob) int {
	const each = 4
	if n := min(s.Workers, len(jobs)/each); n > 1 || len(jobs) == 1 || s.Workers == 1 {
		return n
	}
	sum, longest := 0.0, 0.0
	for _, j := range jobs {
		cost := s.graphCost(j.probe, j.part, j.probe.Parts[j.part].plan)
		sum, longest = sum+cost, max(longest, cost)
	}
	if sum-longest < helpCost {
		return 1
	}
	return 2
}

// searchTogether does jobs on several goroutines, the longest first.
func (s *Search) searchTogether(ctx context.Context, jobs []graphJob, workers int) error {
	order := make([]int, len(jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return s.View.Parts[jobs[b].part].N - s.View.Parts[jobs[a].part].N
	})
	return s.share(len(jobs), workers, func(i int) error {
		return s.searchSome(ctx, jobs[order[i]:order[i]+1])
	})
}

// share does n pieces of work on several goroutines, in the order of their numbers. Each is done
// inside Engine.Guard.
func (s *Search) share(n, workers int, do func(i int) error) error {
	var next atomic.Int64
	work := func() error {
		return s.engine.Guard(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				if err := do(i); err != nil {
					next.Store(int64(n)) // stop the other goroutines
					return err
				}
			}
		})
	}
	var help helpers
	defer help.wait() // also after a panic: the caller releases memory that the others read
	for range workers - 1 {
		help.start(work)
	}
	err := work()
	return errors.Join(err, help.wait())
}

// A graphScratch is the scratch memory of one goroutine that searches graphs, reused
// through Searcher.graphs.
type graphScratch struct {
	query  graph.Query
	buf    graph.Buffer
	scored []topk.Candidate // see raiseFloor
}

func (s *Search) graphScratch() *graphScratch {
	if w, ok := s.graphs.Get().(*graphScratch); ok {
		return w
	}
	return &graphScratch{}
}

// dropScratch keeps w for others. It outlives the context of this search.
func (s *Search) dropScratch(w *graphScratch) {
	w.query.Heed(context.Background())
	s.graphs.Put(w)
}

// searchSome does jobs one after the other. The caller is inside Engine.Guard.
func (s *Search) searchSome(ctx context.Context, jobs []graphJob) error {
	w := s.graphScratch()
	defer s.dropScratch(w)
	for i := range jobs {
		err := ctx.Err()
		if err == nil {
			err = s.searchGraph(ctx, &jobs[i], w)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// searchGraph searches the graph of one part.
func (s *Search) searchGraph(ctx context.Context, j *graphJob, memory *graphScratch) error {
	p, i := j.probe, j.part
	plan, part := p.Parts[i].plan, s.View.Parts[i]
	query := &memory.query
	query.Reset(plan.graph, p.Scorer.Query)
	query.Heed(ctx)
	if p.Unseen != nil && p.Unseen.Part == part {
		query.Without(p.Unseen.Row)
	}
	watch := part.Segment.Watch(plan.graph)
	defer watch.End()
	query.Cold(watch.Cold)
	rows, stats, err := s.find(j, memory, p.Need, plan)
	if plan.live && errors.Is(err, graph.ErrFar) {
		rows, stats, err = s.searchFiltered(j, memory, rows, stats)
		plan = p.Parts[i].plan
	}
	if !plan.live && (errors.Is(err, graph.ErrFar) || errors.Is(err, graph.ErrBetween)) {
		rows, stats, err = s.searchLonger(j, memory, rows, stats, err)
	}
	if err == nil && watch.Look && !watch.Cold {
		err = plan.graph.VerifyOne()
	}
	if p.EF > 0 && errors.Is(err, graph.ErrBeyondHorizon) && len(rows) >= p.Need {
		// Whoever sets ef has asked for no recall, and would not expect a scan.
		err, p.Parts[i].plan.recall = nil, 0
		if s.Trace != nil {
			p.Parts[i].reason += "; the rows found are far from the query, so no recall is known"
		}
	}
	j.stats = stats
	s.Trace.Read(int64(stats.Estimated)*int64(part.Dim) + plan.graph.SketchSize(stats.Sketched) +
		int64(len(rows))*int64(4*part.Dim))
	switch {
	case errors.Is(err, graph.ErrBeyondHorizon), errors.Is(err, graph.ErrFar), errors.Is(err, graph.ErrBetween):
		s.follow(j, j.cause(err), "a scan of the part")
	case errors.Is(err, fileformat.ErrDamaged):
		part.Segment.DistrustGraph(plan.graph, err)
		s.follow(j, "the graph is damaged", "a scan of the part")
	case err != nil:
		return err
	case len(rows) < p.Need: // although more rows match: see planGraph
		s.follow(j, "too few rows were found", "a scan of the part")
	default:
		if ok, err := s.scoreFound(ctx, j, memory, rows, watch.Cold); ok || err != nil {
			return err
		}
	}
	p.Parts[i].plan = graphPlan{}
	return nil
}

// scoreFound scores the rows that the last search of a graph found. ok is false if codes cannot
// have told which rows are the best, so that the part has to be scanned.
func (s *Search) scoreFound(
	ctx context.Context, j *graphJob, memory *graphScratch, rows []uint32, cold bool,
) (ok bool, err error) {
	p, i := j.probe, j.part
	part := s.View.Parts[i]
	if cold {
		for _, row := range rows {
			part.Segment.ReadAhead(int(row))
		}
	}
	if j.found, err = p.score(ctx, part, i, rows, j.found); err != nil {
		return false, err
	}
	if s.View.Def.Schema.Metric == fileformat.Dot && len(rows) < leastJudged && !apart(j.found) {
		// Too few to judge by. For other metrics they include all that codes do not tell apart.
		if rows, err = memory.query.More(leastJudged, p.Parts[i].Set, &memory.buf); err != nil {
			return false, err
		}
		s.Trace.Read(int64(len(rows)) * int64(4*part.Dim))
		if j.found, err = p.score(ctx, part, i, rows, j.found[:0]); err != nil {
			return false, err
		}
	}
	switch {
	case inOrder(j.found):
		j.found = p.best(j.found)
		return true, nil
	case p.EF > 0: // whoever sets ef would not expect a scan: see searchGraph
		j.found, p.Parts[i].plan.recall = p.best(j.found), 0
		if s.Trace != nil {
			p.Parts[i].reason += "; its codes do not tell the rows found apart, so no recall is known"
		}
		return true, nil
	}
	j.found = j.found[:0]
	s.follow(j, "its codes do not tell the rows found apart", "a scan of the part")
	return false, nil
}

// Parameters of inOrder.
const (
	leastJudged  = 16   // rows
	leastInOrder = 0.97 // of the pairs
)

// inOrder reports whether rows that a graph found, in the order of their distances by codes, have
// true scores in nearly the same order: it compares each row of the nearer half with one of the
// farther half. Otherwise the query has nearly the same score with all rows near it. Codes do not
// tell these apart, and a walk finds any of them.
func inOrder(found []topk.Candidate) bool {
	half, n := len(found)/2, 0
	if len(found) < leastJudged {
		return true
	}
	for i, c := range found[:half] {
		if c.Upper >= found[half+i].Upper {
			n++
		}
	}
	return float64(n) >= leastInOrder*float64(half)
}

// apart reports whether the nearest row has the highest score, and no row of the farther half has a
// higher one than a row of the nearer half. In one search of six that is not so, even where codes
// tell rows apart; where they do not, it is by chance in one of hundreds.
func apart(found []topk.Candidate) bool {
	half := len(found) / 2
	least := math.Inf(1)
	for _, c := range found[:half] {
		if c.Upper > found[0].Upper {
			return false
		}
		least = min(least, c.Upper)
	}
	for _, c := range found[half:] {
		if c.Upper > least {
			return false
		}
	}
	return true
}

// follow adds the next search of a part to what Explain says of it, and the cause. Callers that
// make a name look at s.Trace first.
func (s *Search) follow(j *graphJob, cause, next string) {
	if s.Trace != nil {
		j.probe.Parts[j.part].reason += fmt.Sprintf("; then %s, because %s", next, cause)
	}
}

// cause says in words why the last search gave no answer that keeps its promise.
func (j *graphJob) cause(err error) string {
	w := j.last
	switch {
	case j.outside:
		return "the query is farther out than the rows"
	case errors.Is(err, graph.ErrFar) && w.live:
		return "many rows near the query are deleted or replaced, or the rows found lie close together"
	case errors.Is(err, graph.ErrFar):
		return "the rows near the query do not match"
	case w.setting.Spread == 0,
		errors.Is(err, graph.ErrBeyondHorizon) && (w.setting.Within == 0 || w.setting.Second != levels.Stage{}):
		return "the rows found are far from the query"
	}
	return "the rows found are far from the query or lie close together"
}

// find searches the graph of a part for this many rows.
func (s *Search) find(
	j *graphJob, memory *graphScratch, need int, plan graphPlan,
) (rows []uint32, stats graph.Stats, err error) {
	j.last = plan
	p, query := j.probe, &memory.query
	set := p.Parts[j.part].Set
	if plan.live {
		query.Guard(need, plan.setting, plan.graph.Len())
		rows, stats, err = query.FindLive(need, plan.setting, set, &memory.buf)
	} else {
		query.Guard(need, plan.setting, p.MatchedIn(s.View, j.part))
		rows, stats, err = query.Find(need, plan.setting, set, &memory.buf)
	}
	j.outside = memory.buf.Outside()
	if memory.buf.WentOn() {
		if s.Trace != nil {
			s.follow(j, j.cause(graph.ErrBetween), stageName(plan.setting.Second))
		}
		j.outside = false // what follows has another cause
	}
	return rows, stats, err
}

// searchFiltered searches again, as under a filter, after a search that found more dead rows near
// the query than it may pass over. rows and stats are of that search, and stay if another one would
// cost more than a scan of the part.
func (s *Search) searchFiltered(
	j *graphJob, memory *graphScratch, rows []uint32, stats graph.Stats,
) ([]uint32, graph.Stats, error) {
	p, i := j.probe, j.part
	reason := p.Parts[i].reason
	plan, _, ok := s.chooseSetting(p, i, p.Parts[i].plan.graph, false)
	p.Parts[i].reason = reason // of the search that ran, not of one that could not
	if !ok || s.graphCost(p, i, plan) > s.ScanCost(p, i) && !s.GraphAlways {
		return rows, stats, graph.ErrFar
	}
	if s.Trace != nil {
		s.follow(j, j.cause(graph.ErrFar), plan.name()+", as under a filter")
	}
	p.Parts[i].plan = plan
	rows, all, err := s.find(j, memory, p.Need, plan)
	all.Estimated += stats.Estimated
	all.Sketched += stats.Sketched
	return rows, all, err
}

// searchLonger searches again after a search whose promise does not hold. If the rows near the
// query do not match, it searches for more rows or scans the sketches. If those found are far from
// the query or lie close together, it scans the sketches. rows and stats are of the first search.
// They stay if the other one would cost more than a scan of the part.
func (s *Search) searchLonger(
	j *graphJob, memory *graphScratch, rows []uint32, stats graph.Stats, cause error,
) ([]uint32, graph.Stats, error) {
	p, i := j.probe, j.part
	plan, part := p.Parts[i].plan, s.View.Parts[i]
	if plan.setting.Scans() { // which has looked for more rows itself
		return rows, stats, cause
	}
	longer, more, ok := graphPlan{graph: plan.graph, recall: plan.recall}, 0, false
	if errors.Is(cause, graph.ErrFar) {
		f := levels.FilterOf(p.MatchedIn(s.View, i), plan.graph.Len())
		more, longer.setting, ok = plan.graph.Longer(plan.recall, p.Need, f, stats)
	}
	if scan, found := s.cheaperScan(p, i, longer, p.Need, ok); found {
		longer, more, ok = scan, p.Need, true
	}
	if raise := part.Segment.Raise(); raise > 1 {
		longer.setting = longer.setting.Times(raise)
	}
	if !ok || s.graphCost(p, i, longer) > s.ScanCost(p, i) && !s.GraphAlways {
		return rows, stats, cause
	}
	if s.Trace != nil {
		next := longer.name()
		if more > p.Need {
			next += fmt.Sprintf(", for %d rows", more)
		}
		s.follow(j, j.cause(cause), next)
	}
	rows, all, err := s.find(j, memory, more, longer)
	all.Estimated += stats.Estimated
	all.Sketched += stats.Sketched
	if errors.Is(err, graph.ErrBetween) { // of a walk; now a scan follows, which never returns it
		return s.searchLonger(j, memory, rows, all, err)
	}
	return rows, all, err
}

// score appends rows of a part with their true scores to found.
func (p *Probe) score(
	ctx context.Context, part *engine.Part, at int, rows []uint32, found []topk.Candidate,
) ([]topk.Candidate, error) {
	vector := func(n int) ([]float32, error) {
		if n == len(rows) {
			return nil, nil
		}
		return part.Source.Vectors(int(rows[n]), int(rows[n])+1)
	}
	next, err := vector(0)
	for n, row := range rows {
		if n%scoreEvery == 0 && err == nil {
			err = ctx.Err()
		}
		vec := next
		if err == nil {
			next, err = vector(n + 1)
		}
		if err != nil {
			return nil, err
		}
		found = append(found, topk.Candidate{Upper: p.Scorer.ScoreAhead(vec, next), Part: int32(at), Row: int32(row)})
	}
	return found, nil
}

// best returns the p.Need best of rows with true scores and those that tie with the last of these,
// best first, in the same memory. Rows that tie compete by id: else an answer for more hits, as for
// a later page, would choose others of equal rows.
func (p *Probe) best(found []topk.Candidate) []topk.Candidate {
	slices.SortFunc(found, func(a, b topk.Candidate) int {
		if a.Upper != b.Upper {
			return cmp.Compare(b.Upper, a.Upper)
		}
		return cmp.Compare(a.Row, b.Row)
	})
	n := min(p.Need, len(found))
	for n > 0 && n < len(found) && found[n].Upper == found[n-1].Upper {
		n++
	}
	return found[:n]
}

// UsesGraphs reports whether the probe searched a graph.
func (p *Probe) UsesGraphs() bool {
	for i := range p.Parts {
		if p.usesGraph(i) {
			return true
		}
	}
	return false
}
