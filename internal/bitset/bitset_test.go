package bitset

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// model is a naive set, the reference for both types.
type model map[int]bool

func (m model) members() []int { return slices.Sorted(maps.Keys(m)) }

func checkSet(t *rapid.T, s Set, m model, n int) {
	t.Helper()
	if d := cmp.Diff(m.members(), slices.Collect(s.All())); d != "" {
		t.Fatalf("members (-want +got):\n%s", d)
	}
	if s.Count() != len(m) {
		t.Fatalf("Count = %d, want %d", s.Count(), len(m))
	}
	for i := -1; i <= len(s)*64+1; i++ {
		if s.Has(i) != m[i] {
			t.Fatalf("Has(%d) = %v", i, s.Has(i))
		}
	}
	lo := rapid.IntRange(-3, n+70).Draw(t, "lo")
	hi := rapid.IntRange(-3, n+70).Draw(t, "hi")
	count, next := 0, -1
	for _, i := range m.members() {
		if i >= lo && i < hi {
			count++
		}
		if next < 0 && i >= lo {
			next = i
		}
	}
	if got := s.CountRange(lo, hi); got != count {
		t.Fatalf("CountRange(%d, %d) = %d, want %d", lo, hi, got, count)
	}
	if got := s.NextSet(lo); got != next {
		t.Fatalf("NextSet(%d) = %d, want %d", lo, got, next)
	}
}

func drawSet(t *rapid.T, n int, label string) (Set, model) {
	s, m := New(n), model{}
	for _, i := range rapid.SliceOf(rapid.IntRange(0, n-1)).Draw(t, label) {
		s.Set(i)
		m[i] = true
	}
	return s, m
}

func TestSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(t, "n")
		s, m := drawSet(t, n, "bits")
		o, om := drawSet(t, rapid.IntRange(1, n).Draw(t, "other n"), "other")
		apply := func(keep func(i int) bool) {
			next := model{}
			for i := range n {
				if keep(i) {
					next[i] = true
				}
			}
			m = next
		}
		switch rapid.SampledFrom([]string{"none", "and", "or", "andnot", "not", "fill", "clear", "reset"}).Draw(t, "op") {
		case "and":
			s.And(o)
			apply(func(i int) bool { return m[i] && om[i] })
		case "or":
			s.Or(o)
			apply(func(i int) bool { return m[i] || om[i] })
		case "andnot":
			s.AndNot(o)
			apply(func(i int) bool { return m[i] && !om[i] })
		case "not":
			s.Not(n)
			apply(func(i int) bool { return !m[i] })
		case "fill":
			k := rapid.IntRange(0, n).Draw(t, "k")
			s.Fill(k)
			apply(func(i int) bool { return i < k })
		case "clear":
			i := rapid.IntRange(0, n-1).Draw(t, "i")
			s.Clear(i)
			delete(m, i)
		case "reset":
			s.Reset()
			clear(m)
		}
		checkSet(t, s, m, n)
	})
}

func TestSetEmpty(t *testing.T) {
	var s Set
	s.Fill(0)
	s.Not(0)
	s.And(nil)
	s.Or(nil)
	s.AndNot(New(100))
	if s.Count() != 0 || s.Has(0) || s.NextSet(0) != -1 || s.CountRange(0, 64) != 0 {
		t.Error("nil set is not empty")
	}
}

func TestSetAllStops(t *testing.T) {
	s := New(10)
	s.Fill(10)
	for i := range s.All() {
		if i == 3 {
			break
		}
		if i > 3 {
			t.Fatal("went on after break")
		}
	}
}

func TestCow(t *testing.T) {
	const rows = 5*ChunkBits + 100
	bit := rapid.OneOf(rapid.IntRange(0, rows-1), rapid.IntRange(0, 70), rapid.IntRange(ChunkBits-2, ChunkBits+2))
	rapid.Check(t, func(t *rapid.T) {
		type version struct {
			cow *Cow
			m   model
		}
		versions := []version{{nil, model{}}}
		for range rapid.IntRange(1, 6).Draw(t, "versions") {
			old := versions[len(versions)-1]
			add := rapid.SliceOfN(bit, 0, 20).Draw(t, "add")
			next := version{old.cow.With(add...), maps.Clone(old.m)}
			touched := model{}
			for _, i := range add {
				if !old.m[i] {
					next.m[i] = true
					touched[i/ChunkBits] = true
				}
			}
			if got := next.cow.Changed(old.cow); !slices.Equal(got, touched.members()) {
				t.Fatalf("Changed = %v, want %v", got, touched.members())
			}
			if len(touched) == 0 && next.cow != old.cow {
				t.Fatal("With without effect made a new version")
			}
			versions = append(versions, next)
		}
		for _, v := range versions {
			checkCow(t, v.cow, v.m)
			checkCow(t, FromChunks(maps.Collect(v.cow.Chunks())), v.m)
		}
	})
}

func checkCow(t *rapid.T, c *Cow, m model) {
	t.Helper()
	if got := slices.Collect(c.All()); !slices.Equal(got, m.members()) {
		t.Fatalf("All = %v, want %v", got, m.members())
	}
	if c.Count() != len(m) {
		t.Fatalf("Count = %d, want %d", c.Count(), len(m))
	}
	n := rapid.IntRange(0, 7*ChunkBits).Draw(t, "n")
	lo := rapid.IntRange(0, n).Draw(t, "lo")
	live, inRange := New(n), 0
	live.Fill(n)
	c.AndNotInto(live)
	dead := 0
	for i := range m {
		if !c.Has(i) || i < n && live.Has(i) {
			t.Fatalf("%d is lost", i)
		}
		if i < n {
			dead++
			if i >= lo {
				inRange++
			}
		}
	}
	if live.Count() != n-dead {
		t.Fatalf("AndNotInto left %d of %d, want %d", live.Count(), n, n-dead)
	}
	if got := c.CountRange(lo, n); got != inRange {
		t.Fatalf("CountRange(%d, %d) = %d, want %d", lo, n, got, inRange)
	}
	if c.Has(-1) || c.Has(9*ChunkBits) {
		t.Fatal("Has outside the set")
	}
}

func TestFromChunks(t *testing.T) {
	words := []uint64{5}
	c := FromChunks(map[int][]uint64{0: make([]uint64, ChunkWords), 2: words})
	words[0] = 0
	if got, want := slices.Collect(c.All()), []int{2 * ChunkBits, 2*ChunkBits + 2}; !slices.Equal(got, want) {
		t.Errorf("members %v, want %v", got, want)
	}
	if c.Chunk(0) != nil || len(c.Chunk(2)) != ChunkWords || c.Chunk(3) != nil {
		t.Error("an empty chunk must be nil, others complete")
	}
}

func BenchmarkSet(b *testing.B) {
	const n = 1 << 20
	s, o := New(n), New(n)
	for i := 0; i < n; i += 3 {
		o.Set(i)
	}
	b.Run("And", func(b *testing.B) {
		for b.Loop() {
			s.And(o)
		}
	})
	b.Run("Count", func(b *testing.B) {
		for b.Loop() {
			o.Count()
		}
	})
	b.Run("All", func(b *testing.B) {
		for b.Loop() {
			for range o.All() {
			}
		}
	})
}

func BenchmarkCowWith(b *testing.B) {
	c := (*Cow)(nil).With(1<<20, 1<<19)
	for b.Loop() {
		c.With(77)
	}
}

func TestHalf(t *testing.T) {
	s := New(100)
	for _, i := range []int{0, 31, 32, 63, 70, 99} {
		s.Set(i)
	}
	for i := range 6 {
		for bit := range 32 {
			if got := s.Half(i)>>bit&1 != 0; got != s.Has(32*i+bit) {
				t.Errorf("half %d, bit %d: %v", i, bit, got)
			}
		}
	}
}
