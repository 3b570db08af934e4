package terms

import (
	"encoding/binary"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/vecbolt/vecbolt/text"
)

// A Source is an index that a search can use: [*Terms], the file of a segment, or a [View] of an
// [Index] in memory.
type Source interface {
	// Rows returns the number of rows.
	Rows() int
	// lengths returns the length of each row: the number of its terms, counting repetitions.
	lengths() ([]uint32, error)
	// totals returns how many rows have terms, and the sum of lengths; ok is false if that is not
	// known.
	totals() (texts, tokens uint64, ok bool)
	// lookup returns the list of a term, with df 0 for an unknown term.
	lookup(term string) (list, error)
	// whole reports whether no list has rows beyond the source, as the lists of a View may.
	whole() bool
	// withPrefix yields the terms that begin with prefix, in ascending order, up to an error.
	withPrefix(prefix string) iter.Seq2[named, error]
}

// named is a term with its list.
type named struct {
	term string
	list list
}

// An Index is an index in memory, to which rows can be added. It is safe for concurrent use; one
// goroutine at a time may add.
type Index struct {
	mu     sync.RWMutex
	names  map[string]uint32
	lists  []lister
	lens   []uint32
	texts  uint64
	tokens uint64

	touched []uint32 // lists of the row that is being added
}

// NewIndex returns an empty Index.
func NewIndex() *Index { return &Index{names: map[string]uint32{}} }

// Add adds the next row, with the terms of its text, in order of position.
func (x *Index) Add(tokens []text.Token) {
	x.mu.Lock()
	defer x.mu.Unlock()
	row := int64(len(x.lens))
	x.touched = x.touched[:0]
	for i := range tokens {
		t := &tokens[i]
		id, ok := x.names[t.Term]
		if !ok {
			id = uint32(len(x.lists))
			x.names[strings.Clone(t.Term)] = id
			x.lists = append(x.lists, newLister())
		}
		l := &x.lists[id]
		if l.row != row {
			l.row, l.freq, l.from = row, 0, 0
			x.touched = append(x.touched, id)
		}
		l.freq++
		l.list.pos = binary.AppendUvarint(l.list.pos, uint64(uint32(t.Position)-l.from))
		l.from = uint32(t.Position)
	}
	for _, id := range x.touched {
		l := &x.lists[id]
		l.add(int(row), l.freq, uint32(len(tokens)))
	}
	x.lens = append(x.lens, uint32(len(tokens)))
	x.tokens += uint64(len(tokens))
	if len(tokens) > 0 {
		x.texts++
	}
}

// Rows returns the number of rows added so far.
func (x *Index) Rows() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.lens)
}

// View returns the first n rows, whatever is added later. There must be at least n.
func (x *Index) View(n int) *View {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return &View{index: x, lens: x.lens[:n:n]}
}

// A View is the first rows of an Index.
type View struct {
	index *Index
	lens  []uint32
}

// Rows returns the number of rows.
func (v *View) Rows() int { return len(v.lens) }

func (v *View) lengths() ([]uint32, error) { return v.lens, nil }

func (v *View) whole() bool { return false }

func (v *View) totals() (texts, tokens uint64, ok bool) {
	v.index.mu.RLock()
	defer v.index.mu.RUnlock()
	return v.index.texts, v.index.tokens, len(v.index.lens) == len(v.lens)
}

func (v *View) lookup(term string) (list, error) {
	v.index.mu.RLock()
	defer v.index.mu.RUnlock()
	if id, ok := v.index.names[term]; ok {
		return v.index.lists[id].list, nil
	}
	return list{}, nil
}

func (v *View) withPrefix(prefix string) iter.Seq2[named, error] {
	return func(yield func(named, error) bool) {
		v.index.mu.RLock()
		var all []named
		for name, id := range v.index.names {
			if strings.HasPrefix(name, prefix) {
				all = append(all, named{name, v.index.lists[id].list})
			}
		}
		v.index.mu.RUnlock()
		slices.SortFunc(all, func(a, b named) int { return strings.Compare(a.term, b.term) })
		for _, n := range all {
			if !yield(n, nil) {
				return
			}
		}
	}
}
