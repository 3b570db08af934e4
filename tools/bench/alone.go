package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// A process alone that shares its database is compared with one that keeps others out. A run of
// seconds of each does not tell them apart: other virtual machines and the place of the memory make
// more of a difference. So both have a database of the same content, take turns of aloneMillis, the
// first one in every other round the second, and exchange the databases with every pair.
const (
	aloneMillis = 50
	alonePairs  = 16 // of processes
	aloneRounds = 18
)

// aloneFigure is the part of the figure processes that compares them.
func aloneFigure(e *env, r *report) error {
	r.Title = "A process alone that shares its database"
	return e.alone(r)
}

func (e *env) alone(r *report) error {
	r.note("A process alone: one that shares its database and one that keeps others out take turns of %d ms, %d each, on databases of the same content; the order changes with every turn. Then two new processes begin, with the databases exchanged: %d pairs. The ratio is the median over the rounds of all pairs, with its 95 %% interval; the lowest and the highest pair are medians of one.", aloneMillis, aloneRounds, alonePairs)
	if err := e.writesAlone(r); err != nil {
		return err
	}
	return e.searchesAlone(r)
}

// sharing measures a work of a process that shares and of one that does not. databases returns the
// directories of a pair.
func (e *env) sharing(r *report, what string, w work, databases func(pair int) ([2]string, error)) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	argv := []string{self, childFlag, "processes"}
	w.Millis = aloneMillis
	var ratios, pairs []float64
	var rates, micros [2][]float64 // shared, exclusive
	for pair := range alonePairs {
		e.logf("processes: alone, %s, pair %d", what, pair+1)
		dirs, err := databases(pair)
		if err != nil {
			return err
		}
		some, err := e.pair(argv, w, dirs, &rates, &micros)
		if err != nil {
			return err
		}
		ratios = append(ratios, some...)
		pairs = append(pairs, median(some))
	}
	from, to := medianInterval(ratios)
	for i, who := range []string{"shared", "exclusive"} {
		r.add(measurement{Set: "a process alone", Who: "vecbolt", How: what + ", " + who, Value: median(rates[i]), Unit: "calls/s",
			Detail: map[string]float64{"processor us of a call": median(micros[i])}})
	}
	r.add(measurement{Set: "a process alone", Who: "vecbolt", How: what + ", shared ÷ exclusive", Value: median(ratios),
		Detail: map[string]float64{"95 % from": from, "95 % to": to, "lowest pair": slices.Min(pairs), "highest pair": slices.Max(pairs)}})
	r.atLeast("a process alone: "+what+", shared ÷ exclusive", 0.98, median(ratios))
	return nil
}

// pair runs one process that shares the first database and one that has the second for itself, and
// returns the ratio of their rates in each round. It adds their rates, and the processor time of a
// call, to those of other pairs.
func (e *env) pair(argv []string, w work, dirs [2]string, rates, micros *[2][]float64) (ratios []float64, err error) {
	var both [2]*process
	for i, dir := range dirs {
		w.Name, w.Exclusive = [2]string{"shared", "exclusive"}[i], i == 1
		if both[i], err = start(argv, dir, w); err != nil {
			return nil, err
		}
		defer both[i].kill()
	}
	for round := range aloneRounds + 1 {
		var now [2]float64
		for turn := range both {
			i := (turn + round) % 2
			if err := both[i].begin(); err != nil {
				return nil, err
			}
			done, err := both[i].result()
			if err != nil {
				return nil, err
			}
			if round == 0 { // the caches fill
				continue
			}
			now[i], _ = sum([]worked{done})
			rates[i] = append(rates[i], now[i])
			micros[i] = append(micros[i], 1e6*done.CPU/float64(done.N))
		}
		if round == 0 {
			continue
		}
		ratios = append(ratios, now[0]/now[1])
	}
	for _, p := range both {
		if err := p.end(); err != nil {
			return nil, err
		}
	}
	return ratios, nil
}

// callers names a number of goroutines.
func callers(n int) string {
	if n == 1 {
		return "1 caller"
	}
	return fmt.Sprintf("%d callers", n)
}

// writesAlone measures writes to new databases.
func (e *env) writesAlone(r *report) error {
	for _, n := range []int{1, 2} {
		dir, err := e.scratchDir("processes-alone")
		if err != nil {
			return err
		}
		err = e.sharing(r, "writes, "+callers(n), work{What: "write", Callers: n}, func(pair int) ([2]string, error) {
			place := filepath.Join(dir, fmt.Sprint(pair))
			if pair > 0 {
				if err := os.RemoveAll(filepath.Join(dir, fmt.Sprint(pair-1))); err != nil {
					return [2]string{}, err
				}
			}
			return [2]string{filepath.Join(place, "shared"), filepath.Join(place, "exclusive")}, os.MkdirAll(place, 0o777)
		})
		if err != nil {
			return err
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

// searchesAlone measures searches of a database and of a copy of it.
func (e *env) searchesAlone(r *report) error {
	dir, set, err := e.sentencesDatabase("processes-alone")
	if err != nil {
		return err
	}
	twin, err := e.scratchDir("processes-twin")
	if err != nil {
		return err
	}
	if err := os.RemoveAll(twin); err != nil {
		return err
	}
	if err := os.CopyFS(twin, os.DirFS(dir)); err != nil {
		return err
	}
	for _, n := range []int{1, 2} {
		err := e.sharing(r, "searches, "+callers(n), work{What: "search", Callers: n, Queries: set.queryPath}, func(pair int) ([2]string, error) {
			if pair%2 == 1 {
				return [2]string{twin, dir}, nil
			}
			return [2]string{dir, twin}, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
