package migrate

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/simd"
	"github.com/vecbolt/vecbolt/store"
)

// Requirements of Verify.
const (
	sampleDocuments = 500
	sampleQueries   = 20
	sampleK         = 10
	// maxScoreError is the largest difference of a score from the cosine; see package store.
	maxScoreError = 1e-5
	// minOverlap is the minimum share of common hits. It is below 1 because both stores may search
	// approximately.
	minOverlap = 0.9
)

// A Verification compares two collections.
type Verification struct {
	Source int `json:"source"` // documents
	Target int `json:"target"`
	// Compared is the number of compared documents, spread evenly over the source; Different are
	// the ids of documents that are missing or differ.
	Compared  int      `json:"compared"`
	Different []string `json:"different"`
	// Queries is the number of their vectors that were searched in both collections, Overlap the
	// share of the source's hits that the target found too, and ScoreError the largest difference
	// of a target's score from the cosine.
	Queries    int     `json:"queries"`
	Overlap    float64 `json:"overlap"`
	ScoreError float64 `json:"score_error"`
}

// OK reports whether the target is a faithful copy of the source.
func (v *Verification) OK() bool {
	return v.Source == v.Target && len(v.Different) == 0 && v.Overlap >= minOverlap && v.ScoreError <= maxScoreError
}

// String describes the result in one line.
func (v *Verification) String() string {
	return fmt.Sprintf("%d documents, %d in the source; %d compared, %d of them different; %d queries, %.1f%% of the hits in common, scores within %.1g",
		v.Target, v.Source, v.Compared, len(v.Different), v.Queries, 100*v.Overlap, v.ScoreError)
}

// Verify compares a collection with its source. It reads all of the source. An error means that the
// comparison could not be done.
func Verify(ctx context.Context, from, to store.Collection) (*Verification, error) {
	v := &Verification{Overlap: 1, Different: []string{}}
	var err error
	if v.Source, err = from.Count(ctx, nil); err != nil {
		return nil, fmt.Errorf("count the source: %w", err)
	}
	if v.Target, err = to.Count(ctx, nil); err != nil {
		return nil, fmt.Errorf("count the target: %w", err)
	}
	step := max(1, (v.Source+sampleDocuments-1)/sampleDocuments)
	stride := max(1, v.Source/step/sampleQueries) // of the sample, between queries
	wanted, found, n, sampled, next := 0, 0, 0, 0, 0
	for after := ""; ; {
		page, err := from.Scan(ctx, after, DefaultBatchSize, nil)
		if err != nil {
			return nil, fmt.Errorf("read the source: %w", err)
		}
		var sample []*db.Document
		for _, d := range page.Documents {
			if n%step == 0 {
				sample = append(sample, d)
			}
			n++
		}
		if err := v.compare(ctx, sample, to); err != nil {
			return nil, err
		}
		for _, d := range sample {
			sampled++
			if sampled <= next || len(d.Vector) == 0 || v.Queries == sampleQueries {
				continue
			}
			next += stride
			w, f, err := v.query(ctx, d.Vector, from, to)
			if err != nil {
				return nil, err
			}
			wanted, found = wanted+w, found+f
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if wanted > 0 {
		v.Overlap = float64(found) / float64(wanted)
	}
	return v, nil
}

// compare compares whole documents.
func (v *Verification) compare(ctx context.Context, sample []*db.Document, to store.Collection) error {
	ids := make([]string, len(sample))
	for i, d := range sample {
		ids[i] = d.ID
	}
	copies, err := to.Get(ctx, ids)
	if err != nil {
		return fmt.Errorf("read the target: %w", err)
	}
	for i, d := range sample {
		same, err := equal(d, copies[i])
		if err != nil {
			return err
		}
		if !same {
			v.Different = append(v.Different, d.ID)
		}
		v.Compared++
	}
	return nil
}

func equal(a, b *db.Document) (bool, error) {
	if b == nil || a.ID != b.ID || a.Text != b.Text || !slices.EqualFunc(a.Vector, b.Vector, func(x, y float32) bool {
		return math.Float32bits(x) == math.Float32bits(y)
	}) {
		return false, nil
	}
	metaA, err := store.EncodeMetadata(a.Metadata)
	if err != nil {
		return false, err
	}
	metaB, err := store.EncodeMetadata(b.Metadata)
	return bytes.Equal(metaA, metaB), err
}

// query searches a vector in both collections.
func (v *Verification) query(ctx context.Context, vec []float32, from, to store.Collection) (wanted,
	found int, err error) {
	want, err := from.Query(ctx, vec, sampleK, nil)
	if err != nil {
		return 0, 0, fmt.Errorf("search the source: %w", err)
	}
	got, err := to.Query(ctx, vec, sampleK, nil)
	if err != nil {
		return 0, 0, fmt.Errorf("search the target: %w", err)
	}
	ids := make([]string, len(got))
	for i, h := range got {
		ids[i] = h.ID
	}
	docs, err := from.Get(ctx, ids)
	if err != nil {
		return 0, 0, fmt.Errorf("read the source: %w", err)
	}
	for i, h := range got {
		// A document that is missing in the source shows as a difference of the counts.
		if d := docs[i]; d != nil && len(d.Vector) == len(vec) {
			v.ScoreError = max(v.ScoreError, math.Abs(h.Score-simd.Cosine64(vec, d.Vector)))
		}
	}
	v.Queries++
	// Hits with the score of the last true hit count too: many scores may be equal.
	least := math.Inf(1)
	if len(want) > 0 {
		least = want[len(want)-1].Score - maxScoreError
	}
	for _, h := range got {
		if h.Score >= least {
			found++
		}
	}
	return len(want), min(found, len(want)), nil
}
