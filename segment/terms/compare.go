package terms

import (
	"bytes"
	"fmt"
	"iter"
	"runtime/debug"

	"github.com/vecbolt/vecbolt/internal/bitset"
)

// Compare returns an error that says how two sources differ in the given rows, which both must
// have; nil if they do not.
func Compare(a, b Source, rows bitset.Set) error {
	lens := [2][]uint32{}
	var next [2]func() (named, error, bool)
	for i, s := range []Source{a, b} {
		var err error
		if lens[i], err = s.lengths(); err != nil {
			return err
		}
		var stop func()
		next[i], stop = pull(s)
		defer stop()
	}
	for row := range rows.All() {
		if x, y := lens[0][row], lens[1][row]; x != y {
			return fmt.Errorf("terms: row %d has %d terms, not %d", row, x, y)
		}
	}
	var heads [2]named
	var more [2]bool
	advance := func(i int) (err error) {
		heads[i], err, more[i] = next[i]()
		return err
	}
	for i := range heads {
		if err := advance(i); err != nil {
			return err
		}
	}
	for more[0] || more[1] {
		term := heads[0].term
		if !more[0] || more[1] && heads[1].term < term {
			term = heads[1].term
		}
		var lists [2]list
		for i := range heads {
			if more[i] && heads[i].term == term {
				lists[i] = heads[i].list
			}
		}
		if err := compareLists(term, lists, [2]int{a.Rows(), b.Rows()}, rows); err != nil {
			return err
		}
		for i := range heads {
			if more[i] && heads[i].term == term {
				if err := advance(i); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func compareLists(term string, lists [2]list, limits [2]int, rows bitset.Set) error {
	var cursors [2]cursor
	var at [2]int // the row, -1 at the end
	var pos [2][]byte
	move := func(i int) error {
		for {
			ok, err := cursors[i].next()
			if err != nil || !ok {
				at[i] = -1
				return err
			}
			if at[i] = int(cursors[i].rows[cursors[i].i]); rows.Has(at[i]) {
				pos[i], err = cursors[i].raw()
				return err
			}
		}
	}
	for i := range cursors {
		cursors[i].init(lists[i], limits[i])
		if err := move(i); err != nil {
			return err
		}
	}
	for at[0] >= 0 || at[1] >= 0 {
		if at[0] != at[1] || !bytes.Equal(pos[0], pos[1]) {
			return fmt.Errorf("terms: %q is not at the same places of rows %d and %d", term, at[0], at[1])
		}
		for i := range cursors {
			if err := move(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// pull is iter.Pull2 of all terms of a source. That runs in a goroutine of its own, where a fault
// of mapped memory would end the process although the caller is guarded: it is made a panic there
// too, which next passes on to the caller.
func pull(s Source) (next func() (named, error, bool), stop func()) {
	return iter.Pull2(func(yield func(named, error) bool) {
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		s.withPrefix("")(yield)
	})
}
