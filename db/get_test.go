package db

import (
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestLoopsHoldFewDocuments breaks loops over 64 MiB of documents off after the first one, and
// counts what was allocated until then.
func TestLoopsHoldFewDocuments(t *testing.T) {
	ctx := t.Context()
	vdb := open(t, t.TempDir(), nil)
	texts, vectors := collection(t, vdb, "texts", Schema{}), collection(t, vdb, "vectors", Schema{Dim: MaxDim})
	text, vector := strings.Repeat("x", 4*MaxDim), slices.Repeat([]float32{1}, MaxDim)
	var ids []string
	for i := range 256 {
		ids = append(ids, fmt.Sprintf("%03d", i))
		upsert(t, texts, Document{ID: ids[i], Text: text})
		upsert(t, vectors, Document{ID: ids[i], Vector: vector})
	}
	for name, loop := range map[string]iter.Seq2[*Document, error]{
		"texts, GetSeq":   texts.GetSeq(ctx, ids, Everything),
		"texts, ListSeq":  texts.ListSeq(ctx, ListQuery{Select: Everything}),
		"texts, All":      texts.All(ctx, nil, Everything),
		"vectors, GetSeq": vectors.GetSeq(ctx, ids, Everything),
		"vectors, All":    vectors.All(ctx, nil, Everything),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for d, err := range loop {
				if err != nil || d.ID != "000" {
					t.Fatal(d, err)
				}
				break
			}
			runtime.ReadMemStats(&after)
			if got := after.TotalAlloc - before.TotalAlloc; got > 16<<20 {
				t.Errorf("the first document takes %d MiB", got>>20)
			}
		})
	}
}

// TestGetSeq compares GetSeq with GetMany for ids in any order, some of them twice or unknown, and
// documents of very unequal sizes.
func TestGetSeq(t *testing.T) {
	vdb := open(t, t.TempDir(), nil)
	c := collection(t, vdb, "c", Schema{})
	var docs []Document
	for i := range 1000 {
		text := "short"
		if i%250 == 0 {
			text = strings.Repeat("long ", bytesPerTx/8)
		}
		docs = append(docs, Document{ID: fmt.Sprint(i), Text: text})
	}
	upsert(t, c, docs...)
	rapid.Check(t, func(t *rapid.T) {
		var ids []string
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, 1020), 0, 1000).Draw(t, "ids") {
			ids = append(ids, fmt.Sprint(i))
		}
		want, err := c.GetMany(t.Context(), ids, WithText)
		if err != nil {
			t.Fatal(err)
		}
		i := 0
		for d, err := range c.GetSeq(t.Context(), ids, WithText) {
			if err != nil || i == len(want) || (d == nil) != (want[i] == nil) || d != nil && (d.ID != want[i].ID || d.Text != want[i].Text) {
				t.Fatalf("document %d of %d: %v, error %v", i, len(want), d, err)
			}
			i++
		}
		if i != len(want) {
			t.Fatalf("%d documents of %d", i, len(want))
		}
	})
}
