package terms

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/formattest"
	"github.com/vecbolt/vecbolt/internal/topk"
	"github.com/vecbolt/vecbolt/text"
)

// Every method of a Search ends with its context, wherever it is, and says so with the error of the
// context alone.
func TestCancelled(t *testing.T) {
	a, err := text.New("")
	if err != nil {
		t.Fatal(err)
	}
	x, s := NewIndex(), a.Scanner()
	for range 3 * checkEvery {
		tokens, _ := s.Tokens(nil, "one two three")
		x.Add(tokens)
	}
	tokens, _ := s.Tokens(nil, strings.Repeat("same ", 4*checkEvery))
	x.Add(tokens)
	parts := []Part{{Source: x.View(x.Rows())}}
	for _, query := range []string{"one two", `"one two three"`, "+on*", "-two one", `"same same same"`} {
		q := a.Parse(query)
		run := func(ctx context.Context) error {
			s, err := Prepare(ctx, q, Params{1.2, 0.75}, parts)
			if err != nil {
				return err
			}
			if _, err := s.Matches(0); err != nil {
				return err
			}
			var buf Buffer
			if err := s.Scan(0, 0, x.Rows(), bitset.Set(nil), topk.New(3, 0), &buf); err != nil {
				return err
			}
			if _, err := s.Fails(0, 1); err != nil {
				return err
			}
			_, err = s.Scores(nil, 0, []uint32{0, 1})
			return err
		}
		looks := 1 << 20
		whole := formattest.NewCountdown(t.Context(), looks)
		if err := run(whole); err != nil {
			t.Fatal(err)
		}
		if looks -= whole.Left(); looks < 4 {
			t.Errorf("%s: the context was looked at %d times", query, looks)
		}
		for n := range looks {
			var in *PartError
			if err := run(formattest.NewCountdown(t.Context(), n)); !errors.Is(err, context.Canceled) || errors.As(err, &in) {
				t.Fatalf("%s: ended at look %d of %d: %v", query, n, looks, err)
			}
		}
	}
}

// The cost of a phrase grows with its length and with the text, not with their product by a search
// for each place.
func TestPhraseOfEqualWords(t *testing.T) {
	a, err := text.New("")
	if err != nil {
		t.Fatal(err)
	}
	x := NewIndex()
	const words, phrase = 100_000, text.MaxPhrase
	tokens, _ := a.Scanner().Tokens(nil, strings.Repeat("same ", words))
	x.Add(tokens)
	q := a.Parse(`"` + strings.Repeat("same ", phrase) + `"`)
	s, err := Prepare(t.Context(), q, Params{1.2, 0.75}, []Part{{Source: x.View(1)}})
	if err != nil {
		t.Fatal(err)
	}
	var c cursor
	c.init(s.parts[0].lists[0], 1)
	if f, err := c.frequency(0); err != nil || f != words-phrase+1 {
		t.Errorf("found %d times, want %d: %v", f, words-phrase+1, err)
	}
}
