package share

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// A Message is one of the structs of this file: Hello, Release, WriteOps, Exclusive, Deciding,
// Decided, Call, Cancel and Outcome of a follower, Bye of both, all others of the leader.
type Message interface {
	kind() uint8
	encode(e *codec.Encoder) error
}

// A Process is one of those that share a database. Its strings have 64 bytes at most, without
// control characters; Append cuts longer ones.
type Process struct {
	PID     int
	Program string    // its name, without directory and arguments
	Since   time.Time // when it opened the database; UTC after Read, and zero if it is not known
	Role    string
	Version string // of the program
}

// Hello is the first message of a follower.
type Hello struct {
	Version  uint32 // Version; Read refuses others
	Process  Process
	ReadOnly bool
	Writer   [16]byte // random, the same over all connections of a process; not zero
	// SyncWithin is from the options of the process: see leader.write.
	SyncWithin time.Duration
}

// Welcome answers a Hello. The records Applied+1 to LSN follow, as Records.
type Welcome struct {
	Version uint32   // Version; Read refuses others
	DB      [16]byte // identity of the database
	Process Process  // the leader
	Root    uint64   // transaction of meta.bolt that the follower begins with
	Applied uint64   // last record in it
	LSN     uint64   // last record acknowledged
}

// Refused answers a Hello instead, and ends the connection.
type Refused struct{ Err error }

// Records are consecutive records of the log. What Read returns shares memory with the frame.
type Records struct {
	First    uint64   // LSN of the first one
	Records  [][]byte // as engine.EncodeRecord makes them, one at least
	Replaced [][]byte // of each record, see engine.Record; nil if the leader has not looked it up
}

// Root says that meta.bolt has a new root.
type Root struct {
	Tx      uint64 // its transaction
	Applied uint64 // the last record in it
}

// Derived says that derived files were made.
type Derived struct{}

// Frozen says that the leader has frozen its head after a record. The next root with more records
// than the present one ends with it.
type Frozen struct{ LSN uint64 }

// Release says that the follower no longer reads files of a root.
type Release struct{ Tx uint64 }

// WriteOps asks the leader to apply puts and deletes, all or none.
//
// An op crosses as it was before resolve: without Num, and without the collection's name if it is
// bound. The documents of decoded ops share one copy of their own, because the head keeps them;
// vectors may share memory with the frame, which lives as long as one of them, and must not be
// written to.
type WriteOps struct {
	Request uint64
	Ops     []engine.Op
	Size    int // bytes of documents, vectors and deleted ids, as db counts a batch; Read computes it
}

// Exclusive asks for the commit queue of the leader.
type Exclusive struct{ Request uint64 }

// Grant gives it: nobody writes until Decided.
type Grant struct {
	Request uint64
	LSN     uint64 // the last record; the decision is made on the version with it
}

// Decided ends an exclusive request: puts and deletes, or one definition or drop alone. See
// WriteOps for the memory of ops.
type Decided struct {
	Request uint64
	Ops     []engine.Op
	Err     bool // the decision failed: write nothing
}

// Call asks the leader to do something, or for something: CallFlush and so on.
type Call struct {
	Request uint64
	Kind    uint8
}

// Cancel says that nobody waits for the result of a request. It may be too late.
type Cancel struct{ Request uint64 }

// Deciding says that the follower still decides: all writers wait for its Decided.
type Deciding struct{}

// Outcome asks for the effect of a write that the follower sent over an earlier connection: its LSN
// and Deleted in the Result, LSN 0 if it was not applied and never will be, or an error that
// matches engine.ErrUnknown.
type Outcome struct {
	Request uint64 // number of this message
	Of      uint64 // number of the write
	Seen    uint64 // the newest record that the follower had when it sent the write
}

// Result answers WriteOps, Decided, Call and Outcome.
type Result struct {
	Request   uint64
	LSN       uint64 // of an Outcome
	Deleted   int    // documents that deletes removed
	Err       error
	Processes []Process // of CallProcesses
}

// Bye of a leader says that it closes: requests without a Result were not applied. Bye of a
// follower says that it closes, and reads nothing any more.
type Bye struct{}

// A kind is what Read and Append need of a kind of messages.
type kind struct {
	name   string
	limit  int // bytes of the payload
	decode func(*codec.Decoder) Message
}

// kinds holds every kind by its number.
var kinds = [...]kind{
	kindHello:     {"hello", smallPayload, decodeHello},
	kindWelcome:   {"welcome", smallPayload, decodeWelcome},
	kindRefused:   {"refused", middlePayload, decodeRefused},
	kindRecords:   {"records", largePayload, decodeRecords},
	kindRoot:      {"root", smallPayload, decodeRoot},
	kindDerived:   {"derived", smallPayload, func(*codec.Decoder) Message { return Derived{} }},
	kindRelease:   {"release", smallPayload, func(d *codec.Decoder) Message { return Release{d.U64()} }},
	kindWriteOps:  {"write", largePayload, decodeWriteOps},
	kindExclusive: {"exclusive", smallPayload, func(d *codec.Decoder) Message { return Exclusive{d.U64()} }},
	kindGrant:     {"grant", smallPayload, func(d *codec.Decoder) Message { return Grant{d.U64(), d.U64()} }},
	kindDecided:   {"decided", largePayload, decodeDecided},
	kindCall:      {"call", smallPayload, decodeCall},
	kindCancel:    {"cancel", smallPayload, func(d *codec.Decoder) Message { return Cancel{d.U64()} }},
	kindResult:    {"result", middlePayload, decodeResult},
	kindBye:       {"bye", smallPayload, func(*codec.Decoder) Message { return Bye{} }},
	kindOutcome:   {"outcome", smallPayload, decodeOutcome},
	kindFrozen:    {"frozen", smallPayload, func(d *codec.Decoder) Message { return Frozen{d.U64()} }},
	kindDeciding:  {"deciding", smallPayload, func(*codec.Decoder) Message { return Deciding{} }},
}

func (Hello) kind() uint8     { return kindHello }
func (Welcome) kind() uint8   { return kindWelcome }
func (Refused) kind() uint8   { return kindRefused }
func (Records) kind() uint8   { return kindRecords }
func (Root) kind() uint8      { return kindRoot }
func (Derived) kind() uint8   { return kindDerived }
func (Release) kind() uint8   { return kindRelease }
func (WriteOps) kind() uint8  { return kindWriteOps }
func (Exclusive) kind() uint8 { return kindExclusive }
func (Grant) kind() uint8     { return kindGrant }
func (Decided) kind() uint8   { return kindDecided }
func (Call) kind() uint8      { return kindCall }
func (Cancel) kind() uint8    { return kindCancel }
func (Result) kind() uint8    { return kindResult }
func (Bye) kind() uint8       { return kindBye }
func (Outcome) kind() uint8   { return kindOutcome }
func (Frozen) kind() uint8    { return kindFrozen }
func (Deciding) kind() uint8  { return kindDeciding }

func (m Hello) encode(e *codec.Encoder) error {
	e.U32(m.Version)
	encodeBool(e, m.ReadOnly)
	e.Raw(m.Writer[:])
	e.U64(uint64(m.SyncWithin))
	return errors.Join(checkWriter(m.Writer), checkSyncWithin(m.SyncWithin), m.Process.encode(e))
}

func decodeHello(d *codec.Decoder) Message {
	m := Hello{Version: decodeVersion(d, "the process that follows", "the one that leads")}
	m.ReadOnly = decodeBool(d)
	copy(m.Writer[:], d.Raw(len(m.Writer)))
	if d.Err() == nil {
		d.Fail(checkWriter(m.Writer))
	}
	m.SyncWithin = time.Duration(d.U64())
	if d.Err() == nil {
		d.Fail(checkSyncWithin(m.SyncWithin))
	}
	m.Process = decodeProcess(d)
	return m
}

func checkSyncWithin(t time.Duration) error {
	if t < 0 {
		return errors.New("a time beyond 2^63-1 ns")
	}
	return nil
}

func checkWriter(w [16]byte) error {
	if w == [16]byte{} {
		return errors.New("a process without a number of its own")
	}
	return nil
}

func (m Welcome) encode(e *codec.Encoder) error {
	e.U32(m.Version)
	e.Raw(m.DB[:])
	e.U64(m.Root)
	e.U64(m.Applied)
	e.U64(m.LSN)
	if m.Applied > m.LSN {
		return fmt.Errorf("record %d is applied, and %d is the last one", m.Applied, m.LSN)
	}
	return m.Process.encode(e)
}

func decodeWelcome(d *codec.Decoder) Message {
	m := Welcome{Version: decodeVersion(d, "the process that leads", "this one")}
	copy(m.DB[:], d.Raw(len(m.DB)))
	m.Root, m.Applied, m.LSN = d.U64(), d.U64(), d.U64()
	if m.Applied > m.LSN {
		d.Fail(fmt.Errorf("record %d is applied, and %d is the last one", m.Applied, m.LSN))
	}
	m.Process = decodeProcess(d)
	return m
}

func (m Refused) encode(e *codec.Encoder) error {
	if m.Err == nil {
		return fmt.Errorf("no reason is given")
	}
	encodeError(e, m.Err, 0)
	return nil
}

func decodeRefused(d *codec.Decoder) Message { return Refused{decodeError(d, 0)} }

func (m Records) encode(e *codec.Encoder) error {
	resolved := m.Replaced != nil
	if resolved && len(m.Replaced) != len(m.Records) {
		return fmt.Errorf("%d records replace something, of %d", len(m.Replaced), len(m.Records))
	}
	size := 32
	for i, r := range m.Records {
		size += len(r) + 2*binary.MaxVarintLen32
		if resolved {
			size += len(m.Replaced[i])
		}
	}
	e.B = slices.Grow(e.B, size)
	e.U64(m.First)
	encodeBool(e, resolved)
	e.Uvarint(uint64(len(m.Records)))
	for i, r := range m.Records {
		if len(r) == 0 {
			return fmt.Errorf("an empty record")
		}
		e.Bytes(r)
		if !resolved {
			continue
		}
		if err := checkReplaced(m.Replaced[i]); err != nil {
			return err
		}
		e.Bytes(m.Replaced[i])
	}
	return checkRecords(m.First, len(m.Records))
}

// checkReplaced checks that b has whole numbers.
func checkReplaced(b []byte) error {
	d := codec.NewDecoder(b)
	for d.Len() > 0 {
		d.Uvarint()
	}
	return d.Err()
}

func decodeRecords(d *codec.Decoder) Message {
	m := Records{First: d.U64()}
	resolved := decodeBool(d)
	n := d.Count(2) // a length, and a byte at least
	d.Fail(checkRecords(m.First, n))
	if d.Err() == nil {
		n := capacity(n, d.Len())
		both := make([][]byte, 2*n)
		m.Records = both[:0:n]
		if resolved {
			m.Replaced = both[n:n]
		}
	}
	for range n {
		r, replaced := d.Bytes(), []byte(nil)
		if len(r) == 0 {
			d.Fail(fmt.Errorf("an empty record"))
		}
		if resolved {
			replaced = d.Bytes()
			d.Fail(checkReplaced(replaced))
		}
		if d.Err() != nil {
			break
		}
		m.Records = append(m.Records, r)
		if resolved {
			m.Replaced = append(m.Replaced, replaced)
		}
	}
	return m
}

// checkRecords checks the numbers of n records.
func checkRecords(first uint64, n int) error {
	if n == 0 || first == 0 || first > math.MaxUint64-uint64(n) {
		return fmt.Errorf("%d records from %d", n, first)
	}
	return nil
}

func (m Root) encode(e *codec.Encoder) error {
	e.U64(m.Tx)
	e.U64(m.Applied)
	return nil
}

func decodeRoot(d *codec.Decoder) Message { return Root{d.U64(), d.U64()} }

func (Derived) encode(*codec.Encoder) error { return nil }

func (Deciding) encode(*codec.Encoder) error { return nil }

func (m Frozen) encode(e *codec.Encoder) error {
	e.U64(m.LSN)
	return nil
}

func (m Release) encode(e *codec.Encoder) error {
	e.U64(m.Tx)
	return nil
}

func (m WriteOps) encode(e *codec.Encoder) error {
	e.U64(m.Request)
	return encodeOps(e, m.Ops, false)
}

func decodeWriteOps(d *codec.Decoder) Message {
	m := WriteOps{Request: d.U64()}
	m.Ops, m.Size = decodeOps(d, false)
	return m
}

func (m Exclusive) encode(e *codec.Encoder) error {
	e.U64(m.Request)
	return nil
}

func (m Grant) encode(e *codec.Encoder) error {
	e.U64(m.Request)
	e.U64(m.LSN)
	return nil
}

func (m Decided) encode(e *codec.Encoder) error {
	e.U64(m.Request)
	if err := encodeOps(e, m.Ops, true); err != nil {
		return err
	}
	encodeBool(e, m.Err)
	return checkDecided(m)
}

func decodeDecided(d *codec.Decoder) Message {
	m := Decided{Request: d.U64()}
	m.Ops, _ = decodeOps(d, true)
	m.Err = decodeBool(d)
	d.Fail(checkDecided(m))
	return m
}

func checkDecided(m Decided) error {
	if m.Err && len(m.Ops) > 0 {
		return fmt.Errorf("%d writes of a failed decision", len(m.Ops))
	}
	return nil
}

func (m Call) encode(e *codec.Encoder) error {
	e.U64(m.Request)
	e.U8(m.Kind)
	return checkCall(m.Kind)
}

func decodeCall(d *codec.Decoder) Message {
	m := Call{d.U64(), d.U8()}
	d.Fail(checkCall(m.Kind))
	return m
}

func checkCall(kind uint8) error {
	if kind < CallFlush || kind > CallCheckLog {
		return fmt.Errorf("call %d", kind)
	}
	return nil
}

func (m Cancel) encode(e *codec.Encoder) error {
	e.U64(m.Request)
	return nil
}

func (m Result) encode(e *codec.Encoder) error {
	if m.Deleted < 0 || len(m.Processes) > maxProcesses {
		return fmt.Errorf("%d deleted, %d processes", m.Deleted, len(m.Processes))
	}
	e.U64(m.Request)
	e.U64(m.LSN)
	e.Uvarint(uint64(m.Deleted))
	encodeBool(e, m.Err != nil)
	if m.Err != nil {
		encodeError(e, m.Err, 0)
	}
	e.Uvarint(uint64(len(m.Processes)))
	for _, p := range m.Processes {
		if err := p.encode(e); err != nil {
			return err
		}
	}
	return nil
}

func decodeResult(d *codec.Decoder) Message {
	m := Result{Request: d.U64(), LSN: d.U64(), Deleted: decodeInt(d)}
	if decodeBool(d) {
		m.Err = decodeError(d, 0)
	}
	n := d.Count(minProcess)
	if n > maxProcesses {
		d.Fail(fmt.Errorf("%d processes", n))
	}
	for range n {
		if d.Err() != nil {
			break
		}
		m.Processes = append(m.Processes, decodeProcess(d))
	}
	return m
}

func (Bye) encode(*codec.Encoder) error { return nil }

func (m Outcome) encode(e *codec.Encoder) error {
	e.U64(m.Request)
	e.U64(m.Of)
	e.U64(m.Seen)
	return nil
}

func decodeOutcome(d *codec.Decoder) Message { return Outcome{d.U64(), d.U64(), d.U64()} }

// decodeVersion reads the version of the protocol, whose place is the same in all of them. there
// and here are the parts of the process that has sent the message and of this one.
func decodeVersion(d *codec.Decoder, there, here string) uint32 {
	v := d.U32()
	if d.Err() == nil && v != Version {
		d.Fail(fmt.Errorf("%w of the protocol: %s has %d, %s has %d", fileformat.ErrVersion, there, v, here, Version))
	}
	return v
}

// minProcess is the size of the smallest process: numbers and three empty strings.
const minProcess = 4 + 8 + 3

func (p Process) encode(e *codec.Encoder) error {
	if p.PID < 0 || p.PID > math.MaxUint32 {
		return fmt.Errorf("process id %d", p.PID)
	}
	since := int64(0)
	if !p.Since.IsZero() {
		if since = p.Since.UnixNano(); !time.Unix(0, since).Equal(p.Since) {
			return fmt.Errorf("process %d: time %v is out of range", p.PID, p.Since)
		}
	}
	e.U32(uint32(p.PID))
	e.U64(uint64(since))
	e.String(vfs.Printable(p.Program, maxString))
	e.String(vfs.Printable(p.Role, maxString))
	e.String(vfs.Printable(p.Version, maxString))
	return nil
}

func decodeProcess(d *codec.Decoder) Process {
	p := Process{PID: int(d.U32())}
	if since := int64(d.U64()); since != 0 {
		p.Since = time.Unix(0, since).UTC()
	}
	for _, s := range []*string{&p.Program, &p.Role, &p.Version} {
		b := d.Bytes()
		if len(b) > maxString {
			d.Fail(fmt.Errorf("string of %d bytes, the limit is %d", len(b), maxString))
			return p
		}
		if *s = string(b); vfs.Printable(*s, maxString) != *s {
			d.Fail(fmt.Errorf("string %q holds what cannot be shown", *s))
		}
	}
	return p
}

// capacity returns for how many of n elements to reserve memory, when size bytes were sent for
// them. A false n is found before it costs much more than these bytes.
func capacity(n, size int) int { return min(n, 64+size/32) }
