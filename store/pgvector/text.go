package pgvector

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/store"
	"github.com/vecbolt/vecbolt/text"
)

// Terms are made by package text, as in the text index of package db, and not by a configuration of
// the server. Therefore the same words find the same documents in both, in every language of
// package text, whatever dictionaries the server has. PostgreSQL stores, finds and ranks them.

// Limits of a tsvector, from PostgreSQL's documentation of text search.
const (
	maxPosition  = 16383
	maxPositions = 255     // of one term in one document
	maxTerms     = 1 << 19 // bytes; the limit is 1 MiB, including overhead per term
)

// terms returns the text of a tsvector with the parts of d that db.TextIndex indexes. If a text has
// too many distinct words, the first ones are kept.
func (c *collection) terms(d *db.Document) string {
	positions := map[string][]int{}
	var order []string
	at, size := 1, 0
	scanner := c.text.Scanner()
	var tokens []text.Token
	add := func(s string) {
		var n int
		tokens, n = scanner.Tokens(tokens[:0], s)
		for _, t := range tokens {
			seen := positions[t.Term]
			cost := 2
			if seen == nil {
				cost = len(t.Term) + 8
			}
			if len(seen) == maxPositions || size+cost > maxTerms {
				continue
			}
			size += cost
			if seen == nil {
				order = append(order, t.Term)
			}
			positions[t.Term] = append(seen, min(at+t.Position, maxPosition))
		}
		at += n
	}
	add(d.Text)
	for _, path := range c.schema.Text.Fields {
		for s := range document.Strings(d.Metadata, path) {
			add(s)
		}
	}
	var b strings.Builder
	for _, term := range order {
		b.WriteString(lexeme(term))
		for i, p := range slices.Compact(positions[term]) {
			b.WriteByte(":,"[min(i, 1)])
			b.WriteString(strconv.Itoa(p))
		}
		b.WriteByte(' ')
	}
	return b.String()
}

// lexeme quotes a term for tsvector and tsquery.
func lexeme(term string) string {
	return "'" + strings.NewReplacer(`'`, `''`, `\`, `\\`).Replace(escape(term)) + "'"
}

// TextQuery ranks by ts_rank: by the frequency of the terms and the logarithm of the document's
// length.
func (c *collection) TextQuery(ctx context.Context, words string, k int, where filter.Expr) ([]db.Hit, error) {
	if err := store.CheckTextQuery(c.name, c.schema, k, where); err != nil {
		return nil, err
	}
	terms := c.tsquery(words)
	if terms == "" {
		return nil, nil
	}
	var s statement
	q := s.arg(terms) + "::text::tsquery"
	sql := fmt.Sprintf("SELECT id, body, meta, ts_rank(terms, %s, 1) AS rank FROM %s WHERE terms @@ %s AND %s ORDER BY rank DESC, id LIMIT %d",
		q, c.table, q, s.where(where), k)
	hits, err := query(ctx, c.s, rankedHits, sql, s.args...)
	return hits, wrap(err, "text query in %q", c.name)
}

func rankedHits(rows pgx.Rows) ([]db.Hit, error) {
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (db.Hit, error) {
		var (
			h    db.Hit
			meta []byte
			rank float32
		)
		err := row.Scan(&h.ID, &h.Text, &meta, &rank)
		if err == nil {
			h.Score, h.Text = float64(rank), unescape(h.Text)
			h.Metadata, err = decodeMetadata(meta)
		}
		return h, err
	})
}

// tsquery returns any of the words, without operators; empty without words.
func (c *collection) tsquery(words string) string {
	terms := map[string]bool{}
	for _, clause := range c.text.Parse(text.Plain(words)).Clauses {
		for _, t := range clause.Tokens {
			l := lexeme(t.Term)
			if clause.Prefix {
				l += ":*"
			}
			terms[l] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(terms)), " | ")
}
