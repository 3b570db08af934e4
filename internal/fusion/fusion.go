package fusion

import (
	"cmp"
	"slices"
)

// An Entry is a key with its score in one list.
type Entry[K comparable] struct {
	Key   K
	Score float64
}

// A Ranking is the best entries of a list, in order.
type Ranking[K comparable] struct {
	Best  []Entry[K]
	Whole bool // the list has no other entries
}

// A List is one ranking to fuse. Its functions look deeper into it; nil: the list cannot do that.
type List[K comparable] struct {
	Ranking[K] // the best entries, at first
	Weight     float64
	Scale      Scale // for Convex

	// Score looks up the score of a key; false: the list does not have the key. Without Score, a
	// key outside the known entries may be anywhere behind them.
	Score func(K) (float64, bool, error)
	// Ranks finds the ranks of entries in the complete list.
	Ranks func([]Entry[K]) ([]int, error)
	// All calls a function with every key of the list.
	All func(func(K)) error
	// Above returns the entries with at least the score least, in no order. If there are more than
	// limit, it returns at least the best limit of them. Scores of such a list are positive, and
	// its Scale is Linear from 0.
	Above func(least float64, limit int) ([]Entry[K], error)
}

// An Input holds the lists and the rules of a fusion. Convex takes two lists; it extends the first
// by All and the second by Above. RRF takes any number and extends each by Longer.
type Input[K comparable] struct {
	Method Method
	C      float64 // of RRF
	Lists  []List[K]

	K       int      // number of wanted hits, positive
	Least   *float64 // least score of a hit; nil: any
	Matched int      // no more keys than this are in any list

	// Thorough says to look deeper until the result is certain. Otherwise Convex looks at Texts
	// entries of the second list at most, and RRF at none beyond the given ones.
	Thorough bool
	Texts    int

	// Longer returns longer rankings of all lists; nil at the end of all lists. The function may be
	// nil.
	Longer func() ([]Ranking[K], error)
	// Names returns the names of keys. Equal scores are ordered by name.
	Names func([]K) ([]string, error)
	// Clock is called when a round of ranking starts, and its result when the round ends, with
	// the number of keys and of hits. It may be nil.
	Clock func() func(keys, hits int)
	// Everything asks for Output.All.
	Everything bool
}

// A Leg is the place of a key in one list.
type Leg struct {
	Rank   int // from 1; 0: not among the ranked entries
	Score  float64
	Scored bool // Score is known
}

// A Hit is a key with its fused score.
type Hit[K comparable] struct {
	Key   K
	Score float64
	Legs  []Leg // by list
}

// An Output is the result of a fusion.
type Output[K comparable] struct {
	Hits    []Hit[K] // the best keys, in order
	Certain bool     // Hits are the fusion of complete lists, in order and in the bits of scores
	Kept    float64  // the share of the true hits that Hits certainly has
	All     []Hit[K] // all keys that were seen, in order
}

// Fuse combines lists into one, and extends them while they do not determine the best keys.
//
// Short lists are enough if the last wanted hit beats every key outside them. Such a key is worth
// at most the sum of the last entries of each list. This is the threshold algorithm of Fagin, Lotem
// and Naor ("Optimal aggregation algorithms for middleware", PODS 2001). Convex looks missing
// scores up; RRF bounds unknown ranks (their NRA).
func Fuse[K comparable](in Input[K]) (*Output[K], error) {
	f := &fuser[K]{Input: in, lists: make([]list, len(in.Lists)), at: map[K]int{}}
	for i := range in.Lists {
		f.take(i, in.Lists[i].Ranking)
	}
	for {
		hits, err := f.rank()
		if err != nil {
			return nil, err
		}
		d := f.doubt(hits)
		bar := f.bar(hits)
		certain := d.none(bar)
		if !certain {
			more, err := f.deepen(hits, bar)
			if err != nil {
				return nil, err
			}
			if more {
				continue
			}
		}
		out := &Output[K]{Hits: f.hits(hits), Certain: certain, Kept: f.kept(hits, d)}
		if in.Everything {
			all, err := f.order(f.scored(nil), len(f.all))
			if err != nil {
				return nil, err
			}
			out.All = f.hits(all)
		}
		return out, nil
	}
}

// A fuser is a fusion while it runs.
type fuser[K comparable] struct {
	Input[K]
	lists []list

	all    []candidate[K] // every key seen so far, in no order
	legs   []Leg          // of all[i]: len(lists) from i·len(lists) on
	at     map[K]int      // index in all
	deeper bool           // Convex called Above with the current first list
}

// A list is the known prefix of a List.
type list struct {
	depth   int     // number of ranked entries
	ceiling float64 // the largest score that a key outside the known entries can have
	whole   bool    // every entry is known
}

// A candidate is a key that was seen in a list.
type candidate[K comparable] struct {
	key       K
	score     float64 // fused, of the known ranks and scores
	completed bool    // all scores that can be looked up are known
}

// A scored is a candidate while it is ordered.
type scored struct {
	score float64
	at    int    // index in fuser.all
	name  string // read only to break ties
}

func (a scored) compare(b scored) int {
	if c := cmp.Compare(b.score, a.score); c != 0 {
		return c
	}
	return cmp.Compare(a.name, b.name)
}

// take adds a ranking.
func (f *fuser[K]) take(i int, r Ranking[K]) {
	for rank, e := range r.Best {
		f.legsOf(f.find(e.Key))[i] = Leg{Rank: rank + 1, Score: e.Score, Scored: true}
	}
	l := &f.lists[i]
	l.depth, l.whole = len(r.Best), r.Whole
	if l.depth > 0 {
		l.ceiling = r.Best[l.depth-1].Score
	}
}

// find returns the index of a key in f.all.
func (f *fuser[K]) find(key K) int {
	i, ok := f.at[key]
	if !ok {
		i = len(f.all)
		f.at[key] = i
		f.all = append(f.all, candidate[K]{key: key})
		for range f.lists {
			f.legs = append(f.legs, Leg{})
		}
	}
	return i
}

// legsOf returns the legs of f.all[i].
func (f *fuser[K]) legsOf(i int) []Leg { return f.legs[i*len(f.lists) : (i+1)*len(f.lists)] }

// rank fuses the known ranks and scores of every candidate and returns the best.
func (f *fuser[K]) rank() ([]scored, error) {
	done := func(keys, hits int) {}
	if f.Clock != nil {
		done = f.Clock()
	}
	for i := range f.all {
		if f.Method == Convex {
			if err := f.complete(i); err != nil {
				return nil, err
			}
		}
		sum := 0.0
		for l, leg := range f.legsOf(i) {
			sum += f.worth(l, leg)
		}
		f.all[i].score = sum
	}
	hits, err := f.order(f.scored(f.Least), f.K)
	for _, h := range hits {
		if err == nil {
			err = f.complete(h.at)
		}
	}
	done(len(f.all), len(hits))
	return hits, err
}

// worth returns what a leg adds to the fused score.
func (f *fuser[K]) worth(i int, leg Leg) float64 {
	l := &f.Lists[i]
	switch {
	case f.Method == RRF && leg.Rank > 0:
		return l.Weight / (f.C + float64(leg.Rank))
	case f.Method == Convex && leg.Scored:
		return float64(l.Weight * l.Scale.Of(leg.Score)) // the conversion forbids a fused multiply-add
	}
	return 0
}

// complete looks up the missing scores of a candidate.
func (f *fuser[K]) complete(i int) error {
	h := &f.all[i]
	if h.completed {
		return nil
	}
	h.completed = true
	legs := f.legsOf(i)
	for l := range legs {
		lookup, leg := f.Lists[l].Score, &legs[l]
		if lookup == nil || leg.Scored || f.lists[l].whole {
			continue
		}
		var err error
		if leg.Score, leg.Scored, err = lookup(h.key); err != nil {
			return err
		}
	}
	return nil
}

// scored returns the candidates with at least the score least.
func (f *fuser[K]) scored(least *float64) []scored {
	s := make([]scored, 0, len(f.all))
	for i := range f.all {
		if score := f.all[i].score; least == nil || score >= *least {
			s = append(s, scored{score: score, at: i})
		}
	}
	return s
}

// order returns the n best, in order.
func (f *fuser[K]) order(s []scored, n int) ([]scored, error) {
	slices.SortFunc(s, scored.compare)
	end := min(n, len(s))
	for 0 < end && end < len(s) && s[end].score == s[n-1].score {
		end++ // ties with the last one wanted compete by name
	}
	s = s[:end]
	var tied []int
	var keys []K
	for i := range s {
		if i > 0 && s[i-1].score == s[i].score || i+1 < end && s[i+1].score == s[i].score {
			tied, keys = append(tied, i), append(keys, f.all[s[i].at].key)
		}
	}
	if len(tied) > 0 {
		names, err := f.Names(keys)
		if err != nil {
			return nil, err
		}
		for j, i := range tied {
			s[i].name = names[j]
		}
		slices.SortFunc(s, scored.compare)
	}
	return s[:min(n, end)], nil
}

// hits returns candidates in their public form.
func (f *fuser[K]) hits(s []scored) []Hit[K] {
	hits := make([]Hit[K], len(s))
	for i, h := range s {
		hits[i] = Hit[K]{Key: f.all[h.at].key, Score: h.score, Legs: f.legsOf(h.at)}
	}
	return hits
}
