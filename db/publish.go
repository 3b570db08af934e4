package db

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/replica"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// PublishOptions tune a Publisher. The zero value, like nil, is the default.
type PublishOptions struct {
	// Keep is how many versions the folder holds, including the newest; 0 means
	// DefaultKeep. Older versions are removed, so a copy of the folder must be
	// made within the time in which Keep versions are published.
	Keep int

	hook vfs.Hook // faults and traces, for tests
}

// DefaultKeep is how many versions a published folder holds.
const DefaultKeep = 8

// validate is the only check of PublishOptions.
func (o *PublishOptions) validate() error { return within("Keep", o.Keep, 0, math.MaxInt) }

// A Publisher writes versions of a database to a folder for read-only
// processes, on the same machine or wherever the folder is copied to. A file in
// the folder is written once and never changed; a file that is there already is
// not written again. See docs/replicas.md.
//
// Its methods are safe for concurrent use. It must be closed before the
// database.
type Publisher struct {
	db        *DB
	publisher *replica.Publisher
	dir       string
}

// A Publication reports the result of Publish.
type Publication struct {
	Version  uint64 `json:"version"`   // number of the newest version in the folder, from 1
	Batch    uint64 `json:"batch"`     // the last batch in it
	New      bool   `json:"new"`       // false: the folder had this version already
	Files    int    `json:"files"`     // of the version
	Bytes    int64  `json:"bytes"`     // in them
	NewFiles int    `json:"new_files"` // files written by this Publish
	NewBytes int64  `json:"new_bytes"` // in the written files
}

// NewPublisher prepares directory dir. The directory must not exist, be empty,
// or be a folder to which this database was published before, and must lie
// outside the database's own directory. Only one Publisher can have it; a
// second one fails with ErrLocked.
func (db *DB) NewPublisher(dir string, opts *PublishOptions) (*Publisher, error) {
	var o PublishOptions
	if opts != nil {
		o = *opts
	}
	var p *replica.Publisher
	err := o.validate()
	if err == nil {
		err = db.engine.MayWait()
	}
	if err == nil {
		p, err = replica.NewPublisher(db.engine, dir, replica.Options{Keep: cmp.Or(o.Keep, DefaultKeep), Hook: o.hook})
	}
	if err != nil {
		return nil, fmt.Errorf("db: publish to %q: %w", dir, engine.Translate(err))
	}
	return &Publisher{db: db, publisher: p, dir: dir}, nil
}

// Publish writes the present version of the database to the folder, unless it
// is there already. Readers and writers go on. After an error, and after a
// crash at any moment, the folder holds the previous version, whole; Publish
// can be called again. A process that has lost the lead has released the folder:
// Publish fails with ErrLocked, and takes the folder again once this process leads.
func (p *Publisher) Publish(ctx context.Context) (Publication, error) {
	var done replica.Publication
	err := p.db.engine.MayWait()
	if err == nil {
		done, err = p.publisher.Publish(ctx)
	}
	if err != nil {
		err = fmt.Errorf("db: publish to %q: %w", p.dir, engine.Translate(err))
	}
	return Publication(done), err
}

// Close releases the folder. It waits for a running Publish.
func (p *Publisher) Close() error {
	err := p.db.engine.MayWait() // as Publish would
	if err == nil {
		err = p.publisher.Close()
	}
	if err != nil {
		err = fmt.Errorf("db: close publisher of %q: %w", p.dir, err)
	}
	return err
}
