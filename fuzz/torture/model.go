package torture

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/vecbolt/vecbolt/db"
)

// content is the content of a database, expected or found: collections by name. A content in a
// history is immutable; the next content shares the unchanged collections.
type content map[string]*table

// A table is one collection.
type table struct {
	dim      int
	words    bool // has a full-text index
	metadata db.Metadata
	docs     map[string]*db.Document
	sum      uint64 // sum of the documents' hashes, see documentSum
}

// next returns a copy that may be changed; change a collection only through edit.
func (c content) next() content { return maps.Clone(c) }

// edit replaces a collection by a copy and returns the copy.
func (c content) edit(name string) *table {
	t := *c[name]
	t.docs = maps.Clone(t.docs)
	c[name] = &t
	return &t
}

func (t *table) put(d *db.Document) {
	t.remove(d.ID)
	t.docs[d.ID] = d
	t.sum += documentSum(d)
}

func (t *table) remove(id string) {
	if old := t.docs[id]; old != nil {
		t.sum -= documentSum(old)
		delete(t.docs, id)
	}
}

// sum is equal for equal contents.
func (c content) sum() uint64 {
	var h uint64
	for name, t := range c {
		h += mix(hashString(name) ^ mix(t.sum^uint64(t.dim)^t.index()) ^ hashString(jsonOf(t.metadata)))
	}
	return h
}

func (t *table) index() uint64 {
	if t.words {
		return 1 << 32
	}
	return 0
}

func hashString(s string) uint64 { return maphash.String(hashSeed, s) }

// documentSum hashes a whole document. Sums of documents are added, so that their order does not
// matter.
func documentSum(d *db.Document) uint64 {
	var h maphash.Hash
	h.SetSeed(hashSeed)
	_, _ = h.WriteString(d.ID)
	_ = h.WriteByte(0)
	_, _ = h.WriteString(d.Text)
	_ = h.WriteByte(0)
	_, _ = h.WriteString(jsonOf(d.Metadata))
	for _, x := range d.Vector {
		b := math.Float32bits(x)
		_, _ = h.Write([]byte{byte(b), byte(b >> 8), byte(b >> 16), byte(b >> 24)})
	}
	return mix(h.Sum64())
}

func jsonOf(m db.Metadata) string {
	if len(m) == 0 {
		return ""
	}
	b, err := json.Marshal(m) // keys sorted
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// difference describes how got differs from want, briefly.
func difference(got, want content) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(want)) {
		g, w := got[name], want[name]
		if g == nil {
			all = append(all, fmt.Sprintf("collection %q is missing", name))
			continue
		}
		if g.dim != w.dim || g.words != w.words || jsonOf(g.metadata) != jsonOf(w.metadata) {
			all = append(all, fmt.Sprintf("collection %q has dimension %d, text index %t and metadata %s, want %d, %t and %s",
				name, g.dim, g.words, jsonOf(g.metadata), w.dim, w.words, jsonOf(w.metadata)))
		}
		for _, id := range slices.Sorted(maps.Keys(w.docs)) {
			switch d := g.docs[id]; {
			case d == nil:
				all = append(all, fmt.Sprintf("%q of %q is missing", id, name))
			case documentSum(d) != documentSum(w.docs[id]):
				all = append(all, fmt.Sprintf("%q of %q is of step %v, want %v", id, name,
					d.Metadata["step"], w.docs[id].Metadata["step"]))
			}
		}
		for _, id := range slices.Sorted(maps.Keys(g.docs)) {
			if w.docs[id] == nil {
				all = append(all, fmt.Sprintf("%q of %q is extra", id, name))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if want[name] == nil {
			all = append(all, fmt.Sprintf("collection %q is extra", name))
		}
	}
	if len(all) > 12 {
		all = append(all[:12], fmt.Sprintf("and %d more", len(all)-12))
	}
	return strings.Join(all, "; ")
}
