package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/errtext"
	"github.com/vecbolt/vecbolt/store"
	"github.com/vecbolt/vecbolt/store/migrate"
	"github.com/vecbolt/vecbolt/store/weaviate"
)

type migrateCmd struct {
	collection
	To        string `xor:"where" required:"" placeholder:"ADDRESS" help:"Copy the collection to this store."`
	From      string `xor:"where" required:"" placeholder:"ADDRESS" help:"Copy a collection from this store into the database, which is created if missing."`
	Name      string `placeholder:"NAME" help:"Name of the collection in the other store; default the same name."`
	Resume    bool   `help:"Continue an interrupted migration."`
	Verify    bool   `help:"Compare both afterwards: counts, a sample of documents, scores."`
	BatchSize int    `default:"300" placeholder:"N" help:"Documents per request, at most 1,000; default 300."`
}

func (c *migrateCmd) Help() string {
	return `An address is weaviate://host:port,host:port (with ?class=Name to choose the class, ?replicas=1 or 3 and more, ?shards=, ` +
		`?scheme=https), vecbolt://path of another database, or postgres://user@host/database, for which the program ` +
		postgresProgram + ` must be in PATH or beside this one. The collection is ` +
		`made there with its schema, unless it exists and is empty. The metric must be the cosine. A checkpoint beside the ` +
		`database records the progress, for --resume; documents that are written a second time replace themselves. ` +
		`What is written to the source meanwhile may be missing in the copy: if the source is a database, the answer says so. ` +
		`With --verify, a difference is an error. docs/stores.md compares the stores.`
}

// postgresProgram migrates to and from PostgreSQL, because this tool does not link a driver. It is
// in store/pgvector/cmd.
const postgresProgram = "vecbolt-migrate-postgres"

// Validate is called by kong.
func (c *migrateCmd) Validate() error {
	if c.BatchSize < 1 || c.BatchSize > 1000 {
		return fmt.Errorf("--batch-size %d is outside 1..1000", c.BatchSize)
	}
	return nil
}

func (c *migrateCmd) Run(ctx context.Context, t *tool) error {
	if c.From != "" {
		if err := lasting(c.DB); err != nil {
			return err
		}
	}
	if scheme, _, _ := strings.Cut(c.To+c.From, "://"); scheme == "postgres" || scheme == "postgresql" {
		return c.postgres(ctx, t)
	}
	name := c.Name
	if name == "" {
		name = c.Collection
	}
	if c.To != "" {
		return c.read(func(coll *db.Collection) error {
			from, err := store.OfCollection(coll)
			if err != nil {
				return err
			}
			return c.with(ctx, c.To, c.make(ctx, from, name), func(to store.Store) error {
				return c.copy(ctx, t, from, to, name)
			})
		})
	}
	return c.with(ctx, c.From, nil, func(remote store.Store) error {
		from, err := remote.Collection(ctx, name)
		if err != nil {
			return err
		}
		return c.database.create(c.make(ctx, from, c.Collection), func(vdb *db.DB) error {
			return c.copy(ctx, t, from,
				store.Embedded(vdb), c.Collection)
		})
	})
}

// make returns a function that makes the target of a migration in a database.
func (c *migrateCmd) make(ctx context.Context, from store.Collection, name string) func(*db.DB) error {
	return func(vdb *db.DB) error {
		_, err := store.Embedded(vdb).Create(ctx, name, from.Schema())
		return err
	}
}

// with runs fn on the store at an address. A database there is created if necessary, and try is
// what fn does first; without try it is only read.
func (c *migrateCmd) with(ctx context.Context, address string, try func(*db.DB) error,
	fn func(store.Store) error) (err error) {
	scheme, rest, _ := strings.Cut(address, "://")
	switch scheme {
	case "weaviate":
		endpoints, wo, err := weaviate.Parse(address)
		if err != nil {
			return err
		}
		s, err := weaviate.Open(ctx, endpoints, wo)
		if err != nil {
			return err
		}
		return errors.Join(fn(s), s.Close())
	case "vecbolt":
		at, run := database{rest}, func(vdb *db.DB) error { return fn(store.Embedded(vdb)) }
		if try == nil {
			return at.blame(at.read(run))
		}
		return at.create(try, run)
	}
	shown, _, _ := strings.Cut(errtext.WithoutUser(address), "?") // a parameter may be a password, too
	return fmt.Errorf("%s: unknown kind of address, want weaviate://, postgres:// or vecbolt://", shown)
}

// place returns an address that names the same store from every directory.
func place(address string) string {
	if dir, ok := strings.CutPrefix(address, "vecbolt://"); ok {
		if at, err := filepath.Abs(dir); err == nil {
			return "vecbolt://" + at
		}
	}
	return address
}

// postgres runs the program with the driver.
func (c *migrateCmd) postgres(ctx context.Context, t *tool) error {
	program, err := exec.LookPath(postgresProgram)
	if err != nil {
		self, _ := os.Executable()
		if program, err = exec.LookPath(filepath.Join(filepath.Dir(self), postgresProgram)); err != nil {
			return fmt.Errorf("%s is neither in PATH nor beside this program: docs/stores.md says how to build it",
				postgresProgram)
		}
	}
	args := []string{c.DB, c.Collection, "--batch-size", strconv.Itoa(c.BatchSize)}
	for _, flag := range [][2]string{{"--to", c.To}, {"--from", c.From}, {"--name", c.Name}} {
		if flag[1] != "" {
			args = append(args, flag[0]+"="+flag[1])
		}
	}
	for flag, set := range map[string]bool{"--resume": c.Resume, "--verify": c.Verify, "--json": t.json} {
		if set {
			args = append(args, flag)
		}
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = t.out, t.report
	interrupted(cmd)
	cmd.WaitDelay = 10 * time.Second // to save how far it came
	err = cmd.Run()
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return errReported // by the program
	}
	return err
}

func (c *migrateCmd) copy(ctx context.Context, t *tool, from store.Collection, to store.Store, name string) error {
	dir, isDatabase := strings.CutPrefix(c.To+c.From, "vecbolt://")
	o := &migrate.Options{BatchSize: c.BatchSize, Resume: c.Resume, Within: isDatabase && sameFile(dir, c.DB)}
	o.Named(c.DB, fmt.Sprintf("%s to %s as %s", from.Name(), place(c.To+c.From), name))
	p := t.progress("migrate", func() int64 {
		n, err := from.Count(ctx, nil)
		if err != nil {
			return 0 // the migration reports the error
		}
		return int64(n)
	})
	o.Progress = func(done, _ int) { p.at(int64(done), done) }
	report, err := migrate.Run(ctx, from, to, name, o)
	p.end()
	if err != nil {
		if report != nil && report.Documents+report.Before > 0 {
			t.notef("%s documents are copied: --resume continues",
				humanize.Comma(int64(report.Documents+report.Before)))
		}
		return err
	}
	result := &migrate.Result{Report: report}
	if c.Verify {
		if err := result.Verify(ctx, from, to, name); err != nil {
			return err
		}
	}
	if err := t.answer(result, "%v", result); err != nil {
		return err
	}
	if !result.OK() {
		return errReported
	}
	return nil
}
