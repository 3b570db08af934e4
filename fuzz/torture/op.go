package torture

import (
	"bufio"
	"fmt"
	"io"
)

// A Kind is the type of an Op. The numbers are stored in saved recordings.
type Kind uint8

// The kinds of operations. Marks report the progress of a workload.
const (
	Write    Kind = 1
	Truncate Kind = 2
	Sync     Kind = 3
	Create   Kind = 4
	Mkdir    Kind = 5
	Remove   Kind = 6
	Rename   Kind = 7
	SyncDir  Kind = 8
	Mark     Kind = 9
	Allocate Kind = 10 // reserves space
	Read     Kind = 11 // Read and Open are recorded on demand: they change nothing
	Open     Kind = 12
	Link     Kind = 13
	Exchange Kind = 14 // of two names
)

var kindNames = [...]string{"", "write", "truncate", "sync", "create", "mkdir", "remove", "rename",
	"syncdir", "mark", "allocate", "read", "open", "link", "exchange"}

// String returns the lower-case name.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind%d", uint8(k))
}

// An Op is one recorded operation. Files and directories have numbers, which are never reused.
type Op struct {
	Kind        Kind
	Failed      bool   // it returned an error and, except for the bytes of a failed Sync, had no effect
	Short       bool   // of a Write: only a part was written, and the result says so
	Full        bool   // with Failed: no space left
	Interrupted bool   // with Failed: by a signal; nothing was done, it can be repeated
	Ino         uint64 // the file of an operation on a file or of a Link; the result of Create and Mkdir
	Ino2        uint64 // of an Exchange that is replayed: what gets the name Name
	Dir, Dir2   uint64 // the directory; the directory of the other name of a Rename or Exchange
	Name, Name2 string
	Off, Len    int64  // of a Write; Off is the new size of a Truncate
	Data        []byte // of a Write; nil for zeros
	Note        string // of a Mark
}

// String describes the operation in one line.
func (o Op) String() string {
	failed := ""
	if o.Failed {
		failed = " FAILED"
	}
	switch o.Kind {
	case Write:
		zeros := ""
		if o.Data == nil {
			zeros = " zeros"
		}
		return fmt.Sprintf("write #%d at %d: %d%s%s", o.Ino, o.Off, o.Len, zeros, failed)
	case Truncate:
		return fmt.Sprintf("truncate #%d to %d%s", o.Ino, o.Off, failed)
	case Sync:
		return fmt.Sprintf("sync #%d%s", o.Ino, failed)
	case Create, Mkdir, Link:
		return fmt.Sprintf("%s %q in #%d: #%d%s", o.Kind, o.Name, o.Dir, o.Ino, failed)
	case Remove:
		return fmt.Sprintf("remove %q in #%d%s", o.Name, o.Dir, failed)
	case Rename:
		return fmt.Sprintf("rename %q in #%d to %q in #%d%s", o.Name, o.Dir, o.Name2, o.Dir2, failed)
	case Exchange:
		return fmt.Sprintf("exchange %q in #%d and %q in #%d%s", o.Name, o.Dir, o.Name2, o.Dir2, failed)
	case SyncDir:
		return fmt.Sprintf("syncdir #%d%s", o.Dir, failed)
	case Allocate, Read, Open:
		return fmt.Sprintf("%s #%d%s", o.Kind, o.Ino, failed)
	}
	return fmt.Sprintf("%s %s", o.Kind, o.Note)
}

// writeLog writes one line per operation.
func writeLog(w io.Writer, ops []Op) error {
	b := bufio.NewWriter(w)
	for i, op := range ops {
		fmt.Fprintf(b, "%6d %s\n", i, op)
	}
	return b.Flush()
}
