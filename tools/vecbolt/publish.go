package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/errtext"
	"github.com/vecbolt/vecbolt/internal/replica"
)

type publishCmd struct {
	database
	To    string         `arg:"" name:"dir" help:"A folder that was published to before, or is empty or missing."`
	Every *time.Duration `placeholder:"TIME" help:"Publish repeatedly with this pause, until interrupted."`
	Keep  int            `default:"${keep}" placeholder:"N" help:"Number of versions kept in the folder (${default})."`
}

func (c *publishCmd) Help() string {
	return "Writes the current version of a database to a folder, unless the folder has it. Only missing files are copied. " +
		"Any file copier may transfer the folder; verbs that read accept it like a database, and serve --follow " +
		"serves the newest version in it. See docs/replicas.md. Only the process that leads the database can publish it, " +
		"so no other one may have it open; with --every, it is opened each time, and a round is skipped if another process leads. " +
		"A server publishes its own database: serve --publish."
}

// Validate is called by kong.
func (c *publishCmd) Validate() error {
	if c.Every != nil && *c.Every <= 0 || c.Keep < 1 {
		return errors.New("--every and --keep must be positive")
	}
	return nil
}

func (c *publishCmd) Run(ctx context.Context, t *tool) error {
	for {
		err := c.once(ctx, t)
		if c.Every == nil {
			return err
		}
		if errors.Is(err, db.ErrLocked) {
			t.notef("%s", errtext.Plain(err.Error()))
		} else if err != nil {
			return err
		}
		if err := t.out.Flush(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(*c.Every):
		}
	}
}

func (c *publishCmd) once(ctx context.Context, t *tool) error {
	return c.change(func(vdb *db.DB) error {
		start := time.Now()
		p, err := vdb.NewPublisher(c.To, &db.PublishOptions{Keep: c.Keep})
		if err != nil {
			return leading(ctx, vdb, err)
		}
		ctx, b := t.working(ctx, "publish")
		done, err := p.Publish(ctx)
		b.end()
		if err = errors.Join(err, p.Close()); err != nil {
			return err
		}
		answer := struct {
			db.Publication
			Seconds float64 `json:"seconds"`
		}{done, time.Since(start).Seconds()}
		if !done.New {
			return t.answer(answer, "version %d is there", done.Version)
		}
		return t.answer(answer, "published version %d: wrote %d of %d files, %s of %s", done.Version,
			done.NewFiles, done.Files, humanize.IBytes(uint64(done.NewBytes)), humanize.IBytes(uint64(done.Bytes)))
	})
}

// publishFlags are the flags of a server that publishes its database.
type publishFlags struct {
	Publish      string         `placeholder:"DIR" help:"Publish the database to this folder, for replicas: at start, at the end, and periodically, while no other process leads the database or publishes to the folder."`
	PublishEvery *time.Duration `placeholder:"TIME" help:"With --publish: the period, if something has changed (10s)."`
	PublishKeep  *int           `placeholder:"N" help:"With --publish: number of versions kept in the folder (${keep})."`
}

// valid refuses flags that have no effect or no meaning.
func (o publishFlags) valid() error {
	switch {
	case o.Publish == "" && (o.PublishEvery != nil || o.PublishKeep != nil):
		return errors.New("--publish-every and --publish-keep need --publish")
	case o.PublishEvery != nil && *o.PublishEvery <= 0 || o.PublishKeep != nil && *o.PublishKeep < 1:
		return errors.New("--publish-every and --publish-keep must be positive")
	}
	return nil
}

// check refuses a folder that a database cannot be published to before the database is made.
func (o publishFlags) check(dir string) error {
	if o.Publish == "" || !missing(dir) {
		return nil
	}
	if err := replica.CheckFolder(o.Publish, dir); err != nil {
		return fmt.Errorf("publish to %q: %w", o.Publish, err)
	}
	return nil
}

// during publishes while serve runs and this process leads the database. It retries after errors.
func (o publishFlags) during(ctx context.Context, vdb *db.DB, log *slog.Logger, serve func() error) error {
	if o.Publish == "" {
		return serve()
	}
	f := &published{dir: o.Publish, vdb: vdb, log: cmp.Or(log, slog.New(slog.DiscardHandler))}
	every := 10 * time.Second
	if o.PublishEvery != nil {
		every = *o.PublishEvery
	}
	if o.PublishKeep != nil {
		f.opts.Keep = *o.PublishKeep
	}
	if err := f.publish(ctx); err != nil {
		return errors.Join(err, f.close())
	}
	stop := repeat(ctx, every, func(ctx context.Context) { _ = f.publish(ctx) })
	err := serve()
	stop()
	return errors.Join(err, f.publish(context.WithoutCancel(ctx)), f.close())
}

// published is a folder that a server publishes to.
type published struct {
	dir       string
	opts      db.PublishOptions
	vdb       *db.DB
	log       *slog.Logger
	publisher *db.Publisher // nil before the first attempt, and after one that failed
	waits     bool          // the last attempt failed with ErrLocked
}

// publish publishes the database, unless another process leads it or publishes to the folder.
func (f *published) publish(ctx context.Context) error {
	old := f.publisher != nil
	err := f.attempt(ctx)
	if err != nil && old && ctx.Err() == nil && !errors.Is(err, db.ErrLocked) {
		err = f.attempt(ctx) // if somebody has emptied the folder, that needs a new publisher
	}
	waited := f.waits
	f.waits = errors.Is(err, db.ErrLocked)
	switch {
	case f.waits && !waited:
		f.log.Warn("not publishing for now", "error", leading(ctx, f.vdb, err))
	case !f.waits && err != nil && ctx.Err() == nil:
		f.log.Error("publish failed", "error", err)
	}
	if f.waits {
		return nil
	}
	return err
}

// attempt tries to publish. It closes a publisher that fails: the process that leads may want the
// folder.
func (f *published) attempt(ctx context.Context) (err error) {
	if f.publisher == nil {
		if f.publisher, err = f.vdb.NewPublisher(f.dir, &f.opts); err != nil {
			return err
		}
	}
	if _, err = f.publisher.Publish(ctx); err != nil {
		err = errors.Join(err, f.close())
	}
	return err
}

func (f *published) close() (err error) {
	if f.publisher != nil {
		err = f.publisher.Close()
		f.publisher = nil
	}
	return err
}
