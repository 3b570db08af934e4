package db

// A ledger records the promise of a search about the rows that it found, and its
// cost. Every component of an answer keeps one: a part of the collection, a leg
// of a hybrid query, a round of groups, one of several fused queries. The
// ledger of the answer is their sum, and only result shows it to callers. The
// zero ledger is for a component that costs nothing and misses nothing.
type ledger struct {
	approximate bool    // true rows may be missing
	share       float64 // promised share of the true rows, if approximate

	walked     bool // through a graph
	coded      bool // codes were scanned
	considered int  // vectors compared with the query
	scanned    int  // of considered, by scans
}

// recall returns the promised share of the true rows.
func (l *ledger) recall() float64 {
	if l.approximate {
		return l.share
	}
	return 1
}

// add adds the ledger of another component. The whole is exact if all
// components are, and promises the least recall among them.
func (l *ledger) add(part ledger) {
	l.share = min(l.recall(), part.recall())
	l.approximate = l.approximate || part.approximate
	l.walked, l.coded = l.walked || part.walked, l.coded || part.coded
	l.considered += part.considered
	l.scanned += part.scanned
}

// lose records a step after which some rows may be wrong: kept is the share
// that is sure to be right.
func (l *ledger) lose(kept float64) {
	l.share = l.recall() * kept
	l.approximate = true
}

// complete reports whether the rows found are all that are wanted or exist. An
// exact component that found fewer than wanted has found all.
func (l *ledger) complete(found, wanted int) bool { return !l.approximate || found >= wanted }

// plan says how the vectors were searched.
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

// result returns a Result without hits.
func (l *ledger) result(matched int, complete bool, plan string) *Result {
	return &Result{
		Exact: !l.approximate, Complete: complete, Recall: l.recall(),
		Matched: matched, Considered: l.considered, Plan: plan,
	}
}
