package tiktoken_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/vecbolt/vecbolt/rag/split"
	"github.com/vecbolt/vecbolt/rag/split/tiktoken"
)

// The counts are from "How to count tokens with tiktoken" in the OpenAI cookbook.
func TestCount(t *testing.T) {
	for encoding, want := range map[string][3]int{
		"r50k_base": {5, 5, 14}, "p50k_base": {5, 5, 14}, "cl100k_base": {6, 7, 9}, "o200k_base": {6, 7, 8},
	} {
		count, err := tiktoken.Count(encoding)
		if err != nil {
			t.Fatal(err)
		}
		for i, text := range []string{"antidisestablishmentarianism", "2 + 2 = 4", "お誕生日おめでとう"} {
			if got := count(text); got != want[i] {
				t.Errorf("%s: %q has %d tokens, not %d", encoding, text, got, want[i])
			}
		}
		if count("") != 0 {
			t.Errorf("%s: the empty text has tokens", encoding)
		}
	}
	if _, err := tiktoken.Count("nonsense"); err == nil {
		t.Error("no error")
	}
}

func TestForModel(t *testing.T) {
	for model, want := range map[string]int{"text-embedding-3-small": 9, "text-embedding-3-large": 9, "text-embedding-ada-002": 9, "gpt-4o": 8} {
		count, err := tiktoken.ForModel(model)
		if err != nil || count("お誕生日おめでとう") != want {
			t.Error(model, err)
		}
	}
	if _, err := tiktoken.ForModel("nonsense"); err == nil {
		t.Error("no error")
	}
}

// TestSplit holds chunks to their limit in real tokens, from several goroutines.
func TestSplit(t *testing.T) {
	count, err := tiktoken.Count("cl100k_base")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("Ein Satz über Wärmepumpen, 1234567890 mal gesagt. 熱ポンプ \xf0\x9f\x94\xa5! ", 40) + strings.Repeat("a", 3000)
	s, err := split.New(split.Recursive(), split.Options{MaxTokens: 32, Overlap: 4, Count: count})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			chunks, err := s.Split(t.Context(), text)
			if err != nil || len(chunks) < 20 {
				t.Error(len(chunks), err)
			}
			for _, c := range chunks {
				if n := count(c.Text); n > 32 || n != c.Tokens || text[c.Offset:c.Offset+len(c.Text)] != c.Text {
					t.Errorf("%d tokens, noted %d: %q", n, c.Tokens, c.Text)
				}
			}
		})
	}
	wg.Wait()
}
