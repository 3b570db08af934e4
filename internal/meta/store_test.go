package meta

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/vecbolt/vecbolt/internal/boltcheck"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/formattest"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

func wantError(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got error %v, want %v", what, err, want)
	}
}

func wantCorrupt(t testing.TB, what string, err error, parts ...string) {
	t.Helper()
	var bad *fileformat.CorruptError
	if !errors.As(err, &bad) || bad.File != name {
		t.Errorf("%s: got error %v, want a fileformat.CorruptError of %s", what, err, name)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %q does not name %q", what, err, part)
		}
	}
}

// small returns a store with every kind of record.
func small(t testing.TB) *Store {
	s := newStore(t)
	update(t, s, func(tx *Tx) error { return fillSmall(tx) })
	return s
}

func TestOpenErrors(t *testing.T) {
	fsys := newFS(t, nil)
	_, err := Open(fsys, name, Options{})
	wantError(t, "missing file", err, fs.ErrNotExist)
	_, err = Open(fsys, name, Options{ReadOnly: true, Create: true})
	wantError(t, "read-only creation", err, errReadOnly)
	s := open(t, fsys, Options{Create: true})
	_, err = Open(fsys, name, Options{Create: true})
	wantError(t, "second creation", err, fs.ErrExist)
	start := time.Now()
	_, err = Open(fsys, name, Options{})
	wantError(t, "open twice", err, vfs.ErrLocked)
	if wait := time.Since(start); wait > 2*time.Second {
		t.Errorf("the second opener waited for %v", wait)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	wantError(t, "View after Close", s.View(nil), errClosed)
	wantError(t, "Update after Close", s.Update(nil), errClosed)
	wantError(t, "Rewrite after Close", s.Rewrite(), errClosed)
	wantError(t, "CopyTo after Close", s.CopyTo(t.Context(), fsys, "x"), errClosed)
	wantError(t, "Check after Close", s.Check(t.Context(), nil), errClosed)

	path := filepath.Join(fsys.Dir(), name)
	for what, content := range map[string]string{"empty": "", "text": strings.Repeat("text ", 10_000)} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = Open(fsys, name, Options{})
		wantCorrupt(t, what, err)
	}
	if b, err := os.ReadFile(path); err != nil || len(b) != 50_000 && len(b) != 0 {
		t.Errorf("a file that is none of ours was changed: %d bytes, %v", len(b), err)
	}
}

// rawUpdate changes a closed store with bbolt alone.
func rawUpdate(t testing.TB, fsys *vfs.FS, fn func(tx *bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(fsys.Dir(), name), 0o600, &bbolt.Options{PageSize: 4096, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(fn), db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestForeignFiles(t *testing.T) {
	s := newStore(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	system := func(fn func(b *bbolt.Bucket) error) {
		rawUpdate(t, s.fs, func(tx *bbolt.Tx) error { return fn(tx.Bucket([]byte("system"))) })
	}
	put := func(key, payload []byte) {
		system(func(b *bbolt.Bucket) error { return b.Put(key, appendValue(nil, seedOf(tagSystem, 0), key, payload)) })
	}
	good := encodeFormat()
	for _, tc := range []struct {
		payload []byte
		want    error
	}{
		{append([]byte("VECBOLTX"), good[8:]...), fileformat.ErrFormat},
		{append([]byte("VECBOLTM"), 3, 0, 0, 0), fileformat.ErrVersion},
		{append(slices.Clone(good), 0), fileformat.ErrFormat},
		{good[:9], nil},
	} {
		put(keyFormat, tc.payload)
		_, err := Open(s.fs, name, Options{})
		wantCorrupt(t, string(tc.payload), err, `bucket system, key "format"`)
		if tc.want != nil {
			wantError(t, string(tc.payload), err, tc.want)
		}
	}
	system(func(b *bbolt.Bucket) error { return b.Delete(keyFormat) })
	_, err := Open(s.fs, name, Options{})
	wantCorrupt(t, "no format", err, "format", "missing")
	rawUpdate(t, s.fs, func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("system")) })
	_, err = Open(s.fs, name, Options{})
	wantCorrupt(t, "no system bucket", err, "bucket system is missing")
}

// TestReadOnly opens a store in a read-only directory, and checks that no write is attempted.
func TestReadOnly(t *testing.T) {
	s := small(t)
	want, err := dump(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	dir := s.fs.Dir()
	path := filepath.Join(dir, name)
	if err := errors.Join(os.Chmod(path, 0o400), os.Chmod(dir, 0o500)); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o700)
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	fsys, err := vfs.Open(dir, func(op vfs.Op) error {
		switch op.Kind {
		case vfs.OpOpen, vfs.OpRead, vfs.OpStat, vfs.OpDropCache:
			return nil
		}
		t.Errorf("read-only store does %s %s", op.Kind, op.Name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer fsys.Close()
	a := open(t, fsys, Options{ReadOnly: true, Verify: true})
	b := open(t, fsys, Options{ReadOnly: true}) // any number of readers
	for _, s := range []*Store{a, b} {
		if got, err := dump(s); err != nil || !slices.Equal(got, want) {
			t.Errorf("content differs: %v", err)
		}
		wantIntact(t, s)
		wantError(t, "Update", s.Update(func(*Tx) error { return nil }), errReadOnly)
		wantError(t, "Rewrite", s.Rewrite(), errReadOnly)
		if size, _ := s.Size(); size != before.Size() {
			t.Errorf("Size() = %d, want %d", size, before.Size())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	after, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if !after.ModTime().Equal(before.ModTime()) || after.Size() != before.Size() {
		t.Error("the file was written")
	}
}

// TestFailedCommit: every later Update returns the first failure, reads continue, and reopening
// resolves it.
func TestFailedCommit(t *testing.T) {
	s := small(t)
	want, err := dump(s)
	if err != nil {
		t.Fatal(err)
	}
	change := func(tx *Tx) error { return tx.PutDocument(1, 77, []byte("lost")) }
	wantError(t, "error of the function", s.Update(func(tx *Tx) error {
		return errors.Join(change(tx), os.ErrDeadlineExceeded)
	}), os.ErrDeadlineExceeded)
	update(t, s, func(*Tx) error { return nil }) // succeeds

	s.file.Close() // the commit cannot write
	first := s.Update(change)
	wantError(t, "commit", first, os.ErrClosed)
	again := s.Update(func(tx *Tx) error {
		t.Error("an Update runs after a failed commit")
		return nil
	})
	wantError(t, "next Update", again, os.ErrClosed)
	wantError(t, "Rewrite", s.Rewrite(), os.ErrClosed)
	if got, err := dump(s); err != nil || !slices.Equal(got, want) {
		t.Errorf("reading after a failed commit: %v", err)
	}
	s.Close()
	s = open(t, s.fs, Options{Verify: true})
	wantIntact(t, s)
	if got, err := dump(s); err != nil || !slices.Equal(got, want) {
		t.Errorf("the commit that could not write anything is there: %v", err)
	}
	update(t, s, change)
}

func TestPanics(t *testing.T) {
	s := small(t)
	err := s.View(func(*Tx) error { panic("of the caller") })
	wantCorrupt(t, "View", err, "of the caller")
	if _, err := dump(s); err != nil {
		t.Errorf("after a panic in View: %v", err)
	}
	err = s.Update(func(tx *Tx) error {
		if err := tx.PutDocument(1, 77, nil); err != nil {
			return err
		}
		panic("of the caller")
	})
	wantCorrupt(t, "Update", err, "of the caller")
	wantCorrupt(t, "Update after a panic", s.Update(func(*Tx) error { return nil }), "of the caller")
	view(t, s, func(tx *Tx) error {
		if _, ok, err := tx.Document(1, 77); ok || err != nil {
			t.Errorf("the change was kept: %v, %v", ok, err)
		}
		return nil
	})
	if err := s.Close(); err != nil { // no lock is left behind
		t.Error(err)
	}
}

// TestGoexit ends a goroutine inside transactions, as t.FailNow does.
func TestGoexit(t *testing.T) {
	s := small(t)
	for _, run := range []func(func(*Tx) error) error{s.View, s.Update} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = run(func(*Tx) error { runtime.Goexit(); return nil })
		}()
		<-done
	}
	update(t, s, func(tx *Tx) error { return tx.PutDocument(1, 77, nil) })
}

// TestTruncated truncates the file of an open store: the result is an error, not a crash or a hang.
func TestTruncated(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a mapped file cannot be cut")
	}
	for _, size := range []int64{2 * 4096, 0} {
		s := small(t)
		if err := os.Truncate(filepath.Join(s.fs.Dir(), name), size); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			_, err := dump(s)
			wantCorrupt(t, "View", err)
			wantCorrupt(t, "Update", s.Update(func(tx *Tx) error { return fillSmall(tx) }))
		}
		if err := s.CopyTo(t.Context(), s.fs, "copy"); err == nil {
			t.Error("CopyTo of half a file succeeds")
		}
		if err := s.Check(t.Context(), func(string, int64, string, string, string) {}); err != nil {
			wantCorrupt(t, "Check", err)
		}
		if err := s.Rewrite(); err == nil {
			t.Error("Rewrite of half a file succeeds")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		_, err := Open(s.fs, name, Options{})
		wantCorrupt(t, "Open", err)
	}
}

// TestRewriteFaults makes each file operation of a Rewrite fail in turn.
func TestRewriteFaults(t *testing.T) {
	fault := errors.New("fault")
	for n := 1; ; n++ {
		calls := -1 << 30
		fsys := newFS(t, func(vfs.Op) error {
			if calls++; calls == n {
				return fault
			}
			return nil
		})
		s := open(t, fsys, Options{Create: true, DB: identity})
		update(t, s, func(tx *Tx) error { return fillSmall(tx) })
		want, err := dump(s)
		if err != nil {
			t.Fatal(err)
		}
		calls = 0
		err = s.Rewrite()
		hit := calls >= n
		calls = -1 << 30
		if hit {
			wantError(t, "Rewrite", err, fault)
		} else if err != nil {
			t.Fatal(err)
		}
		if got, err := dump(s); err != nil || !slices.Equal(got, want) {
			t.Errorf("operation %d fails: content differs: %v", n, err)
		}
		uerr := s.Update(func(tx *Tx) error { return tx.PutDocument(1, 1, []byte("one")) })
		if err == nil && uerr != nil || uerr != nil && !errors.Is(uerr, fault) {
			t.Errorf("operation %d fails: Update: %v", n, uerr)
		}
		s = reopen(t, s)
		wantIntact(t, s)
		if !hit {
			if n < 5 {
				t.Errorf("a Rewrite has %d operations", n-1)
			}
			return
		}
	}
}

func TestCopyFaults(t *testing.T) {
	s := small(t)
	fault := errors.New("fault")
	for n := 1; ; n++ {
		calls := 0
		to := newFS(t, func(vfs.Op) error {
			if calls++; calls == n {
				return fault
			}
			return nil
		})
		err := s.CopyTo(t.Context(), to, name)
		if calls < n {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
		wantError(t, "CopyTo", err, fault)
		if _, err := to.Size(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("operation %d fails: half a copy stays: %v", n, err)
		}
	}
}

func TestCheckStops(t *testing.T) {
	s := newStore(t)
	update(t, s, func(tx *Tx) error {
		if err := tx.PutCollection(1, "c", nil); err != nil {
			return err
		}
		for i := range uint64(2 * checkEvery) {
			if err := tx.PutDocument(1, i, nil); err != nil {
				return err
			}
		}
		return nil
	})
	ctx, cancel := contextWithCancel(t)
	cancel()
	wantError(t, "Check", s.Check(ctx, func(string, int64, string, string, string) {}), ctx.Err())
}

// TestCopyStops ends a copy at every look at the context: nothing of it stays.
func TestCopyStops(t *testing.T) {
	s := newStore(t)
	const records = 4 * checkEvery
	update(t, s, func(tx *Tx) error {
		if err := tx.PutCollection(1, "c", nil); err != nil {
			return err
		}
		for i := range uint64(records) {
			if err := tx.PutDocument(1, i, make([]byte, 32)); err != nil {
				return err
			}
		}
		return nil
	})
	writes := 0
	to := newFS(t, func(op vfs.Op) error {
		if op.Kind == vfs.OpWrite {
			writes++
		}
		return nil
	})
	copied := func(ctx context.Context) error {
		writes = 0
		err := s.CopyTo(ctx, to, name)
		if _, there := to.Size(name); errors.Is(there, fs.ErrNotExist) == (err == nil) {
			t.Errorf("copied: %v, there: %v", err, there)
		}
		return err
	}
	const enough = 1 << 20
	whole := formattest.NewCountdown(t.Context(), enough)
	if err := errors.Join(copied(whole), to.Remove(name)); err != nil {
		t.Fatal(err)
	}
	looks := enough - whole.Left()
	size, err := s.fs.Size(name)
	if err != nil {
		t.Fatal(err)
	}
	if least := int(size) / boltcheck.PageSize / 4; looks < least { // many pages are free
		t.Errorf("%d looks at the context, want one for a page that is read, %d", looks, least)
	}
	for n := range looks {
		wantError(t, "CopyTo", copied(formattest.NewCountdown(t.Context(), n)), context.Canceled)
		if writes > n && n < int(size)/(32<<10) {
			t.Errorf("%d writes after %d looks at the context", writes, n)
		}
	}
	if err := s.View(func(tx *Tx) error {
		return tx.checkTallies(formattest.NewCountdown(t.Context(), records/checkEvery-1), true)
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("the check of %d records has fewer than %d looks: %v", records, records/checkEvery, err)
	}
}

// The search for records in a damaged file ends with its context, and so does the store made of
// them.
func TestRebuildStops(t *testing.T) {
	s := newStore(t)
	const records = 2 * checkEvery
	update(t, s, func(tx *Tx) error {
		if err := tx.PutCollection(1, "c", nil); err != nil {
			return err
		}
		for i := range uint64(records) {
			if err := tx.PutDocument(1, i, nil); err != nil {
				return err
			}
		}
		return nil
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	w, err := Examine(t.Context(), s.fs, name)
	if err != nil {
		t.Fatal(err)
	}
	for n := range records / checkEvery {
		_, err := Examine(formattest.NewCountdown(t.Context(), n), s.fs, name)
		wantError(t, "Examine", err, context.Canceled)
		wantError(t, "WriteTo", w.WriteTo(formattest.NewCountdown(t.Context(), n), newFS(t, nil), name), context.Canceled)
	}
}

// TestRewriteLeavesTwoRoots damages the newest root right after a rewrite: the other root must have
// the same content.
func TestRewriteLeavesTwoRoots(t *testing.T) {
	s := small(t)
	want, err := dump(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Rewrite(), s.Close()); err != nil {
		t.Fatal(err)
	}
	b := fileOf(t, s)
	_, newest, err := boltcheck.Roots(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(s.fs.Dir(), s.name), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte{0xff}, int64(newest)*boltcheck.PageSize+40)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	s = open(t, s.fs, Options{})
	if got, err := dump(s); err != nil || !slices.Equal(got, want) || !s.Torn() {
		t.Errorf("%v, torn %t: %d records, want %d", err, s.Torn(), len(got), len(want))
	}
}

// TestCopyPlacesRoots damages the newest root of a copy, and commits: the new root must replace the
// damaged one, not the one in force.
func TestCopyPlacesRoots(t *testing.T) {
	s := small(t)
	for n := range 2 { // an even number of transactions and an odd one
		update(t, s, func(tx *Tx) error { return tx.PutDocument(1, 100+uint64(n), []byte("text")) })
		dir := t.TempDir()
		fsys, err := vfs.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer fsys.Close()
		if err := s.CopyTo(t.Context(), fsys, s.name); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(filepath.Join(dir, s.name), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		roots, newest, err := boltcheck.Roots(f, 1<<40)
		if err != nil || roots[0].Err != nil || roots[1].Err != nil {
			t.Fatal(roots, err)
		}
		if roots[newest].TxID%2 != uint64(newest) {
			t.Errorf("root %d is in page %d", roots[newest].TxID, newest)
		}
		if _, err := f.WriteAt([]byte{0xff}, int64(newest)*boltcheck.PageSize+40); err != nil {
			t.Fatal(err)
		}
		c := open(t, fsys, Options{})
		update(t, c, func(tx *Tx) error { return tx.PutDocument(1, 200, []byte("text")) })
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if roots, _, err = boltcheck.Roots(f, 1<<40); err != nil || roots[0].Err != nil || roots[1].Err != nil {
			t.Errorf("after the next commit: %v, %v", roots, err)
		}
	}
}
