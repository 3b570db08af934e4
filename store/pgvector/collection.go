package pgvector

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/simd"
	"github.com/vecbolt/vecbolt/store"
	"github.com/vecbolt/vecbolt/text"
)

// A collection is a table:
//
//	id        text in byte order, the key
//	embedding vector(dim); null if the document has none
//	odd       pgvector cannot compute its cosine: see odd
//	body      the text of the document
//	meta      its metadata as jsonb: see appendJSON
//	terms     terms of the text index; only with a text index
type collection struct {
	s      *Store
	name   string
	schema store.Schema
	table  string // quoted
	hnsw   *HNSW  // nil: no index
	text   *text.Analyzer
}

func (s *Store) collection(name string, schema store.Schema, id int64, hnsw *HNSW) (*collection, error) {
	c := &collection{s: s, name: name, schema: schema, table: s.ident(tableName(id, name)), hnsw: hnsw}
	if schema.Text != nil {
		var err error
		if c.text, err = text.New(schema.Text.Language); err != nil {
			return nil, fmt.Errorf("%w: collection %q: %w", db.ErrInvalid, name, err)
		}
	}
	return c, nil
}

// definition returns the statements that create the table.
func (c *collection) definition() []string {
	dim, terms := "", ""
	if c.schema.Dim > 0 {
		dim = fmt.Sprintf("(%d)", c.schema.Dim)
	}
	if c.text != nil {
		terms = ",\n\tterms tsvector NOT NULL"
	}
	statements := []string{
		fmt.Sprintf(`CREATE TABLE %s (
	id text COLLATE "C" PRIMARY KEY,
	embedding vector%s,
	odd boolean NOT NULL,
	body text NOT NULL,
	meta jsonb NOT NULL%s
)`, c.table, dim, terms),
		fmt.Sprintf("CREATE INDEX ON %s (id) WHERE odd", c.table),
		fmt.Sprintf("CREATE INDEX ON %s USING gin (meta jsonb_path_ops)", c.table),
	}
	if c.text != nil {
		statements = append(statements, fmt.Sprintf("CREATE INDEX ON %s USING gin (terms)", c.table))
	}
	if c.hnsw != nil {
		statements = append(statements, c.hnswDefinition())
	}
	return statements
}

func (c *collection) hnswDefinition() string {
	var with []string
	if c.hnsw.M > 0 {
		with = append(with, fmt.Sprintf("m = %d", c.hnsw.M))
	}
	if c.hnsw.EfConstruction > 0 {
		with = append(with, fmt.Sprintf("ef_construction = %d", c.hnsw.EfConstruction))
	}
	params := ""
	if len(with) > 0 {
		params = " WITH (" + strings.Join(with, ", ") + ")"
	}
	return fmt.Sprintf("CREATE INDEX ON %s USING hnsw (embedding vector_cosine_ops)%s", c.table, params)
}

func (c *collection) Name() string         { return c.name }
func (c *collection) Schema() store.Schema { return c.schema }

// odd reports whether pgvector cannot compute cosines of a vector: it returns NaN for zero, and it
// squares components in float32, which may overflow or underflow.
func odd(v []float32) bool {
	norm := math.Sqrt(simd.Dot64(v, v))
	return !(norm > 0x1p-50 && norm < 0x1p60)
}

// Upsert is one transaction. Documents are written in order of id, so that concurrent calls wait
// for each other and cannot deadlock.
func (c *collection) Upsert(ctx context.Context, docs []db.Document) error {
	docs, err := store.CheckDocuments(c.name, c.schema, docs)
	if err != nil || len(docs) == 0 {
		return err
	}
	slices.SortFunc(docs, func(a, b db.Document) int { return strings.Compare(a.ID, b.ID) })
	columns, values, updates := "id, embedding, odd, body, meta", "$1, $2::real[]::vector, $3, $4, $5::text::jsonb",
		"embedding = excluded.embedding, odd = excluded.odd, body = excluded.body, meta = excluded.meta"
	if c.text != nil {
		columns, values, updates = columns+", terms", values+", $6::text::tsvector", updates+", terms = excluded.terms"
	}
	statement := fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s) ON CONFLICT (id) DO UPDATE SET %s",
		c.table, columns, values, updates)
	err = c.s.transaction(ctx, func(tx pgx.Tx) error {
		for part := range slices.Chunk(docs, 500) {
			var batch pgx.Batch
			for i := range part {
				args, err := c.row(&part[i])
				if err != nil {
					return err
				}
				batch.Queue(statement, args...)
			}
			if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
				return err
			}
		}
		return nil
	})
	return wrap(err, "upsert into %q", c.name)
}

func (c *collection) row(d *db.Document) ([]any, error) {
	meta, err := appendJSON(nil, d.Metadata)
	if err != nil {
		return nil, err
	}
	args := []any{d.ID, nil, false, escape(d.Text), string(meta)}
	if len(d.Vector) > 0 {
		args[1], args[2] = d.Vector, odd(d.Vector)
	}
	if c.text != nil {
		args = append(args, c.terms(d))
	}
	return args, nil
}

// whole lists the columns of a document, as collect reads them.
const whole = "id, embedding::real[], body, meta"

func collect(rows pgx.Rows) ([]*db.Document, error) {
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (*db.Document, error) {
		var meta []byte
		d := &db.Document{}
		err := row.Scan(&d.ID, &d.Vector, &d.Text, &meta)
		if err == nil {
			d.Text = unescape(d.Text)
			d.Metadata, err = decodeMetadata(meta)
		}
		return d, err
	})
}

// known returns the ids that are valid for a document: the server refuses the rest.
func known(ids []string) []string {
	out := make([]string, 0, len(ids))
	for _, id := range ids {
		if utf8.ValidString(id) && !strings.Contains(id, "\x00") {
			out = append(out, id)
		}
	}
	return out
}

func (c *collection) Get(ctx context.Context, ids []string) ([]*db.Document, error) {
	docs, err := query(ctx, c.s, collect, "SELECT "+whole+" FROM "+c.table+" WHERE id = ANY($1)", known(ids))
	if err != nil {
		return nil, wrap(err, "get from %q", c.name)
	}
	by := make(map[string]*db.Document, len(docs))
	for _, d := range docs {
		by[d.ID] = d
	}
	out := make([]*db.Document, len(ids))
	for i, id := range ids {
		out[i] = by[id]
	}
	return out, nil
}

func (c *collection) Delete(ctx context.Context, ids []string) (int, error) {
	return c.delete(ctx, "id = ANY($1)", known(ids))
}

func (c *collection) DeleteWhere(ctx context.Context, where filter.Expr) (int, error) {
	if err := store.CheckDelete(where); err != nil {
		return 0, err
	}
	var s statement
	condition := s.where(where)
	return c.delete(ctx, condition, s.args...)
}

// delete locks rows in order of id first, as Upsert does.
func (c *collection) delete(ctx context.Context, condition string, args ...any) (n int, err error) {
	err = c.s.transaction(ctx, func(tx pgx.Tx) error {
		done, err := tx.Exec(ctx, fmt.Sprintf(
			"WITH doomed AS MATERIALIZED (SELECT id FROM %s WHERE %s ORDER BY id FOR UPDATE) DELETE FROM %s d USING doomed WHERE d.id = doomed.id",
			c.table, condition, c.table), args...)
		n = int(done.RowsAffected())
		return err
	})
	if err != nil {
		return 0, wrap(err, "delete from %q", c.name)
	}
	return n, nil
}

// Scan returns documents in order of id; after is an id.
func (c *collection) Scan(ctx context.Context, after string, limit int, where filter.Expr) (store.Page, error) {
	if err := store.CheckScan(limit, where); err != nil {
		return store.Page{}, err
	}
	if !utf8.ValidString(after) {
		return store.Page{}, fmt.Errorf("%w: after = %q is no Next of a page", db.ErrInvalid, after)
	}
	var s statement
	// One more than wanted: it tells whether there is another page.
	sql := fmt.Sprintf("SELECT %s FROM %s WHERE id > %s AND %s ORDER BY id LIMIT %d", whole, c.table,
		s.arg(escape(after)), s.where(where), limit+1)
	docs, err := query(ctx, c.s, collect, sql, s.args...)
	if err != nil {
		return store.Page{}, wrap(err, "scan %q", c.name)
	}
	page := store.Page{Documents: docs}
	if len(docs) > limit {
		page.Documents, page.Next = docs[:limit], docs[limit-1].ID
	}
	return page, nil
}

func (c *collection) Count(ctx context.Context, where filter.Expr) (int, error) {
	if err := store.CheckWhere(where); err != nil {
		return 0, err
	}
	var s statement
	sql := fmt.Sprintf("SELECT count(*) FROM %s WHERE %s", c.table, s.where(where))
	n, err := query(ctx, c.s, one[int], sql, s.args...)
	return n, wrap(err, "count in %q", c.name)
}
