package pgvector

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/puddle/v2"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/store"
)

// DefaultSchema is the schema of the server that holds collections when
// Options.Schema is empty.
const DefaultSchema = "vecbolt"

// Limits of pgvector, in components of a vector.
const (
	MaxDim     = 16_000
	MaxHNSWDim = 2_000 // with an HNSW index
)

// Options configure storage. nil means the zero value.
type Options struct {
	// Schema is the schema (the namespace) of the server that contains the collections and their
	// catalogue; it is created on demand. Empty means DefaultSchema.
	Schema string
	// HNSW, if set, gives every collection that Create makes an HNSW index, so that Query need not
	// read every vector. It is stored with the collection: existing collections are not affected.
	HNSW *HNSW
}

// An HNSW configures an index of pgvector. Zero values mean pgvector's defaults: 16 and 64.
type HNSW struct {
	M              int `json:"m,omitempty"`               // links of a vector, 2 to 100
	EfConstruction int `json:"ef_construction,omitempty"` // 4 to 1000, at least 2*M
}

func (h *HNSW) validate() error {
	if h == nil || (h.M == 0 || h.M >= 2 && h.M <= 100) &&
		(h.EfConstruction == 0 || h.EfConstruction >= 4 && h.EfConstruction <= 1000) {
		return nil
	}
	return fmt.Errorf("%w: hnsw: m = %d is outside 2..100 or ef_construction = %d outside 4..1000",
		db.ErrInvalid, h.M, h.EfConstruction)
}

// A Store is a schema of a PostgreSQL database. It implements store.Store.
type Store struct {
	pool   *pgxpool.Pool
	own    bool // Close closes pool
	schema string
	hnsw   *HNSW
}

var _ store.Store = (*Store)(nil)

// Open connects to a server by a URL such as
//
//	postgres://user:password@host:5432/database?sslmode=require&pool_max_conns=8
//
// with the parameters of pgx, and two that override Options: vecbolt_schema=NAME and
// vecbolt_hnsw=on, or M,EF_CONSTRUCTION. It writes nothing. Its connections have jit off, unless the
// URL names jit, as in jit=on: compiling a condition takes seconds where evaluating it takes
// milliseconds.
func Open(ctx context.Context, address string, o *Options) (*Store, error) {
	address, opts, err := parseURL(address, o)
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", db.ErrInvalid, err)
	}
	if _, named := config.ConnConfig.RuntimeParams["jit"]; !named &&
		!strings.Contains(config.ConnConfig.RuntimeParams["options"], "jit") {
		// Not as a parameter of the connection, which PgBouncer would refuse.
		config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "SET jit = off")
			return err
		}
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	s, err := New(ctx, pool, opts)
	if err != nil {
		pool.Close()
		return nil, err
	}
	s.own = true
	return s, nil
}

// parseURL removes the parameters of this package from a URL. pgx parses the rest: it accepts more
// than net/url, such as several hosts.
func parseURL(address string, o *Options) (string, *Options, error) {
	if !strings.HasPrefix(address, "postgres://") && !strings.HasPrefix(address, "postgresql://") {
		return "", nil, fmt.Errorf("%w: the address of a PostgreSQL server is postgres://user@host:port/database",
			db.ErrInvalid)
	}
	opts := Options{}
	if o != nil {
		opts = *o
	}
	address, query, _ := strings.Cut(address, "?")
	var rest []string
	for _, parameter := range strings.Split(query, "&") {
		name, ours := strings.CutPrefix(parameter, "vecbolt_")
		if !ours {
			rest = append(rest, parameter)
			continue
		}
		name, value, _ := strings.Cut(name, "=")
		value, err := url.PathUnescape(value)
		if err != nil {
			return "", nil, fmt.Errorf("%w: parameter %s: %w", db.ErrInvalid, parameter, err)
		}
		switch {
		case name == "schema":
			opts.Schema = value
		case name == "hnsw" && value == "on":
			opts.HNSW = &HNSW{}
		case name == "hnsw":
			opts.HNSW = &HNSW{}
			if n, err := fmt.Sscanf(value, "%d,%d", &opts.HNSW.M, &opts.HNSW.EfConstruction); n != 2 || err != nil {
				return "", nil, fmt.Errorf(`%w: vecbolt_hnsw=%s: want "on" or M,EF_CONSTRUCTION`, db.ErrInvalid, value)
			}
		default:
			return "", nil, fmt.Errorf("%w: unknown parameter vecbolt_%s: there are vecbolt_schema and vecbolt_hnsw",
				db.ErrInvalid, name)
		}
	}
	if query = strings.Join(rest, "&"); query != "" {
		address += "?" + query
	}
	return address, &opts, nil
}

// New uses a pool of the caller, who closes it after the Store. The server encoding must be UTF8.
// The connections should have jit off, as those of Open: where it is on, PostgreSQL may compile a
// condition on paths of five or more keys for seconds.
func New(ctx context.Context, pool *pgxpool.Pool, o *Options) (*Store, error) {
	s := &Store{pool: pool, schema: DefaultSchema}
	if o != nil {
		s.hnsw = o.HNSW
		if o.Schema != "" {
			s.schema = o.Schema
		}
	}
	if len(s.schema) > 63 || !utf8.ValidString(s.schema) || strings.ContainsRune(s.schema, 0) ||
		strings.HasPrefix(s.schema, "pg_") {
		return nil, fmt.Errorf("%w: %q cannot be the name of a schema: at most 63 bytes of UTF-8, not beginning with pg_", db.ErrInvalid, s.schema)
	}
	if err := s.hnsw.validate(); err != nil {
		return nil, err
	}
	encoding, err := query(ctx, s, one[string], "SELECT current_setting('server_encoding')")
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	if encoding != "UTF8" {
		return nil, fmt.Errorf("postgres: the encoding of the database is %s, it has to be UTF8", encoding)
	}
	return s, nil
}

// String describes the location of the Store without the secrets in its address.
func (s *Store) String() string {
	c := s.pool.Config().ConnConfig
	return fmt.Sprintf("postgres://%s:%d/%s schema %s", c.Host, c.Port, c.Database, s.schema)
}

// format is the version of the tables of a collection. The catalogue has one row
// per collection:
//
//	id          names the table: c<id>_<readable part of the name>
//	name        of the collection
//	format      1
//	definition  store.EncodeSchema, as bytes: nothing of it is for SQL
//	hnsw        parameters of the index, null without an index
const format = 1

type catalogueRow struct {
	ID         int64
	Format     int
	Definition []byte
	HNSW       *HNSW
}

// ident quotes the name of a table in the schema.
func (s *Store) ident(table string) string { return pgx.Identifier{s.schema, table}.Sanitize() }

func (s *Store) catalogue() string { return s.ident("collections") }

// setup creates the catalogue for Create. Concurrent callers wait for each other: IF NOT EXISTS
// alone fails when two callers find the table missing.
func (s *Store) setup(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtext('vecbolt'))"); err != nil {
		return err
	}
	var ready, vector bool
	err := tx.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL, to_regtype('vector') IS NOT NULL",
		s.catalogue()).Scan(&ready, &vector)
	if err == nil && !vector {
		_, err = tx.Exec(ctx, "CREATE EXTENSION IF NOT EXISTS vector")
	}
	if err != nil {
		return fmt.Errorf("extension vector: %w", err)
	}
	if ready {
		return nil
	}
	_, err = tx.Exec(ctx, fmt.Sprintf(`CREATE SCHEMA IF NOT EXISTS %s`, pgx.Identifier{s.schema}.Sanitize()))
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, fmt.Sprintf(`CREATE TABLE %s (
	id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name text COLLATE "C" NOT NULL UNIQUE,
	format integer NOT NULL,
	definition bytea NOT NULL,
	hnsw jsonb
)`, s.catalogue()))
	return err
}

// Create implements store.Store.
func (s *Store) Create(ctx context.Context, name string, schema store.Schema) (store.Collection, error) {
	schema, err := store.CheckCreate(name, schema)
	if err != nil {
		return nil, err
	}
	if schema.Dim > MaxDim {
		return nil, fmt.Errorf("%w: collection %q: dimension %d: pgvector takes at most %d",
			db.ErrInvalid, name, schema.Dim, MaxDim)
	}
	hnsw := s.hnsw
	if schema.Dim == 0 {
		hnsw = nil // there is nothing to index
	}
	if hnsw != nil {
		if err := checkHNSW(name, schema.Dim); err != nil {
			return nil, err
		}
	}
	definition, err := store.EncodeSchema(schema)
	if err != nil {
		return nil, err
	}
	c, err := s.collection(name, schema, 0, hnsw)
	if err != nil {
		return nil, err
	}
	err = s.transaction(ctx, func(tx pgx.Tx) error {
		if err := s.setup(ctx, tx); err != nil {
			return err
		}
		var id int64
		err := tx.QueryRow(ctx, "INSERT INTO "+s.catalogue()+" (name, format, definition, hnsw) VALUES ($1, $2, $3, $4) RETURNING id",
			name, format, definition, hnsw).Scan(&id)
		if code(err) == uniqueViolation {
			return fmt.Errorf("%w: collection %q", db.ErrExists, name)
		}
		if err != nil {
			return err
		}
		c.table = s.ident(tableName(id, name))
		for _, statement := range c.definition() {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, wrap(err, "create collection %q", name)
	}
	return c, nil
}

// Index adds an HNSW index to a collection, which is faster than maintaining it during a bulk load;
// writers wait until it is built. A collection that was opened before continues to compare every
// vector. It returns db.ErrExists if there is an index.
func (s *Store) Index(ctx context.Context, name string, h HNSW) error {
	if err := h.validate(); err != nil {
		return err
	}
	c, err := s.lookup(ctx, name)
	if err != nil {
		return err
	}
	if err := checkHNSW(name, c.schema.Dim); err != nil {
		return err
	}
	c.hnsw = &h
	err = s.transaction(ctx, func(tx pgx.Tx) error {
		done, err := tx.Exec(ctx, "UPDATE "+s.catalogue()+" SET hnsw = $1 WHERE name = $2 AND hnsw IS NULL", c.hnsw,
			name)
		if err == nil && done.RowsAffected() == 0 {
			err = fmt.Errorf("%w: an HNSW index", db.ErrExists)
		}
		if err == nil {
			_, err = tx.Exec(ctx, c.hnswDefinition())
		}
		return err
	})
	return wrap(err, "index collection %q", name)
}

func checkHNSW(name string, dim int) error {
	switch {
	case dim == 0:
		return fmt.Errorf("%w: collection %q has no vectors to index: its dimension is 0", db.ErrInvalid, name)
	case dim <= MaxHNSWDim:
		return nil
	}
	return fmt.Errorf("%w: collection %q: dimension %d: an HNSW index of pgvector takes at most %d; without the index it is %d",
		db.ErrInvalid, name, dim, MaxHNSWDim, MaxDim)
}

// tableName is a readable name for administrators; the id alone is unique.
func tableName(id int64, name string) string {
	readable := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '_'
	}, name)
	return fmt.Sprintf("c%d_%.40s", id, readable)
}

// Collection implements store.Store.
func (s *Store) Collection(ctx context.Context, name string) (store.Collection, error) {
	c, err := s.lookup(ctx, name)
	if err != nil {
		return nil, store.Instead(ctx, s, name, err)
	}
	return c, nil
}

func (s *Store) lookup(ctx context.Context, name string) (*collection, error) {
	if db.ValidateName(name) != nil {
		return nil, fmt.Errorf("%w: collection %.40q", db.ErrNotFound, name)
	}
	row, err := query(ctx, s, func(rows pgx.Rows) (catalogueRow, error) {
		return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[catalogueRow])
	}, "SELECT id, format, definition, hnsw FROM "+s.catalogue()+" WHERE name = $1", name)
	switch {
	case errors.Is(err, pgx.ErrNoRows) || code(err) == undefinedTable:
		return nil, fmt.Errorf("%w: collection %q", db.ErrNotFound, name)
	case err != nil:
		return nil, wrap(err, "collection %q", name)
	case row.Format > format:
		return nil, fmt.Errorf("%w: collection %q has format %d, this release reads %d", db.ErrVersion,
			name, row.Format, format)
	}
	schema, err := store.DecodeSchema(row.Definition)
	if err != nil {
		return nil, wrap(err, "collection %q", name)
	}
	return s.collection(name, schema, row.ID, row.HNSW)
}

// Collections implements store.Store.
func (s *Store) Collections(ctx context.Context) ([]string, error) {
	names, err := query(ctx, s, func(rows pgx.Rows) ([]string,
		error) {
		return pgx.CollectRows(rows, pgx.RowTo[string])
	},
		"SELECT name FROM "+s.catalogue()+" ORDER BY name")
	if code(err) == undefinedTable {
		return nil, nil // nothing was ever created
	}
	return names, wrap(err, "list collections")
}

// Describe implements store.Store. It counts the documents.
func (s *Store) Describe(ctx context.Context, name string) (store.Info, error) {
	c, err := s.lookup(ctx, name)
	if err != nil {
		return store.Info{}, store.Instead(ctx, s, name, err)
	}
	n, err := c.Count(ctx, nil)
	return store.Info{Name: name, Schema: c.schema, Documents: n}, err
}

// Drop implements store.Store.
func (s *Store) Drop(ctx context.Context, name string) error {
	if db.ValidateName(name) != nil {
		return fmt.Errorf("%w: collection %.40q", db.ErrNotFound, name)
	}
	err := s.transaction(ctx, func(tx pgx.Tx) error {
		var id int64
		err := tx.QueryRow(ctx, "DELETE FROM "+s.catalogue()+" WHERE name = $1 RETURNING id", name).Scan(&id)
		if errors.Is(err, pgx.ErrNoRows) || code(err) == undefinedTable {
			return fmt.Errorf("%w: collection %q", db.ErrNotFound, name)
		}
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "DROP TABLE "+s.ident(tableName(id, name)))
		return err
	})
	return store.Instead(ctx, s, name, wrap(err, "drop collection %q", name))
}

// Close implements store.Store. It closes the connections that Open made.
func (s *Store) Close() error {
	if s.own {
		s.pool.Close()
	}
	return nil
}

// SQL states with a meaning for callers.
const (
	uniqueViolation     = "23505"
	undefinedTable      = "42P01"
	serializationFailed = "40001"
	deadlock            = "40P01"
	adminShutdown       = "57P01"
	crashShutdown       = "57P02"
	cannotConnectNow    = "57P03"
)

func code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// wrap converts errors to their public form; nil stays nil.
func wrap(err error, format string, args ...any) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, puddle.ErrClosedPool):
		err = db.ErrClosed
	case code(err) == undefinedTable:
		err = fmt.Errorf("%w: %w", db.ErrNotFound, err) // dropped after the lookup
	}
	return fmt.Errorf("postgres: %s: %w", fmt.Sprintf(format, args...), err)
}

// attempts is the number of tries of a transaction that the server aborted because of other
// transactions, or whose connection it closed before it did anything.
const attempts = 5

func (s *Store) retry(do func() error) (err error) {
	for range attempts {
		err = do()
		switch c := code(err); {
		case c == deadlock || c == serializationFailed:
		case c == adminShutdown || c == crashShutdown || c == cannotConnectNow || pgconn.SafeToRetry(err):
			s.pool.Reset() // the other connections are gone, too
		default:
			return err
		}
	}
	return err
}

// transaction runs do in a transaction.
func (s *Store) transaction(ctx context.Context, do func(pgx.Tx) error) error {
	return s.retry(func() error { return pgx.BeginFunc(ctx, s.pool, do) })
}

// query runs a statement that changes nothing.
func query[T any](ctx context.Context, s *Store, collect func(pgx.Rows) (T, error), sql string,
	args ...any) (out T, err error) {
	err = s.retry(func() error {
		rows, _ := s.pool.Query(ctx, sql, args...) // collect returns its error
		out, err = collect(rows)
		return err
	})
	return out, err
}

// one collects a single value.
func one[T any](rows pgx.Rows) (T, error) { return pgx.CollectExactlyOneRow(rows, pgx.RowTo[T]) }
