package torture

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
)

// A track is a sequence of steps by one writer on its own collections. Their names begin with the
// number of the track.
type track struct {
	number  int
	seed    uint64
	p       *profile
	history []content // after each batch; the first is empty
	taken   int       // steps, including those without a write
	acked   int       // batches acknowledged by the database
}

func newTrack(p *profile, seed uint64, number int) *track {
	return &track{number: number, seed: seed, p: p, history: []content{{}}}
}

func (t *track) now() content { return t.history[len(t.history)-1] }

// next computes the next step, and its effect if it writes.
func (t *track) next() step {
	rng := rand.New(rand.NewPCG(t.seed, uint64(t.number)<<32|uint64(t.taken)))
	t.taken++
	c := t.now()
	name := func(s string) string { return fmt.Sprintf("%d/%s", t.number, s) }
	var s step
	switch t.taken {
	case 1:
		s = step{kind: stepCreate, coll: name("a"), dim: dim}
	case 2:
		s = step{kind: stepCreate, coll: name("b")}
	default:
		s = t.choose(rng, c, name)
	}
	if s.kind < lastWrite {
		t.history = append(t.history, s.effect(c))
	}
	return s
}

func (t *track) choose(rng *rand.Rand, c content, name func(string) string) step {
	total := 0
	for _, w := range t.p.weights {
		total += w.n
	}
	kind := stepBatch
	for n, i := rng.IntN(total), 0; ; i++ {
		if n -= t.p.weights[i].n; n < 0 {
			kind = t.p.weights[i].kind
			break
		}
	}
	names := slices.Sorted(maps.Keys(c))
	coll := names[rng.IntN(len(names))]
	fresh := name(fmt.Sprintf("c%d", t.taken))
	switch kind {
	case stepCross:
		return step{kind: kind, writes: t.cross(rng, c)}
	case stepDelete:
		s := step{kind: kind, coll: coll}
		for range 1 + rng.IntN(4) {
			s.writes = append(s.writes, write{coll: coll, del: t.id(rng)})
		}
		return s
	case stepWhere:
		group := int64(rng.IntN(4))
		return step{kind: kind, coll: coll, group: group, where: filter.Eq("group", group)}
	case stepDrop, stepRename, stepCreate:
		if kind == stepCreate && len(names) < mostCollections {
			return step{kind: kind, coll: fresh, dim: dim * rng.IntN(2)}
		}
		// "a" and "b" stay, because later steps need them.
		if coll == name("a") || coll == name("b") {
			break
		}
		if kind == stepCreate {
			kind = stepDrop
		}
		return step{kind: kind, coll: coll, to: fresh}
	case stepText:
		return step{kind: kind, coll: coll, words: !c[coll].words}
	case stepMeta:
		return step{kind: kind, coll: coll, metadata: db.Metadata{"step": int64(t.taken), "of": coll}}
	case stepBatch:
		s, d := step{kind: kind, coll: coll}, c[coll].dim
		if coll != name("b") && rng.IntN(3) == 0 {
			d = dim // sets the dimension of a collection that has none yet
		}
		for range 1 + rng.IntN(t.p.docs) {
			s.writes = append(s.writes, write{coll: coll, put: t.document(rng, d)})
		}
		return s
	default:
		return step{kind: kind}
	}
	return step{kind: stepBatch, coll: coll, writes: []write{{coll: coll, put: t.document(rng, c[coll].dim)}}}
}

// cross returns a batch over the collections a and b.
func (t *track) cross(rng *rand.Rand, c content) (all []write) {
	for _, base := range []string{"a", "b", "a"} {
		name := fmt.Sprintf("%d/%s", t.number, base)
		tab := c[name]
		all = append(all, write{coll: name, put: t.document(rng, tab.dim)})
		switch id := t.id(rng); {
		case tab.docs[id] == nil || slices.ContainsFunc(all,
			func(w write) bool { return w.coll == name && (w.del == id || w.put != nil && w.put.ID == id) }):
		case rng.IntN(2) == 0:
			all = append(all, write{coll: name, del: id})
		default:
			d := *tab.docs[id]
			d.Text = strings.ToUpper(d.Text)
			d.Metadata = maps.Clone(d.Metadata)
			d.Metadata["step"] = int64(t.taken)
			all = append(all, write{coll: name, put: &d,
				patch: &db.Patch{ID: id, Text: &d.Text, Set: db.Metadata{"step": int64(t.taken)}}})
		}
	}
	return all
}

func (t *track) id(rng *rand.Rand) string { return fmt.Sprintf("id-%03d", rng.IntN(t.p.ids)) }

const letters = "the quick brown fox jumps over a lazy dog while vectors sleep "

func (t *track) document(rng *rand.Rand, dim int) *db.Document {
	d := &db.Document{ID: t.id(rng), Metadata: db.Metadata{
		"step": int64(t.taken), "group": int64(rng.IntN(4)), "track": int64(t.number),
		"nested": map[string]any{"x": rng.Float64()}}}
	if t.p.text > 0 {
		n, from := rng.IntN(t.p.text), rng.IntN(len(letters))
		if n > 64*kib { // large texts test length only
			n = t.p.text - rng.IntN(t.p.text/8)
		}
		d.Text = strings.Repeat(letters, n/len(letters)+2)[from : from+n]
	}
	if dim > 0 && rng.IntN(8) > 0 {
		d.Vector = make([]float32, dim)
		for i := range d.Vector {
			d.Vector[i] = float32(rng.NormFloat64())
		}
	}
	return d
}
