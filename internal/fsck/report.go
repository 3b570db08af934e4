package fsck

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/vecbolt/vecbolt/internal/boltcheck"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// A Report counts the data that a check read and lists its problems.
type Report struct {
	Problems    []Problem
	Collections int
	Documents   int
	Segments    int

	hit map[Problem]int // documents that cannot be read, by the problem; 0 for one of another kind
}

// A Problem is one thing that a check found wrong.
type Problem struct {
	File   string // relative to the database directory
	Offset int64  // in bytes; -1 when it is not known
	Detail string
}

// A RepairReport lists the data that Repair saved and the data that is lost.
type RepairReport struct {
	Version     uint64 // of a published folder; 0 for a database
	Collections int
	Documents   int // in the new database
	Vectors     int // documents with a vector
	Lost        []Lost
	Problems    []Problem // damage found on the way
}

// A Lost describes data that was stored once and is not in the new database.
type Lost struct {
	Collection string
	ID         string // empty if unknown; if DocNum is 0 too, Reason says how many
	DocNum     uint64
	What       string // "document", "text and metadata", "vector", or "definition" of a collection
	Reason     string
}

// maxProblems bounds a report: a broken disk can yield any number of problems.
const maxProblems = 1000

// add adds a problem, once.
func (r *Report) add(p Problem) {
	if _, known := r.hit[p]; !known && len(r.Problems) < maxProblems {
		if r.hit == nil {
			r.hit = map[Problem]int{}
		}
		r.hit[p] = 0
		r.Problems = append(r.Problems, p)
	}
}

// document adds the problems of one document. A page may be in the way of many.
func (r *Report) document(err error) {
	for _, err := range flatten(err) {
		p := problemOf(err)
		r.add(p)
		if n, listed := r.hit[p]; listed && p.Offset >= 0 {
			r.hit[p] = n + 1
		}
	}
}

// tell adds the number of documents to each place that is in the way of some.
func (r *Report) tell() {
	for i, p := range r.Problems {
		if n := r.hit[p]; n > 0 {
			r.Problems[i].Detail += fmt.Sprintf("; documents that cannot be read: %d", n)
		}
	}
}

// problem adds an error. Joined errors become a problem each.
func (r *Report) problem(err error) {
	for _, err := range flatten(err) {
		r.add(problemOf(err))
	}
}

// problem notes damage and lets the repair go on.
func (r *RepairReport) problem(err error) {
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, problemOf(err))
	}
}

// lose notes data that cannot be saved.
func (r *RepairReport) lose(l Lost) { r.Lost = append(r.Lost, l) }

// problemOf describes an error, with file and offset where it has them.
func problemOf(err error) Problem {
	var (
		corrupt *fileformat.CorruptError
		version *engine.VersionError
		other   *vfs.NotRegularError
		unread  *boltcheck.ReadError
		at      *fs.PathError
	)
	p := Problem{File: engine.MetaName, Offset: -1, Detail: err.Error()}
	if errors.As(err, &version) {
		p.File, p.Detail = engine.ManifestName(version.Number), version.Err.Error()
	}
	if errors.As(engine.Translate(err), &corrupt) {
		p = Problem{File: corrupt.File, Offset: corrupt.Offset, Detail: corrupt.Err.Error()}
	} else if errors.As(err, &other) {
		p.File, p.Detail = other.Name, other.Reason()
	} else if errors.As(err, &unread) {
		p.Offset = unread.Offset
	} else if errors.As(err, &at) && fs.ValidPath(at.Path) {
		p.File = at.Path
	}
	if version != nil {
		p.Detail = fmt.Sprintf("version %d: %s", version.Number, p.Detail)
	}
	return p
}

// passedOver describes why a version of a published folder was passed over for an older one.
func passedOver(err error, taken uint64) Problem {
	p := problemOf(err)
	p.Detail += fmt.Sprintf("; version %d is examined instead", taken)
	return p
}

// recordProblem describes damage in meta.bolt. bucket and key are empty and offset is -1 where they
// do not apply.
func recordProblem(file string, offset int64, bucket, key, detail string) Problem {
	if where := strings.TrimSpace(bucket + " " + key); where != "" {
		detail = where + ": " + detail
	}
	return Problem{File: file, Offset: offset, Detail: detail}
}

// flatten takes joined errors apart.
func flatten(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, e := range joined.Unwrap() {
			all = append(all, flatten(e)...)
		}
		return all
	}
	return []error{err}
}
