package torture

import (
	"fmt"
	"maps"
	"slices"
)

// bounds are the batches, per track, between which a state must be, and the expected backups.
type bounds struct {
	safe  []int // survive a power failure
	acked []int // survive a kill
	begun []int // may be present

	backups   map[string]backup
	database  string    // its directory
	published published // versions in the folder of replicas
}

// published bounds the batch of the first track in the folder of replicas; -1 if the folder may be
// empty.
type published struct {
	lower, upper int
}

// A backup contains the content after a batch of the first track.
type backup struct {
	batch int
	whole bool
}

// backingUp reports whether a backup is incomplete.
func (b *bounds) backingUp() bool {
	for _, backup := range b.backups {
		if !backup.whole {
			return true
		}
	}
	return false
}

func newBounds(tracks int) *bounds {
	return &bounds{safe: make([]int, tracks), acked: make([]int, tracks), begun: make([]int, tracks),
		backups:  map[string]backup{},
		database: databaseName, published: published{-1, -1}}
}

func (b *bounds) clone() *bounds {
	c := *b
	c.safe, c.acked, c.begun, c.backups = slices.Clone(b.safe), slices.Clone(b.acked),
		slices.Clone(b.begun), maps.Clone(b.backups)
	return &c
}

// note applies a mark.
func (b *bounds) note(note string) error {
	var verb, what string
	var n int
	if _, err := fmt.Sscan(note, &verb, &what, &n); err != nil {
		return fmt.Errorf("torture: mark %q: %w", note, err)
	}
	switch verb {
	case "backup", "copied":
		b.backups[what] = backup{n, verb == "copied"}
		return nil
	case "publish":
		b.published.upper = n
		return nil
	case "published":
		b.published.lower = n
		return nil
	case "restored":
		b.database, b.safe[0], b.acked[0], b.begun[0] = what, n, n, n
		return nil
	}
	var t int
	if _, err := fmt.Sscan(what, &t); err != nil || t >= len(b.begun) {
		return fmt.Errorf("torture: mark %q: no such track", note)
	}
	switch verb {
	case "begin", "undo":
		b.begun[t] = n
	case "ack":
		b.acked[t] = max(b.acked[t], n)
	case "safe":
		b.acked[t], b.safe[t] = max(b.acked[t], n), max(b.safe[t], n)
	default:
		return fmt.Errorf("torture: unknown mark %q", note)
	}
	return nil
}

// sum is equal for equal bounds.
func (b *bounds) sum() uint64 {
	return hashString(fmt.Sprint(b.safe, b.acked, b.begun, b.backups, b.database, b.published))
}
