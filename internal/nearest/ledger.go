package nearest

// A Ledger records the promise of a search about the rows that it found, and its cost. Every
// component of an answer keeps one: a part of the collection, a leg of a hybrid query, a round of
// groups, one of several fused queries. The ledger of the answer is their sum. The zero ledger is
// for a component that costs nothing and misses nothing.
type Ledger struct {
	Approximate bool    // true rows may be missing
	share       float64 // promised share of the true rows, if approximate
	usual       float64 // the same for queries that resemble the rows
	poor        float64 // share of queries that find less than half; 0 if it is not known

	graph      bool // through a graph
	coded      bool // codes were scanned
	sketched   bool // sketches were
	Considered int  // vectors compared with the query
	scanned    int  // of considered, by scans
}

// Recall returns the promised share of the true rows.
func (l *Ledger) Recall() float64 {
	if l.Approximate {
		return l.share
	}
	return 1
}

// Usual returns the share of the true rows that was measured for queries that resemble the rows. It
// is the promised one where nothing else was measured.
func (l *Ledger) Usual() float64 {
	if l.Approximate {
		return l.usual
	}
	return 1
}

// Poor returns the share of queries that find less than half of the true rows, in the kind of
// queries that has most of these; 0 if it is not known.
func (l *Ledger) Poor() float64 { return l.poor }

// Add adds the ledger of another component. The whole is exact if all
// components are, and promises the least recall among them.
func (l *Ledger) Add(part Ledger) {
	l.share, l.usual = min(l.Recall(), part.Recall()), min(l.Usual(), part.Usual())
	l.poor = max(l.poor, part.poor)
	l.Approximate = l.Approximate || part.Approximate
	l.graph, l.coded, l.sketched = l.graph || part.graph, l.coded || part.coded, l.sketched || part.sketched
	l.Considered += part.Considered
	l.scanned += part.scanned
}

// Lose records a step after which some rows may be wrong: kept is the share
// that is sure to be right.
func (l *Ledger) Lose(kept float64) {
	l.share, l.usual = l.Recall()*kept, l.Usual()*kept
	l.Approximate = true
}

// Complete reports whether the rows found are all that are wanted or exist. An
// exact component that found fewer than wanted has found all.
func (l *Ledger) Complete(found, wanted int) bool { return !l.Approximate || found >= wanted }

// Plan says how the vectors were searched.
func (l *Ledger) Plan() string {
	plan := "exact scan"
	if l.coded {
		plan = "exact scan of codes"
	}
	if l.sketched {
		plan = "scan of sketches"
	}
	switch {
	case l.graph && l.scanned > 0:
		return "graph, and " + plan + " of the rest"
	case l.graph:
		return "graph"
	}
	return plan
}
