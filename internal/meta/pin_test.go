package meta

import (
	"errors"
	"runtime"
	"syscall"
	"testing"

	"github.com/vecbolt/vecbolt/internal/boltcheck"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

func mustShare(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("processes do not share a file that bbolt has locked")
	}
}

// TestForgetBesidePins: while roots are pinned, a commit that found no room counts as undone only
// if bbolt goes on from the root in the file, with its list of free pages.
func TestForgetBesidePins(t *testing.T) {
	mustShare(t)
	s := open(t, newFS(t, nil), Options{Create: true, DB: identity, Shared: true})
	put := func(n uint64) {
		t.Helper()
		update(t, s, func(tx *Tx) error { return tx.PutDocument(1, n, make([]byte, 9000)) })
	}
	update(t, s, func(tx *Tx) error { return tx.PutCollection(1, "c", nil) })
	put(1)
	_, unpin, err := s.Pin()
	if err != nil {
		t.Fatal(err)
	}
	for n := range uint64(5) {
		put(n)
	}
	st, err := s.file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	roots, newest, err := boltcheck.Roots(s.file, st.Size())
	if err != nil {
		t.Fatal(err)
	}
	now, before := roots[newest], roots[1-newest]
	other := now
	other.Freelist = before.Freelist
	s.writing.Lock()
	switch {
	case !s.isAt(now):
		t.Error("bbolt is not at the newest root")
	case s.isAt(before):
		t.Error("bbolt is at the older root")
	case s.isAt(other):
		t.Error("bbolt has other free pages than the file")
	case !s.forget(now.TxID + 1):
		t.Error("a commit that has left nothing in the file is not undone")
	case s.forget(now.TxID):
		t.Error("a commit that is in the file is undone")
	}
	s.writing.Unlock()
	if s.Pinned() != 1 {
		t.Errorf("%d pins", s.Pinned())
	}
	put(6)
	if unpin(); s.Pinned() != 0 {
		t.Errorf("%d pins", s.Pinned())
	}
	put(7)
	if st, err = s.file.Stat(); err == nil {
		err = boltcheck.Check(s.file, st.Size())
	}
	if err != nil {
		t.Error(err)
	}
}

// TestRewriteFailsBesidePins: a copy that cannot take the place of the file changes nothing, and if
// roots were pinned, which is over, no commit may reuse their pages.
func TestRewriteFailsBesidePins(t *testing.T) {
	mustShare(t)
	for _, pinned := range []bool{false, true} {
		broken := false
		s := open(t, newFS(t, func(op vfs.Op) error {
			if broken && op.Kind == vfs.OpRename {
				return syscall.EMFILE
			}
			return nil
		}), Options{Create: true, DB: identity, Shared: true})
		update(t, s, func(tx *Tx) error { return tx.PutCollection(1, "c", nil) })
		if pinned {
			if _, _, err := s.Pin(); err != nil {
				t.Fatal(err)
			}
		}
		broken = true
		if err := s.Rewrite(); !errors.Is(err, syscall.EMFILE) {
			t.Fatal(err)
		}
		broken = false
		err := s.Update(func(tx *Tx) error { return tx.PutDocument(1, 1, nil) })
		if s.Usable() == pinned || errors.Is(err, syscall.EMFILE) != pinned || !pinned && err != nil {
			t.Errorf("pinned %v: usable %v, %v", pinned, s.Usable(), err)
		}
	}
}
