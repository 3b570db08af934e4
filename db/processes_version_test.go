//go:build linux || darwin

package db

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/share"
)

// ofVersion gives the frame of a Hello or Welcome another version. long adds fields that this
// version does not know.
func ofVersion(t *testing.T, m share.Message, version uint32, long bool) []byte {
	t.Helper()
	b, err := share.Append(nil, m)
	if err != nil {
		t.Fatal(err)
	}
	if long {
		b = append(b, "and more"...)
	}
	const sum = 5 // offset of the checksum
	binary.LittleEndian.PutUint32(b, uint32(len(b)-frameHeader))
	binary.LittleEndian.PutUint32(b[frameHeader:], version)
	binary.LittleEndian.PutUint32(b[sum:], codec.CRC(b[:sum], b[frameHeader:]))
	return b
}

// An otherLeader leads a database with another version of the protocol.
type otherLeader struct {
	t        *testing.T
	version  uint32
	welcomes bool // instead of refusing: no version does that
	listener *net.UnixListener
	end      func()
	ended    chan struct{}
}

// lead takes the lock and the socket of a database.
func (s *otherLeader) lead(dir string) error {
	lock, err := inDir(s.t, dir).Lock(engine.LockName, true)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, engine.SocketName)
	s.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return errors.Join(err, lock.Close())
	}
	s.ended = make(chan struct{})
	go s.serve()
	s.end = func() {
		if s.listener.Close() == nil {
			<-s.ended
			if err := lock.Close(); err != nil {
				s.t.Error(err)
			}
		}
	}
	s.t.Cleanup(s.end)
	return nil
}

func (s *otherLeader) serve() {
	defer close(s.ended)
	for {
		conn, err := s.listener.AcceptUnix()
		if err != nil {
			return
		}
		m, err := share.Read(conn)
		if _, hello := m.(share.Hello); !hello {
			s.t.Errorf("%T instead of Hello: %v", m, err)
		}
		answer, err := share.Append(nil, share.Refused{
			Err: fmt.Errorf("hello: %w: protocol %d, this program has %d", ErrVersion, share.Version, s.version)})
		if err != nil {
			s.t.Error(err)
		}
		if s.welcomes {
			answer = ofVersion(s.t, share.Welcome{Version: share.Version, DB: [16]byte{1}}, s.version, true)
		}
		_, _ = conn.Write(answer) // the other end may be closed
		conn.Close()
	}
}

// isOfVersions fails the test unless an error names both versions of the protocol.
func isOfVersions(t *testing.T, err error, version uint32, want ...error) {
	t.Helper()
	for _, want := range append(want, ErrVersion) {
		if !errors.Is(err, want) {
			t.Errorf("%v is not %q", err, want)
		}
	}
	for _, v := range []uint32{share.Version, version} {
		if err != nil && !strings.Contains(err.Error(), fmt.Sprint(v)) {
			t.Errorf("%v does not name version %d", err, v)
		}
	}
}

// otherVersions are those before and after this one, and one far away.
var otherVersions = []uint32{share.Version - 1, share.Version + 1, 1 << 31}

// TestLeaderOfAnotherVersion opens a database beside a leader that has another version of the
// protocol. The error says so, and when that leader has ended the database opens.
func TestLeaderOfAnotherVersion(t *testing.T) {
	bounded(t)
	for _, version := range otherVersions {
		for _, welcomes := range []bool{false, true} {
			for _, readOnly := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d, welcomes %v, read-only %v", version, welcomes, readOnly), func(t *testing.T) {
					dir := filepath.Join(shortDir(t), "db")
					vdb := open(t, dir, nil)
					upsert(t, collection(t, vdb, "c", Schema{}), Document{ID: "a"})
					s := &otherLeader{t: t, version: version, welcomes: welcomes}
					if err := errors.Join(vdb.Close(), s.lead(dir)); err != nil {
						t.Fatal(err)
					}
					_, err := Open(dir, &Options{ReadOnly: readOnly})
					isOfVersions(t, err, version, ErrLocked)
					s.end()
					if n, err := existing(t, open(t, dir, &Options{ReadOnly: readOnly}), "c").Count(t.Context(), nil); err != nil || n != 1 {
						t.Errorf("when it has ended: %d documents, %v", n, err)
					}
				})
			}
		}
	}
}

// TestReaderBesideAnotherVersion: a process that only reads was there before a leader that has
// another version of the protocol. It reads on, and Barrier says why it cannot see what that one
// writes, until it has ended.
func TestReaderBesideAnotherVersion(t *testing.T) {
	bounded(t)
	for _, version := range otherVersions {
		dir := filepath.Join(shortDir(t), "db")
		vdb := open(t, dir, nil)
		upsert(t, collection(t, vdb, "c", Schema{}), Document{ID: "a"})
		if err := vdb.Close(); err != nil {
			t.Fatal(err)
		}
		reader := open(t, dir, &Options{ReadOnly: true})
		s := &otherLeader{t: t, version: version}
		if err := s.lead(dir); err != nil {
			t.Fatal(err)
		}
		isOfVersions(t, reader.Barrier(t.Context()), version, ErrLocked)
		if n, err := existing(t, reader, "c").Count(t.Context(), nil); err != nil || n != 1 {
			t.Errorf("%d documents, %v", n, err)
		}
		s.end()
		if err := reader.Barrier(t.Context()); err != nil {
			t.Error("it has ended:", err)
		}
	}
}

// TestFollowerOfAnotherVersion connects to a leader with another version of the protocol. It is
// refused in words that every version reads, and the leader goes on.
func TestFollowerOfAnotherVersion(t *testing.T) {
	bounded(t)
	dir := filepath.Join(shortDir(t), "db")
	vdb := open(t, dir, nil)
	docs := collection(t, vdb, "c", Schema{})
	for i, version := range otherVersions {
		for _, long := range []bool{false, true} {
			conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: filepath.Join(dir, engine.SocketName), Net: "unix"})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			hello := ofVersion(t, share.Hello{Version: share.Version, Writer: [16]byte{1}}, version, long)
			if _, err := conn.Write(hello); err != nil {
				t.Fatal(err)
			}
			m, err := share.Read(conn)
			refused, ok := m.(share.Refused)
			if !ok {
				t.Fatalf("%T, %v", m, err)
			}
			isOfVersions(t, refused.Err, version)
			if m, err := share.Read(conn); err == nil {
				t.Errorf("%T after that", m)
			}
			upsert(t, docs, Document{ID: fmt.Sprint(i, long)})
		}
	}
	if list, err := vdb.Processes(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	upsert(t, existing(t, open(t, dir, nil), "c"), Document{ID: "of this version"})
}

// TestNextLeaderOfAnotherVersion: the process that leads after the end of the leader has another
// version of the protocol. Reads go on, a write gets an error that says so, and when that process
// has ended this one leads.
func TestNextLeaderOfAnotherVersion(t *testing.T) {
	bounded(t)
	for _, version := range otherVersions[:2] {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			dir := filepath.Join(shortDir(t), "db")
			first := open(t, dir, nil)
			upsert(t, collection(t, first, "c", Schema{}), Document{ID: "a"})
			s := &otherLeader{t: t, version: version}
			var failed error
			vdb := open(t, dir, &Options{Logger: slog.New(onMessage{slog.DiscardHandler, "the leader has ended", func() {
				failed = s.lead(dir)
			}})})
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			docs := existing(t, vdb, "c")
			_, err := docs.Insert(t.Context(), Document{ID: "b"})
			isOfVersions(t, err, version, ErrLocked)
			if failed != nil {
				t.Fatal(failed)
			}
			if errors.Is(err, ErrUnknown) {
				t.Error("nothing was sent: ", err)
			}
			if _, err := docs.Get(t.Context(), "a", WithText); err != nil {
				t.Error(err)
			}
			s.end()
			if _, err := docs.Insert(t.Context(), Document{ID: "b"}); err != nil || !vdb.engine.Leads() {
				t.Error("the other one has ended: ", err)
			}
			check(t, vdb)
		})
	}
}
