package db

import (
	"context"
	"fmt"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fsck"
)

// A RepairReport lists the data that Repair saved and the data that is lost.
type RepairReport struct {
	Collections int       `json:"collections"`
	Documents   int       `json:"documents"` // in the new database
	Vectors     int       `json:"vectors"`   // documents with a vector
	Lost        []Lost    `json:"lost"`
	Problems    []Problem `json:"problems"`          // damage found on the way
	Version     uint64    `json:"version,omitempty"` // of a published folder; 0 for a database
}

// A Lost describes data that was stored once and is not in the new database.
type Lost struct {
	Collection string `json:"collection"`
	ID         string `json:"id,omitempty"` // empty if unknown; if DocNum is 0 too, Reason says how many
	DocNum     uint64 `json:"docnum,omitempty"`
	What       string `json:"what"` // "document", "text and metadata", "vector", or "definition" of a collection
	Reason     string `json:"reason"`
}

// String is one line for people.
func (l Lost) String() string {
	s := l.What
	switch {
	case l.ID != "" && l.What != "document":
		s += fmt.Sprintf(" of document %q", l.ID)
	case l.ID != "":
		s += fmt.Sprintf(" %q", l.ID)
	case l.DocNum != 0:
		s += fmt.Sprintf(" number %d", l.DocNum)
	case l.What == "document":
		s += "s"
	}
	if l.Collection != "" {
		s += fmt.Sprintf(" in collection %q", l.Collection)
	}
	return s + ": " + l.Reason
}

// Repair copies everything that is provably intact from the damaged database in src to a
// new database in dst, a directory that must be empty or not exist, and not lie in src. It
// becomes a database with the last step. src is not changed. Where pages of meta.bolt are
// damaged, or the disk cannot read them, Repair looks for records in all of its pages. An error
// means that the repair could not be done; nothing is in dst then. The report lists lost data, by
// id where the id is known.
//
// In a published folder, Repair saves the newest version whose meta.bolt opens. If no meta.bolt
// does, it takes the newest version and looks for records in its pages. The report lists the
// versions that are passed over.
//
// Derived data need no repair: an open database rebuilds it by itself.
func Repair(ctx context.Context, src, dst string) (*RepairReport, error) {
	found, err := fsck.Repair(ctx, src, dst, Options{}.withDefaults().settings())
	if err != nil {
		err = fmt.Errorf("db: repair %q: %w", src, engine.Translate(err))
	}
	r := &RepairReport{Collections: found.Collections, Documents: found.Documents, Vectors: found.Vectors,
		Lost: make([]Lost, len(found.Lost)), Problems: problems(found.Problems), Version: found.Version}
	for i, l := range found.Lost {
		r.Lost[i] = Lost(l)
	}
	return r, err
}
