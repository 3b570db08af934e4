package migrate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"

	"github.com/vecbolt/vecbolt/store"
)

// Named sets ID and Checkpoint for a migration between a database directory and another place. The
// checkpoint is stored beside the directory, wherever a relative path or a link names it from.
func (o *Options) Named(database, id string) {
	if at, err := filepath.Abs(database); err == nil {
		database = at
	}
	if at, err := filepath.EvalSymlinks(database); err == nil {
		database = at
	}
	sum := sha256.Sum256([]byte(id))
	o.ID, o.Checkpoint = id, filepath.Clean(database)+".migrate-"+hex.EncodeToString(sum[:4])+".json"
}

// A Result is the answer of the programs that migrate.
type Result struct {
	*Report
	Verification *Verification `json:"verification,omitempty"` // of Verify
}

// Verify compares the copy of from, the collection name of to, and keeps the differences.
func (r *Result) Verify(ctx context.Context, from store.Collection, to store.Store, name string) error {
	target, err := to.Collection(ctx, name)
	if err != nil {
		return err
	}
	r.Verification, err = Verify(ctx, from, target)
	return err
}

// OK reports whether no difference was found.
func (r *Result) OK() bool { return r.Verification == nil || r.Verification.OK() }

// String describes the result in a few lines.
func (r *Result) String() string {
	text := fmt.Sprintf("migrated %d documents", r.Documents)
	if r.Before > 0 {
		text += fmt.Sprintf(", after %d before", r.Before)
	}
	if r.Changed {
		text += "\nthe database of the source was written to since the migration began: if it was to this collection, the copy " +
			"may lack changes; the same command with --resume copies them, except for deletions, and a copy under another name has all"
	}
	switch {
	case r.Verification == nil:
	case r.OK():
		text += "\nverified: " + r.Verification.String()
	default:
		text += "\nNOT the same: " + r.Verification.String()
	}
	return text
}
