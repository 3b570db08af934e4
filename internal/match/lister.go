package match

import (
	"cmp"
	"container/heap"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/meta"
)

// A Match is a document that the filter accepts.
type Match struct {
	ID   string
	Part *engine.Part
	Row  int
}

// A Lister finds matches in order of id.
type Lister struct {
	Version *engine.Version
	View    *engine.View
	Sets    []bitset.Set // the rows that match, by part
	After   string       // only ids behind this one; Run moves it
	Skip    int          // of the first matches
	Want    int          // matches
	Found   []Match
}

// Run walks the tree of ids from the cursor. If the tree is newer than the version, it reads the
// ids of all matches instead. If few documents match, it does so when the walk has cost as much:
// matches that are spread evenly fill a page before, unless they are very few. Then the pages of a
// whole listing walk over the tree once, where each would read all matches.
func (l *Lister) Run(ctx context.Context, tx *meta.Tx, total int) error {
	state, err := tx.State()
	if err != nil {
		return err
	}
	const few = 16 // to read the ids of one in this many costs about as much as to walk over all
	looks := math.MaxInt
	if total < l.View.Count/few {
		looks = total
		for _, h := range l.View.Heads { // which walk reads in any case
			looks -= h.Entries
		}
		// A page of matches that are spread evenly takes so many looks. If to read all takes fewer,
		// a short walk tells whether the next ones are near.
		if (float64(l.Skip)+float64(l.Want))*float64(l.View.Count) > float64(total)*float64(looks) {
			looks /= 8
		}
	}
	if state.Applied == l.Version.Applied && looks > 0 {
		ended, err := l.walk(ctx, tx, looks)
		if ended || err != nil {
			return err
		}
	}
	return l.pick(ctx, tx)
}

// add takes the next match in order and reports whether more are wanted.
func (l *Lister) add(m Match) bool {
	if l.Skip > 0 {
		l.Skip--
		return true
	}
	l.Found = append(l.Found, m)
	return len(l.Found) < l.Want
}

// pick reads the ids of all matches. It keeps at most twice the number that the page needs.
func (l *Lister) pick(ctx context.Context, tx *meta.Tx) error {
	need := l.Skip + l.Want - len(l.Found)
	if need < 0 { // overflow
		need = math.MaxInt
	}
	byID := func(a, b Match) int { return cmp.Compare(a.ID, b.ID) }
	var least []Match
	beyond, seen := false, 0 // beyond: the first need of least are sorted, and others are behind them
	for i, p := range l.View.Parts {
		if err := ctx.Err(); err != nil {
			return err
		}
		for row := range l.Sets[i].All() {
			if seen++; seen%1024 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			id, err := l.View.IDAt(tx, p, row)
			if err != nil {
				return err
			}
			if id <= l.After || beyond && id > least[need-1].ID {
				continue
			}
			least = append(least, Match{id, p, row})
			if len(least)/2 >= need {
				slices.SortFunc(least, byID)
				least, beyond = least[:need], true
			}
		}
	}
	slices.SortFunc(least, byID)
	for _, m := range least {
		if !l.add(m) {
			break
		}
	}
	return nil
}

// walk walks over the tree and the heads. If it has to end after looks ids of the tree, the cursor
// is behind the matches that it has found.
func (l *Lister) walk(ctx context.Context, tx *meta.Tx, looks int) (ended bool, err error) {
	head := l.headIDs()
	wanted := func(id string, num uint64) (bool, error) {
		for i, p := range l.View.Parts {
			if row, ok := p.Row(num); ok {
				return !l.Sets[i].Has(row) || l.add(Match{id, p, row}), nil
			}
		}
		return false, engine.MissingRow(l.View.Def.Name, id, num)
	}
	more, seen := true, 0
	err = tx.IDs(l.View.Def.ID, l.After, false, func(id string, num uint64) (bool, error) {
		if seen++; seen%1024 == 0 && ctx.Err() != nil {
			return false, ctx.Err()
		}
		if seen > looks {
			return false, nil
		}
		l.After = id
		var err error
		for more && len(head) > 0 && head[0].id < id {
			if h := head.take(); h.num != 0 {
				if more, err = wanted(h.id, h.num); err != nil {
					return false, err
				}
			}
		}
		if len(head) > 0 && head[0].id == id { // replaced or deleted since
			num = head.take().num
		}
		if more && num != 0 {
			more, err = wanted(id, num)
		}
		return more, err
	})
	for err == nil && more && seen <= looks && len(head) > 0 {
		if h := head.take(); h.num != 0 {
			more, err = wanted(h.id, h.num)
		}
	}
	return !more || seen <= looks, err
}

// headID is a state of an id in a head.
type headID struct {
	id  string
	num uint64 // 0: deleted
	age int    // of the head, 0 for the newest
}

// headIDs are states of ids in the heads: a heap with the least id first, and its newest state
// before the others. A page takes few ids, and to sort all of them would cost it many times more.
type headIDs []headID

// headIDs returns the ids beyond the cursor.
func (l *Lister) headIDs() headIDs {
	n := 0
	for _, h := range l.View.Heads {
		n += h.Entries
	}
	ids := make(headIDs, 0, n)
	for age, h := range l.View.Heads {
		for id, num := range h.Coll.IDs(h.Entries) {
			if id > l.After {
				ids = append(ids, headID{id, num, age})
			}
		}
	}
	slices.Reverse(ids) // ids that were written in order are a heap then
	heap.Init(&ids)
	return ids
}

// take removes the least id and returns its newest state.
func (h *headIDs) take() headID {
	least := (*h)[0]
	for len(*h) > 0 && (*h)[0].id == least.id {
		last := len(*h) - 1
		h.Swap(0, last)
		if *h = (*h)[:last]; last > 0 {
			heap.Fix(h, 0)
		}
	}
	return least
}

func (h headIDs) Len() int      { return len(h) }
func (h headIDs) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h headIDs) Less(i, j int) bool {
	return cmp.Or(strings.Compare(h[i].id, h[j].id), h[i].age-h[j].age) < 0
}
func (h *headIDs) Push(x any) { *h = append(*h, x.(headID)) }
func (h *headIDs) Pop() any   { return h.take() }

// InOrder returns an iterator over the rows of all parts in order of DocNum.
// The DocNums of a part are copied as it goes: they may be mapped memory.
func InOrder(parts []*engine.Part, sets []bitset.Set) func() (*engine.Part, int, bool) {
	rows := make([]int, len(parts))
	for i := range rows {
		rows[i] = sets[i].NextSet(0)
	}
	return func() (*engine.Part, int, bool) {
		best := -1
		for i, row := range rows {
			if row >= 0 && (best < 0 || parts[i].Nums[row] < parts[best].Nums[rows[best]]) {
				best = i
			}
		}
		if best < 0 {
			return nil, 0, false
		}
		row := rows[best]
		rows[best] = sets[best].NextSet(row + 1)
		return parts[best], row, true
	}
}

// IDs returns the ids of the live documents that match. The caller is inside Engine.Guard and
// outside any transaction.
func IDs(ctx context.Context, store *meta.Store, v *engine.View, where filter.Expr) ([]string, error) {
	var ids []string
	err := rows(ctx, v, where, func(p *engine.Part, set bitset.Set) error {
		for next := set.NextSet(0); next >= 0; {
			err := store.View(func(tx *meta.Tx) error {
				for n := 0; next >= 0 && n < idsAtOnce; next, n = set.NextSet(next+1), n+1 {
					id, err := v.IDAt(tx, p, next)
					if err != nil {
						return err
					}
					ids = append(ids, id)
				}
				return ctx.Err()
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return ids, err
}

// idsAtOnce is how many ids IDs reads in one transaction. A longer one would keep pages that later
// commits could use again.
const idsAtOnce = 1024

// visitBytes is how much Visit reads in one transaction.
const visitBytes = 1 << 20

// Visit calls fn with each live document that matches, as it is stored. fn may keep the bytes. It
// runs outside of transactions, so it may read the database. The caller is as for IDs.
func Visit(ctx context.Context, store *meta.Store, v *engine.View, where filter.Expr,
	fn func(stored []byte) error) error {
	return rows(ctx, v, where, func(p *engine.Part, set bitset.Set) error {
		for next := set.NextSet(0); next >= 0; {
			var docs [][]byte
			err := store.View(func(tx *meta.Tx) error {
				for size := 0; next >= 0 && size < visitBytes; next = set.NextSet(next + 1) {
					b, err := v.Stored(tx, p, next)
					if err != nil {
						return err
					}
					docs, size = append(docs, slices.Clone(b)), size+len(b)
				}
				return nil
			})
			if err != nil {
				return err
			}
			for _, b := range docs {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := fn(b); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// rows calls fn with the live rows of each part that match.
func rows(ctx context.Context, v *engine.View, where filter.Expr,
	fn func(p *engine.Part, set bitset.Set) error) error {
	m, err := New(ctx, v, where)
	if err != nil {
		return err
	}
	for i, p := range v.Parts {
		set, err := m.Rows(i)
		if err == nil {
			err = fn(p, set)
		}
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}
