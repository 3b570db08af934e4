package meta

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/internal/boltcheck"
	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// sealed returns a closed store of several levels with page checksums, and its content.
func sealed(t *testing.T) (s *Store, content []string) {
	t.Helper()
	s = small(t)
	for round := range 2 {
		update(t, s, func(tx *Tx) error {
			for i := range 150 {
				doc, id := uint64(1000+150*round+i), fmt.Sprintf("%03d %s", (i*37+round)%150, strings.Repeat("k", 200))
				text := strings.Repeat("text ", 20)
				if i == 70 {
					text = strings.Repeat("long ", 3000) // overflow pages
				}
				old, had, err := tx.ID(1, id)
				if had {
					err = errors.Join(err, tx.DeleteDocument(1, old))
				}
				if err := errors.Join(err, tx.PutDocument(1, doc, []byte(text)), tx.PutID(1, id, doc)); err != nil {
					return err
				}
			}
			st, err := tx.State()
			if err != nil {
				return err
			}
			st.NextDoc = 2000
			return tx.SetState(st)
		})
	}
	content, err := dump(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Seal(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return s, content
}

// pointReads looks up every record one by one, in the order of dump.
func pointReads(s *Store, content []string) error {
	return s.View(func(tx *Tx) error {
		err := tx.IDs(1, "", true, func(id string, doc uint64) (bool, error) {
			got, ok, err := tx.ID(1, id)
			if err == nil && (!ok || got != doc) {
				err = errors.New("an id is lost")
			}
			if err == nil {
				_, _, err = tx.Document(1, doc)
			}
			if err == nil {
				_, _, err = tx.History(1, id, 0)
			}
			return true, err
		})
		if err == nil {
			_, _, err = tx.ID(1, "no such id")
		}
		return err
	})
}

// TestSealedByte flips bits of every byte of a sealed file. Without verification of the whole file,
// a read returns an error or the written value, whether bbolt iterates or looks up.
func TestSealedByte(t *testing.T) {
	s, want := sealed(t)
	good := fileOf(t, s)
	roots, newest, err := boltcheck.Roots(bytes.NewReader(good), int64(len(good)))
	if err != nil {
		t.Fatal(err)
	}
	step := 211
	if *everyByte {
		step = 1
	}
	f, err := os.OpenFile(filepath.Join(s.fs.Dir(), s.name), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var refused, failed, harmless int
	for at := 0; at < int(roots[newest].Pages)*boltcheck.PageSize; at += step {
		bad := []byte{good[at] ^ 1<<(at%8)}
		if at%3 == 0 {
			bad[0] = ^good[at]
		}
		if _, err := f.WriteAt(bad, int64(at)); err != nil {
			t.Fatal(err)
		}
		again, err := Open(s.fs, name, Options{ReadOnly: at%2 == 0})
		if err != nil {
			wantCorrupt(t, "Open", err)
			refused++
		} else {
			got, err := dump(again)
			err = errors.Join(err, pointReads(again, want))
			switch {
			case err != nil:
				wantCorrupt(t, "read", err)
				failed++
			case !slices.Equal(got, want):
				t.Errorf("offset %d: silently wrong: %s", at, cmp.Diff(want, got))
			default:
				harmless++
			}
			if len(problemsOf(t, again)) == 0 && err != nil {
				t.Errorf("offset %d: %v, and Check finds nothing", at, err)
			}
			again.Close()
		}
		if _, err := f.WriteAt(good[at:at+1], int64(at)); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d refused, %d errors when read, %d harmless", refused, failed, harmless)
	if failed < 10*refused || failed < 100 {
		t.Error("too few were looked at")
	}
}

// Only the pages read are verified: a damaged page does not withhold the others. A change refuses
// to build on it.
func TestSealedPageIsComparedOnce(t *testing.T) {
	s, _ := sealed(t)
	good := fileOf(t, s)
	key := []byte("149 " + strings.Repeat("k", 200))
	at := bytes.LastIndex(good, key)
	bad := bytes.Clone(good)
	bad[at+10] = 'x'
	if err := os.WriteFile(filepath.Join(s.fs.Dir(), s.name), bad, 0o600); err != nil {
		t.Fatal(err)
	}
	again := open(t, s.fs, Options{})
	view(t, again, func(tx *Tx) error {
		if _, ok, err := tx.ID(1, "000 "+strings.Repeat("k", 200)); !ok || err != nil {
			t.Errorf("id on another page: %v, %v", ok, err)
		}
		_, ok, err := tx.ID(1, string(key))
		wantCorrupt(t, "id on the page", err, fmt.Sprint("page ", at/boltcheck.PageSize))
		if ok {
			t.Error("found on a damaged page")
		}
		return nil
	})
	if !again.Sealed() {
		t.Error("not sealed")
	}
	err := again.Update(func(*Tx) error { t.Error("called"); return nil })
	wantCorrupt(t, "Update", err, "checksum")
	wantCorrupt(t, "Rewrite", again.Rewrite(), "checksum")
	wantCorrupt(t, "CopyTo", again.CopyTo(t.Context(), s.fs, "copy"), "checksum")
	if err := again.Seal(); err != nil || !again.Sealed() {
		t.Errorf("Seal of a sealed store: %v", err)
	}
	wantProblem(t, again, fmt.Sprintf("page %d: checksum", at/boltcheck.PageSize))
}

// TestRewriteSealed: a store that was opened with checksums keeps no handle of the file that
// Rewrite replaces. With one, Windows may refuse to, and other systems keep the space of the file.
func TestRewriteSealed(t *testing.T) {
	s, _ := sealed(t)
	renames := 0
	var again *Store
	hooked, err := vfs.Open(s.fs.Dir(), func(op vfs.Op) error {
		if op.Kind == vfs.OpRename && op.To == name {
			if renames++; again.bolt != nil || again.sumsFile != nil {
				t.Error("the file is open while it is replaced")
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer hooked.Close()
	again = open(t, hooked, Options{})
	if !again.Sealed() {
		t.Fatal("not sealed")
	}
	want, err := dump(again)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Rewrite(); err != nil || renames != 1 {
		t.Fatal(err, renames)
	}
	if got, err := dump(again); err != nil || !slices.Equal(got, want) {
		t.Errorf("Rewrite changed the content: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestVerifyComparesPages damages a page of a store with checksums and opens it as after a crash:
// no commit builds on the page, which would then get a new checksum.
func TestVerifyComparesPages(t *testing.T) {
	s, _ := sealed(t)
	bad := fileOf(t, s)
	at := bytes.LastIndex(bad, []byte("long long"))
	bad[at] = 'x'
	if err := os.WriteFile(filepath.Join(s.fs.Dir(), s.name), bad, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		again := open(t, s.fs, Options{Verify: true})
		err := again.Update(func(*Tx) error { t.Error("called"); return nil })
		wantCorrupt(t, "Update", err, "checksum")
		wantProblem(t, again, fmt.Sprintf("page %d: checksum", at/boltcheck.PageSize))
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
	again := open(t, s.fs, Options{Verify: true, Lenient: true, ReadOnly: true}) // as Repair
	if again.Sealed() {
		t.Error("a repair compares pages instead of records")
	}
}

// TestSumsByte damages the checksum file: Open then verifies the structure of the store instead.
func TestSumsByte(t *testing.T) {
	s, want := sealed(t)
	file := filepath.Join(s.fs.Dir(), "meta.sums")
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	try := func(what string, b []byte) {
		t.Helper()
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		again := open(t, s.fs, Options{})
		defer again.Close()
		if again.Sealed() {
			t.Errorf("%s: accepted", what)
		}
		if got, err := dump(again); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, other content", what, err)
		}
		if problems := problemsOf(t, again); len(problems) > 0 {
			t.Errorf("%s: %v", what, problems)
		}
	}
	for at := range good {
		bad := bytes.Clone(good)
		bad[at] ^= 1 << (at % 8)
		try(fmt.Sprint("bit of byte ", at), bad)
		if at%8 == 0 {
			try(fmt.Sprint("first ", at, " bytes"), good[:at])
		}
	}
	signed := func(at int) []byte {
		bad := bytes.Clone(good)
		bad[at]++
		e := codec.Encoder{B: bad[:len(bad)-4]}
		e.U32(codec.CRC(e.B))
		return e.B
	}
	for at, what := range map[int]string{0: "another format", 8: "a later version", 36: "a number of pages that it does not have"} {
		try(what, signed(at))
	}
	// An intact checksum file of another store is evidence.
	for at, what := range map[int]string{12: "another database", 28: "the state"} {
		if err := os.WriteFile(file, signed(at), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, o := range []Options{{}, {ReadOnly: true}, {Verify: true}} {
			if at == 12 && o.Verify {
				continue // Verify does not compare the identity
			}
			_, err := Open(s.fs, name, o)
			wantCorrupt(t, what, err, what, "meta.sums")
		}
		again := open(t, s.fs, Options{Verify: true, Lenient: true})
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
	try("a longer file", append(bytes.Clone(good), 0))
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	again := open(t, s.fs, Options{})
	if again.Sealed() {
		t.Error("sealed without a file")
	}
	// A change invalidates the checksums; Seal writes new ones.
	if err := again.Seal(); err != nil || again.Close() != nil {
		t.Fatal(err)
	}
	again = open(t, s.fs, Options{})
	if !again.Sealed() {
		t.Error("not sealed after Seal")
	}
	update(t, again, func(tx *Tx) error { return tx.PutDocument(1, 2, []byte("new")) })
	if again.Sealed() {
		t.Error("sealed after a change")
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	again = open(t, s.fs, Options{})
	if again.Sealed() {
		t.Error("opened with the checksums of another state")
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

// An intact checksum file with wrong page checksums is reported as damage of the pages.
func TestSumsOfOtherPages(t *testing.T) {
	s, _ := sealed(t)
	file := filepath.Join(s.fs.Dir(), "meta.sums")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := sumsHeader; i < len(b)-4; i++ {
		b[i] ^= 0x55
	}
	e := codec.Encoder{B: b[:len(b)-4]}
	e.U32(codec.CRC(e.B))
	if err := os.WriteFile(file, e.B, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, opts := range []Options{{}, {Verify: true}} {
		_, err = Open(s.fs, name, opts)
		wantCorrupt(t, "Open", err, "checksum")
	}
	again := open(t, s.fs, Options{Verify: true, Lenient: true}) // ignores the checksums
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSumsOfALostRoot damages the root that the checksums belong to, and commits another change on
// the previous root: the new root equals the lost one bit for bit, but the pages differ. Which free
// pages bbolt uses is random.
func TestSumsOfALostRoot(t *testing.T) {
	for range 50 {
		if loseRoot(t) {
			return
		}
	}
	t.Error("no root was like the lost one")
}

// loseRoot reports whether the roots became equal.
func loseRoot(t *testing.T) (alike bool) {
	s := small(t)
	put := func(s *Store, text string) {
		update(t, s, func(tx *Tx) error { return tx.PutDocument(1, 2, []byte(text)) })
	}
	put(s, "first")
	put(s, "lost")
	if err := errors.Join(s.Seal(), s.Close()); err != nil {
		t.Fatal(err)
	}
	rootOf := func() (boltcheck.Root, int) {
		b := fileOf(t, s)
		roots, newest, err := boltcheck.Roots(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		return roots[newest], newest
	}
	lost, at := rootOf()
	f, err := os.OpenFile(filepath.Join(s.fs.Dir(), s.name), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{0xff}, int64(at)*boltcheck.PageSize+40); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, s.fs, Options{})
	if !s.Torn() || s.Sealed() {
		t.Fatalf("torn %v, sealed %v", s.Torn(), s.Sealed())
	}
	put(s, "other")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again, _ := rootOf()
	s = open(t, s.fs, Options{})
	view(t, s, func(tx *Tx) error {
		if text, ok, err := tx.Document(1, 2); string(text) != "other" || !ok || err != nil {
			t.Errorf("%q, %v, %v", text, ok, err)
		}
		return nil
	})
	if problems := problemsOf(t, s); len(problems) > 0 {
		t.Error(problems)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return again.Sum == lost.Sum && again.Pages == lost.Pages
}
