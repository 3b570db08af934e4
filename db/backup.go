package db

import (
	"context"
	"fmt"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/replica"
)

// Backup writes a consistent copy of the database, as of now, to directory dir. The directory must
// be empty or missing, and must not lie inside the database directory. Readers and writers go on.
//
// The copy is an ordinary database, but only from the last step on. If Backup fails before it, or
// ctx ends, it leaves nothing. If the process is killed, it leaves files that Open refuses, for
// reading and for writing.
//
// Any process can make a backup, even a read-only one: the process that leads flushes for it. If
// nobody leads, there may be the log of a killed writer. The log is then copied too, and the copy
// recovers when it is opened. Everything is verified as it is copied. The error for damage matches
// ErrCorrupt and names the file and the offset, or the document.
func (db *DB) Backup(ctx context.Context, dir string) error {
	flush := func() (lsn uint64, led bool, err error) { return db.member.Flush(ctx) }
	err := db.engine.MayWait()
	if err == nil {
		err = replica.Backup(ctx, db.engine, dir, flush)
	}
	if err != nil {
		return fmt.Errorf("db: backup to %q: %w", dir, engine.Translate(err))
	}
	return nil
}
