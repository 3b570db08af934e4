package text

import (
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func analyzer(t testing.TB, language string) *Analyzer {
	t.Helper()
	a, err := New(language)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// show prints tokens as position:term, with ! for extra ones.
func show(tokens []Token) string {
	var b strings.Builder
	for i, t := range tokens {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%d:%s", t.Position, t.Term)
		if t.Extra {
			b.WriteByte('!')
		}
	}
	return b.String()
}

func TestTokens(t *testing.T) {
	for _, c := range []struct{ language, text, want string }{
		{"", "", ""},
		{"", " \t\r\n—… ,.;!", ""},
		{"", "Running runners ran quickly", "0:run 1:runner 2:ran 3:quick"},
		{"none", "Running the Café naïve", "0:running 1:the 2:cafe 3:naive"},
		{"", "the compiler's don’t", "0:the 1:compil 2:don't"},
		{"", "Résumés resume naïvely", "0:resum 1:resum 2:naiv"},
		{"", "walkNeighbours walkneighbours", "0:walkneighbour! 0:walk 1:neighbour 2:walkneighbour"},
		{"none", "parseHTTPHeader(x)", "0:parsehttpheader! 0:parse 1:http 2:header 3:x"},
		{"none", "max_open_files os.ReadFile", "0:max_open_files! 0:max 1:open 2:files 3:os.readfile! 3:os 4:read 5:file"},
		{"none", "HTTPServer JSON iPhone userID X", "0:httpserver! 0:http 1:server 2:json 3:iphone! 3:i 4:phone 5:userid! 5:user 6:id 7:x"},
		{"none", "pi is 3.14, or 1,000 in the U.S. today", "0:pi 1:is 2:3.14 3:or 4:1,000 5:in 6:the 7:u.s 8:today"},
		{"none", "в Т.С. и СССР µA", "0:в 1:т.с 2:и 3:ссср 4:μa"},
		{"none", "sha256 utf8 x86_64 _ __init__", "0:sha256 1:utf8 2:x86_64! 2:x86 3:64 4:_ 5:__init__"},
		{"none", "state-of-the-art std::vector", "0:state 1:of 2:the 3:art 4:std 5:vector"},
		{"none", "東京都に行く", "0:東京 1:京都 2:都に 3:に行 4:行く 5:く!"},
		{"none", "水 ab水", "0:水 1:ab 2:水"},
		{"none", "한국어 텍스트", "0:한국 1:국어 2:어! 3:텍스 4:스트 5:트!"},
		{"none", "ﬁne ＡＢＣ ½ STRASSE straße", "0:fine 1:abc 2:1⁄2 3:strasse 4:strasse"},
		{"german", "Die Häuser der Städte", "0:die 1:haus 2:der 3:stadt"},
		{"french", "l'avion d’une qu'elle", "0:avion 1:une 2:elle"},
		{"russian", "книгами мойка", "0:книг 1:моик"},
		{"none", "🚀 launch", "0:🚀 1:launch"},
		{"none", "bad \xff\xfe bytes", "0:bad 1:bytes"},
	} {
		a := analyzer(t, c.language)
		got, _ := a.Scanner().Tokens(nil, c.text)
		if show(got) != c.want {
			t.Errorf("%s %q:\n got %s\nwant %s", a.Language(), c.text, show(got), c.want)
		}
	}
}

func TestLanguages(t *testing.T) {
	if _, err := New("klingon"); err == nil || !strings.Contains(err.Error(), "klingon") {
		t.Errorf("error %v", err)
	}
	for _, name := range Languages() {
		a := analyzer(t, name)
		if a.Language() != name || !strings.HasPrefix(a.ID(), name+"/") {
			t.Errorf("%s: %s, %s", name, a.Language(), a.ID())
		}
		s := a.Scanner()
		for w := range a.stop {
			if w != s.folded(w) {
				t.Errorf("%s: stop word %q is not folded", name, w)
			}
		}
		if name != "none" && len(a.stop) < 20 {
			t.Errorf("%s has %d stop words", name, len(a.stop))
		}
	}
	if n := len(Languages()); n != 20 {
		t.Errorf("%d languages", n)
	}
}

// texts draws text with the difficult cases of segmentation and folding.
var texts = rapid.Custom(func(t *rapid.T) string {
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{" ", ".", ",", "'", "’", ":", ";", "_", "-", "\"", "\r\n", "\u0301", "\u200d", "é", "e\u0301", "ß", "İ",
			"東", "京", "に", "カ", "한", "ไทย", "א", "\"", "HTTP", "camelCase", "x", "A", "1", "3.14", "don't", "👩\u200d🚀", "\xff", "\u3099", "ー",
			"\u00ad", "\u200b", "\u200e", "\ufe0f", "\u1112", "\u1161", "\u11ab", "하", "น", "\u0e33", "\u0e49", "\u0e4d", "\u0e32"}),
		rapid.StringN(0, 4, -1))
	return strings.Join(rapid.SliceOfN(piece, 0, 30).Draw(t, "pieces"), "")
})

// Word segments are Unicode's, on the fast path and on the slow one.
func TestSegmentsAreThoseOfUnicode(t *testing.T) {
	s := analyzer(t, "none").Scanner()
	rapid.Check(t, func(t *rapid.T) {
		text := texts.Draw(t, "text")
		ours := map[[2]int]bool{}
		for at := 0; at < len(text); {
			end := s.segment(text, at)
			ours[[2]int{at, end}] = true
			at = end
		}
		for it := words.FromString(text); it.Next(); {
			r, _ := utf8.DecodeRuneInString(it.Value())
			if !unicode.IsLetter(r) && !unicode.IsNumber(r) && r != '_' {
				continue
			}
			if !ours[[2]int{it.Start(), it.End()}] {
				t.Fatalf("%q: no segment %q at %d", text, it.Value(), it.Start())
			}
		}
	})
}

func TestTokensHold(t *testing.T) {
	for _, language := range []string{"none", "english", "german"} {
		a := analyzer(t, language)
		s := a.Scanner()
		rapid.Check(t, func(t *rapid.T) {
			text := texts.Draw(t, "text")
			got, positions := s.Tokens(nil, text)
			if fresh, n := a.Scanner().Tokens(nil, text); n != positions || cmp.Diff(got, fresh) != "" {
				t.Fatalf("%q: what was seen before changes the tokens", text)
			}
			taken := make([]bool, positions)
			last := 0
			for _, tok := range got {
				if tok.Start < 0 || tok.Start >= tok.End || tok.End > len(text) || tok.Term == "" || len(tok.Term) > MaxTerm {
					t.Fatalf("%q: token %+v", text, tok)
				}
				if tok.Position < last || tok.Position >= positions {
					t.Fatalf("%q: position %d after %d of %d", text, tok.Position, last, positions)
				}
				last = tok.Position
				// The last of a run of pairs is extra. Its term may be folded, and it may be
				// written together with the character before it.
				begins, _ := utf8.DecodeRuneInString(text[tok.Start:])
				term, _ := utf8.DecodeRuneInString(tok.Term)
				taken[tok.Position] = taken[tok.Position] || !tok.Extra || spaceless(begins) || spaceless(term)
			}
			for p, ok := range taken {
				if !ok {
					t.Fatalf("%q: position %d has no word", text, p)
				}
			}
		})
	}
}

func showQuery(q Query) string {
	var out []string
	for _, c := range q.Clauses {
		s := []string{"", "+", "-"}[c.Occur]
		if c.Quoted {
			s += "quoted "
		}
		if c.Prefix {
			s += "prefix "
		}
		out = append(out, s+"("+show(c.Tokens)+")")
	}
	return strings.Join(out, " ")
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ query, want string }{
		{"", ""},
		{"  ... ", ""},
		{"running dogs", "(0:run) (0:dog)"},
		{"+running -dogs", "+(0:run) -(0:dog)"},
		{`the "state of the art" in +"vector search" -"foo`, `quoted (0:state 1:of 2:the 3:art) +quoted (0:vector 1:search) -quoted (0:foo)`},
		{"conn* Running*", "prefix (0:conn) prefix (0:running 0:run)"},
		{"+conn* -x*", "+prefix (0:conn) -prefix (0:x)"},
		{"to be or not to be", "(0:to) (0:be) (0:or) (0:not) (0:to) (0:be)"},
		{"what is the answer", "(0:answer)"},
		{"+the answer", "+(0:the) (0:answer)"},
		{"HTTPServer", "(0:httpserver! 0:http 1:server)"},
		{"state-of-art", "(0:state 1:of 2:art)"},
		{"東京", "(0:東京)"},
		{"水", "prefix (0:水)"},
		{"- + * \" \"\" -\" +", ""},
		{"--x ++y", "-(0:x) +(0:y)"},
		{`foo"bar baz"qux`, `(0:foo) quoted (0:bar 1:baz) (0:qux)`},
		{"„Grüße“ «x»", "quoted (0:gruss) quoted (0:x)"},
		{"a_b*", "prefix (0:a_b)"},
		{"+parseHTTPHead*", "+prefix (0:parsehttphead)"},
		{"max_open_files* state-of*", "prefix (0:max_open_files 0:max_open_fil) (0:state 1:of)"},
		{"résumé* 東*", "prefix (0:resume 0:resum) prefix (0:東)"},
	} {
		if got := showQuery(analyzer(t, "").Parse(c.query)); got != c.want {
			t.Errorf("%q:\n got %s\nwant %s", c.query, got, c.want)
		}
	}
	if got := showQuery(analyzer(t, "french").Parse("l'avi*")); got != "prefix (0:avi)" {
		t.Errorf("prefix behind an elision: %s", got)
	}
	many := analyzer(t, "").Parse(strings.Repeat("word ", 3*MaxClauses))
	if len(many.Clauses) != MaxClauses {
		t.Errorf("%d clauses", len(many.Clauses))
	}
}

func TestQueryLimits(t *testing.T) {
	a := analyzer(t, "")
	for _, c := range []struct{ what, within, beyond, want string }{
		{"bytes", "a" + strings.Repeat(" ", MaxQuery-1), "a" + strings.Repeat(" ", MaxQuery), "65537 bytes, the limit is 65536"},
		{"clauses", strings.Repeat("word ", MaxClauses), strings.Repeat("word ", MaxClauses) + "x", "more than 1024 words and phrases"},
		{"a clause", `"` + strings.Repeat("word ", MaxPhrase) + `"`, `"` + strings.Repeat("word ", MaxPhrase+1) + `"`, `257 tokens in the clause "word word word word word word word word `},
		{"tokens", strings.Repeat("a-b-c-d ", MaxTokens/4), strings.Repeat("a-b-c-d-e ", MaxTokens/4), "tokens, the limit is 4096"},
		{"prefixes", strings.Repeat("word* ", MaxPrefixes), strings.Repeat("word* ", MaxPrefixes+1), "129 prefixes, the limit is 128"},
	} {
		if q, err := a.Query(c.within); err != nil || len(q.Clauses) == 0 {
			t.Errorf("%s: %v, %d clauses", c.what, err, len(q.Clauses))
		}
		if _, err := a.Query(c.beyond); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.what, err, c.want)
		}
	}
}

// The cost of a passage does not grow with the product of query and text: overlapping phrases are
// marked once.
func TestHighlightOfEqualWords(t *testing.T) {
	s := analyzer(t, "").Scanner()
	const words = 20_000
	text := strings.Repeat("same ", words)
	tokens, _ := s.Tokens(nil, text)
	q := s.a.Parse(`"` + strings.Repeat("same ", MaxPhrase) + `" same same*`)
	if marks := q.marks(tokens); len(marks) != words {
		t.Errorf("%d marks in %d words", len(marks), words)
	}
}

// A query that repeats a phrase or a prefix, or has phrases with the same words, costs as much
// memory as the marks that it has.
func TestHighlightOfEqualPhrases(t *testing.T) {
	s := analyzer(t, "").Scanner()
	const times = 1000
	tokens, _ := s.Tokens(nil, strings.Repeat("alpha beta ", times))
	for _, clause := range []string{`"alpha beta" `, `"alpha beta" "beta alpha" `, "alph* "} {
		q := s.a.Parse(strings.Repeat(clause, times))
		marks := q.marks(tokens)
		if len(marks) < times || cap(marks) > 4*len(tokens) {
			t.Errorf("%s%d times: room for %d marks, %d are left, of %d words", clause, times, cap(marks), len(marks), len(tokens))
		}
	}
}

func TestParseNeverFails(t *testing.T) {
	a := analyzer(t, "")
	rapid.Check(t, func(t *rapid.T) {
		query := rapid.OneOf(texts, rapid.StringOfN(rapid.SampledFrom([]rune(`+-"*“” ax水é.'`)), 0, 40, -1)).Draw(t, "query")
		for _, c := range a.Parse(query).Clauses {
			if len(c.Tokens) == 0 || c.Occur > MustNot || c.Prefix && len(c.Tokens) > 2 {
				t.Fatalf("%q: clause %+v", query, c)
			}
		}
	})
}

func TestHighlight(t *testing.T) {
	const long = "Nothing here. The quick brown fox jumps over the lazy dog. More words follow, none of them useful, until the very end, where a fox meets dogs."
	for _, c := range []struct {
		query, text string
		width       int
		want        string
	}{
		{"fox", "", 20, ""},
		{"cat", "The quick brown fox", 9, "The quick"},
		{"foxes dog", long, 45, "brown [fox] jumps over the lazy [dog]. More words"},
		{"dogs fox", long, 20, "a [fox] meets [dogs]."},
		{`"lazy dog"`, long, 30, "the [lazy] [dog]. More words"},
		{"jump*", long, 15, "[jumps] over"},
		{"HTTPServer", "an HTTPServer here", 50, "an [HTTPServer] here"},
		{"東京", "私は東京都に住む", 100, "私は[東京]都に住む"},
		{"x -fox", long, 14, "Nothing here."},
		{"verylongword", "a verylongword b", 3, "[verylongword]"},
	} {
		s := analyzer(t, "").Scanner()
		q := s.a.Parse(c.query)
		got := s.Highlight(&q, c.text, c.width, nil)
		if c.text[got.Start:got.Start+len(got.Text)] != got.Text {
			t.Errorf("%q: %q is not at %d", c.query, got.Text, got.Start)
		}
		shown := got.Text
		for i := len(got.Marks) - 1; i >= 0; i-- {
			m := got.Marks[i]
			shown = shown[:m.Start] + "[" + shown[m.Start:m.End] + "]" + shown[m.End:]
		}
		if shown != c.want {
			t.Errorf("%q of %d bytes:\n got %q\nwant %q", c.query, c.width, shown, c.want)
		}
	}
}

func TestHighlightHolds(t *testing.T) {
	s := analyzer(t, "").Scanner()
	rapid.Check(t, func(t *rapid.T) {
		text, query := texts.Draw(t, "text"), texts.Draw(t, "query")
		width := rapid.IntRange(0, 50).Draw(t, "width")
		q := s.a.Parse(query)
		got := s.Highlight(&q, text, width, func(string) float64 { return 2 })
		if got.Start < 0 || got.Start+len(got.Text) > len(text) || text[got.Start:got.Start+len(got.Text)] != got.Text {
			t.Fatalf("%q in %q: %+v", query, text, got)
		}
		last := 0
		for _, m := range got.Marks {
			if m.Start < last || m.End <= m.Start || m.End > len(got.Text) {
				t.Fatalf("%q in %q: marks %+v", query, text, got)
			}
			last = m.End
		}
		tokens, _ := s.Tokens(nil, text)
		if wanted := q.marks(tokens); len(wanted) > 0 && len(got.Marks) == 0 {
			t.Fatalf("%q in %q: nothing of %+v in %+v", query, text, wanted, got)
		}
	})
}

// allTokens is the reference of Highlight: it keeps all tokens of the text.
func allTokens(s *Scanner, q *Query, text string, width int) (lo, hi int) {
	tokens, _ := s.Tokens(nil, text)
	marks := q.marks(tokens)
	width = max(width, 1)
	if len(marks) > 0 {
		lo, hi = window(marks, width, nil)
	}
	core, spare := Range{lo, hi}, max(0, width-(hi-lo))
	lo = max(0, lo-spare/3)
	hi = min(len(text), lo+max(width, hi-lo))
	lo = max(0, min(lo, hi-width))
	for _, t := range tokens {
		if t.Start < lo && lo < t.End {
			lo = t.End
		}
	}
	for _, t := range slices.Backward(tokens) {
		if t.Start < hi && hi < t.End {
			if hi = t.Start; hi <= lo {
				lo, hi = t.Start, t.End
				break
			}
		}
	}
	return trimmed(text, lo, hi, core)
}

// Highlight gives the same snippets and marks whether a block has a few tokens or all of them.
func TestHighlightInBlocks(t *testing.T) {
	s := analyzer(t, "").Scanner()
	words := strings.Fields("fox The quick brown_fox parseHTTPHeader jumps, dogs. 東京都に住む。カタカナ ｶﾞ 한국어 กำ " +
		"e\u0301 a\u00adb \u200b \xff")
	queries := []string{"fox dog", `"quick brown"`, "jump* 東京", "-fox", "住む header", "a* b"}
	rapid.Check(t, func(t *rapid.T) {
		some := rapid.SliceOfN(rapid.SampledFrom(words), 0, 60).Draw(t, "words")
		text := strings.Join(some, rapid.SampledFrom([]string{" ", "", "  "}).Draw(t, "between"))
		q := s.a.Parse(rapid.SampledFrom(queries).Draw(t, "query"))
		width := rapid.IntRange(0, 80).Draw(t, "width")
		lo, hi := allTokens(s, &q, text, width)
		want := s.highlight(&q, text, width, nil, math.MaxInt)
		for _, block := range []int{1, 2, 5} {
			got := s.highlight(&q, text, width, nil, block)
			if !reflect.DeepEqual(got, want) || got.Start != lo || got.Start+len(got.Text) != hi {
				t.Fatalf("%q, %d bytes, blocks of %d: %+v, want %+v at %d to %d", text, width, block, got, want, lo, hi)
			}
		}
	})
}

// largeText returns a text of about size bytes with a fox in its middle.
func largeText(size int) string {
	const sentence = "An experimental study of a wing in a propeller slipstream was made, in order to determine the lift. "
	half := strings.Repeat(sentence, size/2/len(sentence))
	return half + "The quick brown fox. " + half
}

// The passage of a large text needs no memory for each of its words.
func TestHighlightMemory(t *testing.T) {
	s, text := analyzer(t, "").Scanner(), largeText(4<<20)
	q := s.a.Parse(`fox "brown fox" slipper*`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := s.Highlight(&q, text, 40, nil)
	runtime.ReadMemStats(&after)
	if !strings.Contains(got.Text, "brown fox") || len(got.Marks) != 2 {
		t.Fatalf("%+v", got)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > uint64(len(text)) {
		t.Errorf("%d bytes for a text of %d", n, len(text))
	}
}

func BenchmarkHighlight(b *testing.B) {
	for _, size := range []int{1 << 10, 1 << 20, 15 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			s, text := analyzer(b, "").Scanner(), largeText(size)
			q := s.a.Parse("fox")
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				s.Highlight(&q, text, 200, nil)
			}
		})
	}
}

func BenchmarkTokens(b *testing.B) {
	s := analyzer(b, "").Scanner()
	text := strings.Repeat("An experimental study of a wing in a propeller slipstream was made, in order to determine the lift. ", 100)
	b.SetBytes(int64(len(text)))
	var tokens []Token
	for b.Loop() {
		tokens, _ = s.Tokens(tokens[:0], text)
	}
	b.ReportMetric(float64(len(tokens)*b.N)/b.Elapsed().Seconds()/1e6, "Mwords/s")
}

func TestPlain(t *testing.T) {
	for question, want := range map[string]string{
		"":                           "",
		" \t+ - * \"\" “” ":          "",
		"what is “durable storage”?": "what is durable storage ?",
		"was heißt „dauerhaft“ und »sicher«?": "was heißt dauerhaft und sicher ?",
		"-1 +x --- a-b c++ *d* don’t it's":    "1 x a-b c++ d don’t it's",
		"a\u00a0-b":                           "a b",
	} {
		if got := Plain(question); got != want {
			t.Errorf("%q: %q, want %q", question, got, want)
		}
	}
}

// Parse reads the result of Plain as words, whatever the question.
func TestPlainHasNoSyntax(t *testing.T) {
	a := analyzer(t, "none")
	var every strings.Builder // all possible signs, between words
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if unicode.IsPunct(r) || unicode.IsSymbol(r) || unicode.IsSpace(r) {
			every.WriteRune(r)
			every.WriteString("word")
		}
	}
	check := func(t rapid.TB, question string) {
		plain := Plain(question)
		if again := Plain(plain); again != plain {
			t.Fatalf("%q: %q, and again %q", question, plain, again)
		}
		for _, c := range a.Parse(plain).Clauses {
			if c.Occur != Should || c.Quoted || strings.Contains(c.Raw, "*") {
				t.Fatalf("%q: %q: %+v", question, plain, c)
			}
		}
	}
	for part := range strings.SplitSeq(every.String(), "word") {
		check(t, part+"word"+part+" "+part+"word")
	}
	rapid.Check(t, func(t *rapid.T) {
		check(t, strings.Join(rapid.SliceOf(rapid.OneOf(texts, rapid.SampledFrom([]string{"+", "-", "*", "“", "„", "›", "\u00a0", "\u200b", "\u2003", "「"}))).Draw(t, "question"), ""))
	})
}

// TestQuestion keeps questions of any length within the limits of a query, in every language.
func TestQuestion(t *testing.T) {
	var many, parts, chinese, single strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&many, "word%d ", i)
		fmt.Fprintf(&parts, "one%dTwo_three-four.five ", i)
		fmt.Fprintf(&chinese, "%c", '一'+i)
		fmt.Fprintf(&single, "%c ", '一'+i)
	}
	for _, c := range []struct {
		what, question string
		first          string
		clauses        int
	}{
		{"within the limits", "Why, “oh why”, do -cats purr*?", "Why", 6},
		{"invalid UTF-8", "why do cats\xffpurr", "why", 4},
		{"few words", strings.Repeat("why do cats purr ", 300), "why", 4},
		{"many words", many.String(), "word0", MaxClauses},
		{"identifiers", parts.String(), "one0Two_three-four.five", MaxTokens / 6},
		{"a long run", chinese.String(), string([]rune(chinese.String())[:MaxPhrase]), MaxTokens / MaxPhrase},
		{"single characters", single.String(), "一", MaxPrefixes},
		{"a long word", strings.Repeat("ab-", 1000), strings.Repeat("ab-", 1000)[:MaxPhrase], 4},
		{"many bytes", strings.Repeat(many.String(), 20), "word0", MaxClauses},
		{"long words", strings.ReplaceAll(many.String(), "word", strings.Repeat("水", 200)), "", MaxTokens / 203},
		{"signs", strings.Repeat("+ - * “” ", 20_000), "", 0},
	} {
		got := Question(c.question)
		for _, language := range Languages() {
			q, err := analyzer(t, language).Query(got)
			if err != nil {
				t.Errorf("%s, %s: %v", c.what, language, err)
			}
			if language == "none" && (len(q.Clauses) != c.clauses || !strings.HasPrefix(got, c.first)) {
				t.Errorf("%s: %d clauses of %.60q", c.what, len(q.Clauses), got)
			}
		}
	}
	english := analyzer(t, "")
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.OneOf(texts, rapid.StringOfN(rapid.SampledFrom([]rune("+-\"*“” \u200baBx_水é.'🙂")), 0, 40, -1))
		question := strings.Repeat(part.Draw(t, "part"), rapid.IntRange(1, 300).Draw(t, "times")) + part.Draw(t, "end")
		got := Question(question)
		q, err := english.Query(got)
		if err != nil || slices.ContainsFunc(q.Clauses, func(c Clause) bool { return c.Occur != Should || c.Quoted }) {
			t.Fatalf("%.60q: %.60q, %v", question, got, err)
		}
	})
}
