package db

// A ledger says what the rows that a search found are worth, and what it took
// to find them. Every part of an answer keeps one: a part of the collection, a
// leg of a hybrid query, a round of groups, one of several fused queries. That
// of the answer is their sum, and result is the only place that reads it out to
// callers. The zero ledger is that of a part which cost nothing and lacks nothing.
type ledger struct {
	approximate bool    // rows that belong here may be missing
	share       float64 // of the true rows that is promised, if approximate

	walked     bool // through a graph
	coded      bool // codes were scanned
	considered int  // vectors whose score was looked at
	scanned    int  // of these, those of scans
}

// recall returns the share of the true rows that is promised.
func (l *ledger) recall() float64 {
	if l.approximate {
		return l.share
	}
	return 1
}

// add takes in a part beside those that are in l: the whole is exact if all
// parts are, and promises what the least of them does.
func (l *ledger) add(part ledger) {
	l.share = min(l.recall(), part.recall())
	l.approximate = l.approximate || part.approximate
	l.walked, l.coded = l.walked || part.walked, l.coded || part.coded
	l.considered += part.considered
	l.scanned += part.scanned
}

// lose takes in a step that keeps, of the rows it gets, a share that is sure to
// be right, and may be wrong about the others.
func (l *ledger) lose(kept float64) {
	l.share = l.recall() * kept
	l.approximate = true
}

// complete reports whether so many rows are all that are wanted or exist: an
// exact part that found fewer has them all.
func (l *ledger) complete(found, wanted int) bool { return !l.approximate || found >= wanted }

// plan says how vectors were looked for.
func (l *ledger) plan() string {
	plan := "exact scan"
	if l.coded {
		plan = "exact scan of codes"
	}
	switch {
	case l.walked && l.scanned > 0:
		return "graph, and " + plan + " of the rest"
	case l.walked:
		return "graph"
	}
	return plan
}

// result makes an answer without its hits.
func (l *ledger) result(matched int, complete bool, plan string) *Result {
	return &Result{
		Exact: !l.approximate, Complete: complete, Recall: l.recall(),
		Matched: matched, Considered: l.considered, Plan: plan,
	}
}
