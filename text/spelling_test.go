package text

import (
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"
)

// Spellings that look the same give the same terms, and find each other.
func TestSpellings(t *testing.T) {
	for _, c := range []struct {
		name  string
		texts []string
		want  string
	}{
		{"soft hyphen", []string{"cooperate now", "co\u00adop\u00ader\u00adate now", "cooperate\u00ad now"}, "0:cooperate 1:now"},
		{"marks of direction", []string{"left right", "\u200eleft\u200e \u200fright\u200f", "left \u202bright\u202c",
			"\u2066left\u2069 ri\u200eght", "left\u061c right"}, "0:left 1:right"},
		{"byte order mark", []string{"first", "\ufefffirst", "fi\ufeffrst", "first\ufeff"}, "0:first"},
		{"joiners", []string{"می\u200cخواهم", "می\u200c\u200cخواهم", "میخواهم", "می\u2060خواهم"}, "0:میخواهم"},
		{"identifiers", []string{"parseHTTPHeader", "parse\u200eHTTP\u00adHeader", "p\u200darseHTTPHeader\ufeff"},
			"0:parsehttpheader! 0:parse 1:http 2:header"},
		{"composed identifiers", []string{"caféBar", "cafe\u0301Bar"}, "0:cafebar! 0:cafe 1:bar"},
		{"space of no width", []string{"one\u200btwo"}, "0:one 1:two"},
		{"pairs", []string{"東京都", "東\u200b京\u2060都", "東\ufe00京都\U000e0100"}, "0:東京 1:京都 2:都!"},
		{"Hangul", []string{"한국어", norm.NFD.String("한국어"), "하\u11ab국어", "한\u200b국어"}, "0:한국 1:국어 2:어!"},
		{"Thai", []string{"น้ำ", "น\u0e49\u0e4d\u0e32", "น\u0e4d\u0e49\u0e32", "น\u200b้ำ"}, "0:น\u0e49\u0e4dา 1:า!"},
		{"Lao", []string{"ນ້ຳ", "ນ\u0ec9\u0ecd\u0eb2", "ນ\u0ecd\u0ec9\u0eb2"}, "0:ນ\u0ec9\u0ecdາ 1:າ!"},
		{"emoji", []string{"🚀 up", "🚀\ufe0f up", "🚀\ufe0e up"}, "0:🚀 1:up"},
		{"joined emoji", []string{"👩\u200d🚀", "👩🚀"}, "0:👩 1:🚀"},
		{"nothing", []string{"\u200e", "\ufeff\u00ad", ""}, ""},
	} {
		a := analyzer(t, "none")
		s := a.Scanner()
		for _, text := range c.texts {
			tokens, _ := s.Tokens(nil, text)
			if got := show(tokens); got != c.want {
				t.Errorf("%s, %+q:\n got %+q\nwant %+q", c.name, text, got, c.want)
			}
			if got, want := showQuery(a.Parse(text)), showQuery(a.Parse(c.texts[0])); got != want {
				t.Errorf("%s, query %+q: %s, want %s", c.name, text, got, want)
			}
		}
	}
}

// Syntax is found behind and between characters that nobody sees. The space of no width divides
// words only.
func TestInvisibleSyntax(t *testing.T) {
	a := analyzer(t, "none")
	letter := func(c byte) bool { return c >= 'a' && c <= 'z' }
	for _, query := range []string{
		`+one -two "three four" fiv*`, `-two one`, `+"one two" -“three” -fou*`, `"one"-two+three`, `one-two "three-four" *-five`,
	} {
		want, plain := showQuery(a.Parse(query)), Plain(query)
		for _, hidden := range []string{"\u200b", "\u200b\u200b", "\u2066\u200b\u2069", "\u200e", "\u00ad", "\ufeff"} {
			for at := range query + "." {
				if at > 0 && at < len(query) && letter(query[at-1]) && letter(query[at]) && strings.Contains(hidden, "\u200b") {
					continue
				}
				with := query[:at] + hidden + query[at:]
				if got := showQuery(a.Parse(with)); got != want {
					t.Errorf("%+q: %s, want %s", with, got, want)
				}
				if got := Plain(with); got != plain {
					t.Errorf("%+q: %+q is left of a question, want %+q", with, got, plain)
				}
			}
		}
	}
	for _, c := range []struct{ query, parsed, plain string }{
		{"one\u200btwo", "(0:one 1:two)", "one two"},
		{"-one\u200btwo three", "-(0:one 1:two) (0:three)", "one two three"},
	} {
		if got := showQuery(a.Parse(c.query)); got != c.parsed {
			t.Errorf("%+q: %s, want %s", c.query, got, c.parsed)
		}
		if got := Plain(c.query); got != c.plain {
			t.Errorf("%+q: %+q is left of a question, want %+q", c.query, got, c.plain)
		}
	}
}

// Marks are around the words as they are written.
func TestHighlightOfSpellings(t *testing.T) {
	for _, c := range []struct{ query, text, want string }{
		{"cooperate", "to co\u00adoperate\u00ad now", "to [co\u00adoperate\u00ad] now"},
		{"word", "a \u200eword b", "a \u200e[word] b"},
		{"first", "\ufefffirst", "\ufeff[first]"},
		{"header", "parse\u200eHeader", "parse\u200e[Header]"},
		{"국어", norm.NFD.String("한국어 x"), norm.NFD.String("한") + "[" + norm.NFD.String("국어") + "] x"},
		{"น้ำ", "x น้ำ y", "x [น้ำ] y"},
		{"🚀", "a 🚀\ufe0f b", "a [🚀\ufe0f] b"},
	} {
		s := analyzer(t, "none").Scanner()
		q := s.a.Parse(c.query)
		got := s.Highlight(&q, c.text, 1000, nil)
		shown := got.Text
		for _, m := range slices.Backward(got.Marks) {
			shown = shown[:m.Start] + "[" + shown[m.Start:m.End] + "]" + shown[m.End:]
		}
		if shown != c.want {
			t.Errorf("%q:\n got %+q\nwant %+q", c.query, shown, c.want)
		}
	}
}

// Invisible characters anywhere change no term.
func TestInvisibleAnywhere(t *testing.T) {
	s := analyzer(t, "english").Scanner()
	rapid.Check(t, func(t *rapid.T) {
		text := texts.Draw(t, "text")
		var b strings.Builder
		for _, r := range text {
			if rapid.IntRange(0, 3).Draw(t, "here") == 0 {
				b.WriteString(rapid.SampledFrom([]string{"\u00ad", "\u200c", "\u200d", "\u200e", "\u200f", "\ufeff", "\ufe0f", "\u2069"}).Draw(t, "invisible"))
			}
			b.WriteRune(r)
		}
		with, _ := s.Tokens(nil, b.String())
		without, _ := s.Tokens(nil, string([]rune(text)))
		if diff := cmp.Diff(show(without), show(with)); diff != "" {
			t.Fatalf("%+q: %s", b.String(), diff)
		}
	})
}

// The invisible characters are those that Unicode says to ignore, except the space of no width.
func TestInvisible(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		want := unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Cf, unicode.Variation_Selector) &&
			!unicode.In(r, unicode.Prepended_Concatenation_Mark, unicode.White_Space) &&
			!(r >= 0xFFF9 && r <= 0xFFFB) && !(r >= 0x13430 && r <= 0x1343F) && !isNoWidth(r)
		if got := invisible(r); got != want {
			t.Errorf("%U: invisible %v, want %v", r, got, want)
		}
	}
}
