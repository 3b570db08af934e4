package text

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Occur is the role of a clause in a query.
type Occur uint8

// The kinds of clauses.
const (
	Should  Occur = iota // finds and ranks documents
	Must                 // the same, and is required: +term
	MustNot              // excludes documents: -term
)

// A Clause is a word or a phrase of a query.
//
// A text meets it with all its Tokens, except Extra tokens, at the same distances. A quoted clause
// ranks as one term, whose frequency is the number of its matches; so does a Prefix. In other
// clauses each token ranks as a term of its own.
type Clause struct {
	Occur  Occur
	Quoted bool
	// Prefix: the first token stands for all terms that begin with it. A second token, if any, is
	// the stem of the word, and stands for itself.
	Prefix bool
	Tokens []Token
	// Raw is the user's text, without the sign, the quotes and invisible characters.
	Raw string
}

// A Query is the parsed query of a user. A text meets it if it meets all Must clauses and no
// MustNot clause and, if there are Should or Must clauses, contains a term that one of them ranks
// by. No text meets a query without clauses.
type Query struct {
	Clauses []Clause
}

// Limits of a query: [Analyzer.Query] refuses larger queries.
const (
	MaxQuery    = 64 << 10 // bytes
	MaxClauses  = 1024     // Parse ignores further clauses
	MaxTokens   = 4096     // in all clauses
	MaxPhrase   = 256      // tokens of one clause
	MaxPrefixes = 128      // clauses with Prefix
)

// Query is Parse with limits. The error names the exceeded limit and the actual size.
func (a *Analyzer) Query(query string) (Query, error) {
	if len(query) > MaxQuery {
		return Query{}, beyond("bytes", len(query), MaxQuery)
	}
	q, rest := a.parse(query)
	if rest {
		return Query{}, fmt.Errorf("the query has more than %d words and phrases: shorten it", MaxClauses)
	}
	tokens, prefixes := 0, 0
	for i := range q.Clauses {
		c := &q.Clauses[i]
		if len(c.Tokens) > MaxPhrase {
			return Query{}, beyond(fmt.Sprintf("tokens in the clause %.40q", c.Raw), len(c.Tokens), MaxPhrase)
		}
		if tokens += len(c.Tokens); c.Prefix {
			prefixes++
		}
	}
	switch {
	case tokens > MaxTokens:
		return Query{}, beyond("tokens", tokens, MaxTokens)
	case prefixes > MaxPrefixes:
		return Query{}, beyond("prefixes", prefixes, MaxPrefixes)
	}
	return q, nil
}

func beyond(what string, have, most int) error {
	return fmt.Errorf("the query has %d %s, the limit is %d", have, what, most)
}

// Ranks reports whether any clause of the query ranks documents.
func (q *Query) Ranks() bool {
	return slices.ContainsFunc(q.Clauses, func(c Clause) bool { return c.Occur != MustNot })
}

// Parse reads a user's query: words; "phrases in quotes"; prefix*; each may be required by a + or
// excluded by a - in front. Any other text is read as words, so Parse never fails. Stop words that
// stand alone are dropped unless the query has no other words.
func (a *Analyzer) Parse(query string) Query {
	q, _ := a.parse(query)
	return q
}

// parse is Parse; more reports that clauses were left out.
func (a *Analyzer) parse(query string) (q Query, more bool) {
	s := a.Scanner()
	rest := strings.TrimLeftFunc(respellQuery(query), unicode.IsSpace)
	for ; rest != "" && len(q.Clauses) < MaxClauses; rest = strings.TrimLeftFunc(rest, unicode.IsSpace) {
		var c Clause
		switch rest[0] {
		case '+':
			c.Occur, rest = Must, rest[1:]
		case '-':
			c.Occur, rest = MustNot, rest[1:]
		}
		var raw string
		if r, size := utf8.DecodeRuneInString(rest); isQuote(r) {
			c.Quoted = true
			raw, rest = rest[size:], ""
			if end := strings.IndexFunc(raw, isQuote); end >= 0 {
				_, size := utf8.DecodeRuneInString(raw[end:])
				raw, rest = raw[:end], raw[end+size:]
			}
		} else {
			end := strings.IndexFunc(rest, func(r rune) bool { return unicode.IsSpace(r) || isQuote(r) })
			if end < 0 {
				end = len(rest)
			}
			raw, rest = rest[:end], rest[end:]
		}
		c.Raw = raw
		s.clause(&c)
		if len(c.Tokens) > 0 {
			q.Clauses = append(q.Clauses, c)
		}
	}
	strong := slices.ContainsFunc(q.Clauses, func(c Clause) bool { return c.Occur != MustNot && !c.stop() })
	if strong {
		q.Clauses = slices.DeleteFunc(q.Clauses, func(c Clause) bool { return c.Occur == Should && c.stop() })
	}
	return q, rest != ""
}

// Plain removes the syntax of queries from a question in plain language, so that Parse reads it as
// words: quotes of any kind, a + or - in front of a word, a * after it. The result is empty if
// nothing is left.
func Plain(question string) string {
	words := strings.FieldsFunc(respellQuery(question), func(r rune) bool {
		return unicode.IsSpace(r) || isNoWidth(r) || isQuote(r) || r == '*'
	})
	for i, w := range words {
		words[i] = strings.TrimLeft(w, "+-")
	}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}

// Question is Plain within the limits of [Analyzer.Query], for questions of any length: a text that
// is pasted as a question has thousands of words. Of a question beyond the limits it keeps the
// first words, each once, and cuts words of more than MaxPhrase characters into pieces.
func Question(question string) string {
	plain := Plain(strings.ToValidUTF8(question, " "))
	a := &Analyzer{name: "none"} // every language divides texts into the same tokens
	if _, err := a.Query(plain); err == nil {
		return plain
	}
	s := a.Scanner()
	seen := map[string]bool{}
	var kept []string
	bytes, tokens, prefixes := 0, 0, 0
	for _, word := range strings.Fields(plain) {
		for word != "" {
			var raw string
			raw, word = cut(word, MaxPhrase)
			raw = strings.TrimLeft(raw, "+-") // signs within a word, where it was cut
			folded := s.folded(raw)
			if seen[folded] {
				continue
			}
			seen[folded] = true
			c := Clause{Raw: raw}
			s.clause(&c)
			n := len(c.Tokens)
			if n == 0 || c.Prefix && prefixes == MaxPrefixes {
				continue
			}
			if len(kept) == MaxClauses || tokens+n > MaxTokens || bytes+len(raw) >= MaxQuery {
				return strings.Join(kept, " ")
			}
			kept = append(kept, raw)
			bytes, tokens = bytes+len(raw)+1, tokens+n
			if c.Prefix {
				prefixes++
			}
		}
	}
	return strings.Join(kept, " ")
}

// cut divides a word behind n characters at most.
func cut(word string, n int) (front, rest string) {
	for at := range word {
		if n == 0 {
			return word[:at], word[at:]
		}
		n--
	}
	return word, ""
}

// respellQuery returns the common spelling of a query. Spaces of no width divide its words, and are
// not seen elsewhere: they are removed where clauses begin and end, and next to signs.
func respellQuery(query string) string {
	r := respell(query)
	syntax := func(c rune) bool {
		return c == utf8.RuneError || c == '+' || c == '-' || c == '*' || unicode.IsSpace(c) || isQuote(c)
	}
	r.rewrite(isNoWidth, func(last rune, run string, next rune) string {
		if syntax(last) || syntax(next) {
			return ""
		}
		return run
	})
	return r.text
}

// isQuote reports whether r begins or ends a phrase: any quotation mark that is not also an
// apostrophe.
func isQuote(r rune) bool {
	return r == '"' || r >= 0x80 && strings.ContainsRune(`“”„‟«»‹›「」『』〝〞〟＂`, r)
}

// stop reports whether a clause is a single stop word.
func (c *Clause) stop() bool { return !c.Quoted && !c.Prefix && len(c.Tokens) == 1 && c.Tokens[0].Stop }

// clause analyses the raw text of a clause.
func (s *Scanner) clause(c *Clause) {
	word, star := strings.CutSuffix(c.Raw, "*")
	c.Tokens, _ = s.Tokens(nil, word)
	// The last character of a run of pairs is only for queries of one character.
	c.Tokens = slices.DeleteFunc(c.Tokens, func(t Token) bool {
		r, _ := utf8.DecodeRuneInString(word[t.Start:])
		return t.Extra && spaceless(r) && len(c.Tokens) > 1
	})
	if len(c.Tokens) == 0 || c.Quoted {
		return
	}
	t := c.Tokens[0]
	switch r, _ := utf8.DecodeRuneInString(t.Term); {
	case spaceless(r):
		c.Prefix = len(c.Tokens) == 1 && utf8.RuneCountInString(t.Term) == 1 // finds the pairs that begin with it
	case star && t.Start == 0 && t.End == len(word): // one word, or a whole identifier
		t.Extra = false
		stem := t
		t.Term, t.Stop = limited(s.unaccented(s.surface(word))), false
		c.Prefix, c.Tokens = true, []Token{t}
		if !strings.HasPrefix(stem.Term, t.Term) {
			c.Tokens = append(c.Tokens, stem)
		}
	}
}
