package fuzz

import (
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/rag/split"
)

// FuzzSplit divides any text by every strategy: chunks are exact, within the
// limit, in order, and leave out white space only.
func FuzzSplit(f *testing.F) {
	for i, seed := range []string{
		"", " ", "a", "One. Two! Three?\n\nFour.", "# H\n\ntext\n\n```\ncode\n\nmore\n```\n## Sub\nend", "漢字かな交じり文。次の文。",
		"e\u0301\u0301\u0301", "👩‍👩‍👧‍👦👩‍👩‍👧‍👦", strings.Repeat("x", 300), strings.Repeat("a b ", 80), "\r\n\r\n", "a\u00a0b\u2028c", "Dr. No. Fig. 3",
		"func a() {\n\n\tb()\n}\n\nfunc c() {}\n", "Setext\n===\n\n> quote\n> more\n\n- a\n- b\n\n1. c\n", "| a | b |\n|---|---|\n| 1 | 2 |\n",
		"```\nunclosed", "<div>\n\n</div>", "    indented\n\n    code", "\t", "...", "#", "# \n# \n", "\ufeffbom",
	} {
		f.Add(seed, uint8(i), uint8(8+i), int8(i%7-1))
		f.Add(seed+"\n\n"+seed, uint8(i+1), uint8(100), int8(5))
		f.Add(seed+" "+seed+"\n# "+seed, uint8(i+2), uint8(3*i), int8(i))
	}
	strategies := []split.Strategy{split.Fixed(), split.Sentences(0), split.Sentences(3), split.Paragraphs(), split.Recursive(),
		split.Recursive("\n", ", "), split.Markdown("T"), split.Code()}
	f.Fuzz(func(t *testing.T, text string, strategy, limit uint8, overlap int8) {
		text = strings.ToValidUTF8(text, "?")
		s, err := split.New(strategies[int(strategy)%len(strategies)], split.Options{MaxTokens: int(limit), Overlap: int(overlap)})
		if err != nil {
			t.Skip(err)
		}
		chunks, err := s.Split(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		most := int(limit)
		if most == 0 {
			most = split.DefaultMaxTokens
		}
		covered := 0
		for _, c := range chunks {
			end := c.Offset + len(c.Text)
			switch {
			case end > len(text) || text[c.Offset:end] != c.Text:
				t.Fatalf("%q is not at %d", c.Text, c.Offset)
			case c.Tokens > most || split.Estimate(c.Text) != c.Tokens:
				t.Fatalf("%d tokens of %d: %q", c.Tokens, most, c.Text)
			case end <= covered:
				t.Fatalf("nothing new at %d", c.Offset)
			case c.Offset > covered && strings.TrimSpace(text[covered:c.Offset]) != "":
				t.Fatalf("left out: %q", text[covered:c.Offset])
			}
			covered = end
		}
		if strings.TrimSpace(text[covered:]) != "" {
			t.Fatalf("left out: %q", text[covered:])
		}
	})
}
