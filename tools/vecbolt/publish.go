package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/vecbolt/vecbolt/db"
)

type publishCmd struct {
	database
	To    string        `arg:"" name:"dir" help:"The folder: published to before, or empty, or not there yet."`
	Every time.Duration `placeholder:"TIME" help:"Publish again and again, with this pause, until interrupted."`
	Keep  int           `default:"${keep}" placeholder:"N" help:"Versions that the folder holds (${default})."`
}

func (c *publishCmd) Help() string {
	return "Writes the present version of a database to a folder, unless that has it: only files that are not there yet. " +
		"Whatever copies files may carry the folder elsewhere; verbs that read take it like a database, and serve --follow " +
		"serves the newest version in it. See docs/replicas.md. The database must not be open elsewhere; with --every, it " +
		"is opened each time, and a round is left out when it is. A server publishes what it has open: serve --publish."
}

// Validate is called by kong.
func (c *publishCmd) Validate() error {
	if c.Every < 0 || c.Keep < 1 {
		return errors.New("--every and --keep must be positive")
	}
	return nil
}

func (c *publishCmd) Run(ctx context.Context, t *tool) error {
	for {
		err := c.once(ctx, t)
		if c.Every == 0 {
			return err
		}
		if errors.Is(err, db.ErrLocked) {
			t.notef("%s", message(err))
		} else if err != nil {
			return err
		}
		if err := t.out.Flush(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(c.Every):
		}
	}
}

func (c *publishCmd) once(ctx context.Context, t *tool) error {
	return c.change(func(vdb *db.DB) error {
		start := time.Now()
		p, err := vdb.NewPublisher(c.To, &db.PublishOptions{Keep: c.Keep})
		if err != nil {
			return err
		}
		done, err := p.Publish(ctx)
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

// publishing are the flags of a server that publishes what it has open.
type publishing struct {
	Publish      string        `placeholder:"DIR" help:"Publish the database to this folder, for replicas: at the beginning, at the end, and in between."`
	PublishEvery time.Duration `default:"10s" placeholder:"TIME" help:"How often, if there is something new (${default})."`
	PublishKeep  int           `default:"${keep}" placeholder:"N" help:"Versions that the folder holds (${default})."`
}

// during publishes while serve runs. What fails is tried again.
func (o publishing) during(ctx context.Context, vdb *db.DB, log *slog.Logger, serve func() error) error {
	if o.Publish == "" {
		return serve()
	}
	p, err := vdb.NewPublisher(o.Publish, &db.PublishOptions{Keep: o.PublishKeep})
	if err != nil {
		return err
	}
	publish := func(ctx context.Context) error {
		_, err := p.Publish(ctx)
		if err != nil && ctx.Err() == nil && log != nil {
			log.Error("publish failed", "error", err)
		}
		return err
	}
	if err := publish(ctx); err != nil {
		return errors.Join(err, p.Close())
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(o.PublishEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				_ = publish(ctx)
			}
		}
	}()
	err = serve()
	stop()
	<-done
	return errors.Join(err, publish(context.WithoutCancel(ctx)), p.Close())
}
