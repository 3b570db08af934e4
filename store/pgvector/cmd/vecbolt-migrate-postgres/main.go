// Command vecbolt-migrate-postgres moves a collection from a database of Vecbolt to PostgreSQL with
// pgvector, or back:
//
//	vecbolt-migrate-postgres notes.vdb notes --to postgres://user@host/database --index --verify
//	vecbolt-migrate-postgres notes.vdb notes --from postgres://user@host/database
//
// It is "vecbolt migrate" with a driver for PostgreSQL. It is a separate program, so that the tool
// does not link the driver. Progress and errors go to standard error, the result to standard
// output. The exit status is 0, 1 after an error or if --verify found a difference, 2 for wrong
// usage.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/store"
	"github.com/vecbolt/vecbolt/store/migrate"
	"github.com/vecbolt/vecbolt/store/pgvector"
)

type command struct {
	DB         string `arg:"" help:"The database, a directory."`
	Collection string `arg:"" help:"The collection in it."`
	To         string `xor:"where" required:"" placeholder:"URL" help:"Copy the collection there: postgres://user:password@host:port/database; with ?vecbolt_schema=NAME to choose the schema."`
	From       string `xor:"where" required:"" placeholder:"URL" help:"Copy a collection from there into the database, which is made unless it exists."`
	Name       string `placeholder:"NAME" help:"What the collection is called there; the same if this is not given."`
	Index      bool   `help:"With --to: build an HNSW index when all documents are there, which is quicker than to have one from the beginning."`
	Resume     bool   `help:"Go on with a migration that was cut short."`
	Verify     bool   `help:"Compare both afterwards: counts, a sample of documents, scores."`
	JSON       bool   `name:"json" help:"Answer with one JSON object."`
	BatchSize  int    `default:"500" placeholder:"N" help:"Documents per transaction, at most 10,000; 500 if this is not given."`
}

func main() {
	interrupts := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // not started with nohup
		interrupts = append(interrupts, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), interrupts...)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

var errDifferent = errors.New("the collections are not the same")

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c command
	exit := -1
	parser, err := kong.New(&c, kong.Name("vecbolt-migrate-postgres"), kong.Writers(stdout, stderr),
		kong.Exit(func(status int) { exit = status }),
		kong.Description("Moves a collection from a database of Vecbolt to PostgreSQL with pgvector, or back."))
	if err == nil {
		_, err = parser.Parse(args)
	}
	if exit >= 0 {
		return exit // --help
	}
	if err != nil {
		fmt.Fprintln(stderr, "error:", err)
		return 2
	}
	if err := c.run(ctx, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "error:", err)
		return 1
	}
	return 0
}

func (c *command) run(ctx context.Context, stdout, stderr io.Writer) (err error) {
	name := c.Name
	if name == "" {
		name = c.Collection
	}
	if c.From != "" && c.DB == db.Memory {
		return fmt.Errorf("%w: a database in memory ends with this command: name a directory", db.ErrInvalid)
	}
	remote, err := pgvector.Open(ctx, c.To+c.From, nil)
	if err != nil {
		return err
	}
	defer remote.Close()
	if c.To != "" {
		vdb, err := db.Open(c.DB, &db.Options{ReadOnly: true, MustExist: true})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, vdb.Close()) }()
		from, err := store.Embedded(vdb).Collection(ctx, c.Collection)
		if err != nil {
			return err
		}
		return c.copy(ctx, from, remote, name, "to "+remote.String(), stdout, stderr, func() error {
			if !c.Index {
				return nil
			}
			fmt.Fprintln(stderr, "building the index")
			err := remote.Index(ctx, name, pgvector.HNSW{})
			if errors.Is(err, db.ErrExists) {
				return nil // left by an earlier run
			}
			return err
		})
	}
	from, err := remote.Collection(ctx, name)
	if err != nil {
		return err
	}
	vdb, err := db.Open(c.DB, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, vdb.Close()) }()
	return c.copy(ctx, from, store.Embedded(vdb), c.Collection, "from "+remote.String(), stdout,
		stderr, func() error { return nil })
}

// copy migrates, and calls finish after the last document.
func (c *command) copy(ctx context.Context, from store.Collection, to store.Store, name, where string,
	stdout, stderr io.Writer, finish func() error) error {
	last := time.Now()
	o := &migrate.Options{BatchSize: c.BatchSize, Resume: c.Resume, Progress: func(done, total int) {
		if done == total || time.Since(last) > 2*time.Second {
			last = time.Now()
			fmt.Fprintf(stderr, "%d of %d documents\n", done, total)
		}
	}}
	o.Named(c.DB, fmt.Sprintf("%s %s as %s", from.Name(), where, name))
	report, err := migrate.Run(ctx, from, to, name, o)
	if err == nil {
		err = finish()
	}
	if err != nil {
		if report != nil && report.Documents+report.Before > 0 {
			fmt.Fprintf(stderr, "%d documents are there: --resume goes on\n", report.Documents+report.Before)
		}
		return err
	}
	result := &migrate.Result{Report: report}
	if c.Verify {
		if err := result.Verify(ctx, from, to, name); err != nil {
			return err
		}
	}
	if c.JSON {
		err = json.NewEncoder(stdout).Encode(result)
	} else {
		_, err = fmt.Fprintln(stdout, result)
	}
	if err == nil && !result.OK() {
		err = errDifferent
	}
	return err
}
