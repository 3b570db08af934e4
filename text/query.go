package text

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Occur says what a clause of a query asks for.
type Occur uint8

// The kinds of clauses.
const (
	Should  Occur = iota // finds and ranks documents
	Must                 // the same, and every document has to meet it: +term
	MustNot              // no document may meet it: -term
)

// A Clause is a word or a phrase of a query.
//
// It is met by a text that has all its Tokens but the Extra ones with the same
// distances between their positions. Where it finds and ranks, a quoted clause
// counts as one term, namely as often as it is met, and so does a Prefix; of
// others, each token counts for itself.
type Clause struct {
	Occur  Occur
	Quoted bool
	// Prefix: the only token stands for all terms that begin with it. If there
	// is a second one, it is the stem of the word, and stands for itself.
	Prefix bool
	Tokens []Token
	// Raw is what the user wrote, without the sign and the quotes.
	Raw string
}

// A Query is what a user looks for. A text meets it if it meets all Must
// clauses and no MustNot clause, and has something that a Should or a Must
// clause ranks by if there are such clauses. A query without clauses is met by
// nothing.
type Query struct {
	Clauses []Clause
}

// Limits of a query: [Analyzer.Query] refuses what is beyond them.
const (
	MaxQuery    = 64 << 10 // bytes
	MaxClauses  = 1024     // Parse reads so many, and ignores the rest
	MaxTokens   = 4096     // of all clauses
	MaxPhrase   = 256      // tokens of one clause
	MaxPrefixes = 128      // clauses that stand for all terms with a beginning
)

// Query is Parse within limits. The error says which limit a query exceeds, and
// by what.
func (a *Analyzer) Query(query string) (Query, error) {
	if len(query) > MaxQuery {
		return Query{}, beyond("bytes", len(query), MaxQuery)
	}
	q, rest := a.parse(query)
	if rest {
		return Query{}, fmt.Errorf("the query has more than %d clauses", MaxClauses)
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

// Ranks reports whether the query has anything that ranks documents.
func (q *Query) Ranks() bool {
	return slices.ContainsFunc(q.Clauses, func(c Clause) bool { return c.Occur != MustNot })
}

// Parse reads a query of a user: words; "phrases in quotes"; prefix*; each may be
// required by a + or excluded by a - in front. Whatever is not of this form is
// taken as words, so that Parse never fails. Stop words that stand alone are
// dropped unless there is nothing else.
func (a *Analyzer) Parse(query string) Query {
	q, _ := a.parse(query)
	return q
}

// parse is Parse; more reports that it left out clauses.
func (a *Analyzer) parse(query string) (q Query, more bool) {
	s := a.Scanner()
	rest := strings.TrimLeftFunc(query, unicode.IsSpace)
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

// Plain returns what a user wrote as words alone: Parse then finds no syntax in
// it, which is quotes of any kind, a + or - in front of a word, a * behind it.
// It is for questions in plain language, which are no queries. The result is
// empty if nothing is left.
func Plain(question string) string {
	words := strings.FieldsFunc(question, func(r rune) bool { return unicode.IsSpace(r) || isQuote(r) || r == '*' })
	for i, w := range words {
		words[i] = strings.TrimLeft(w, "+-")
	}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}

// isQuote reports whether r begins or ends a phrase: quotation marks, but not
// those that are apostrophes as well.
func isQuote(r rune) bool {
	return r == '"' || r >= 0x80 && strings.ContainsRune(`“”„‟«»‹›「」『』〝〞〟＂`, r)
}

// stop reports whether a clause is but a stop word.
func (c *Clause) stop() bool { return !c.Quoted && !c.Prefix && len(c.Tokens) == 1 && c.Tokens[0].Stop }

// clause analyses what the user wrote.
func (s *Scanner) clause(c *Clause) {
	word, star := strings.CutSuffix(c.Raw, "*")
	c.Tokens, _ = s.Tokens(nil, word)
	// The last character of a run of pairs is there for queries of one character.
	c.Tokens = slices.DeleteFunc(c.Tokens, func(t Token) bool {
		r, _ := utf8.DecodeRuneInString(t.Term)
		return t.Extra && spaceless(r) && len(c.Tokens) > 1
	})
	if len(c.Tokens) == 0 || c.Quoted {
		return
	}
	t := c.Tokens[0]
	switch r, _ := utf8.DecodeRuneInString(t.Term); {
	case spaceless(r):
		c.Prefix = len(c.Tokens) == 1 && utf8.RuneCountInString(t.Term) == 1 // it begins a pair wherever it stands
	case star && t.Start == 0 && t.End == len(word): // one word, or an identifier as a whole
		t.Extra = false
		stem := t
		t.Term, t.Stop = limited(s.unaccented(s.surface(word))), false
		c.Prefix, c.Tokens = true, []Token{t}
		if !strings.HasPrefix(stem.Term, t.Term) {
			c.Tokens = append(c.Tokens, stem)
		}
	}
}
