package share

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/errtext"
	"github.com/vecbolt/vecbolt/internal/fileformat"
)

type errorCase struct {
	name string
	err  error
	is   []error // the sentinels that it matches
}

// errorCases has every sentinel alone and in a context, and the errors with fields.
func errorCases(testing.TB) (cases []errorCase) {
	for _, s := range sentinels {
		is := []error{s}
		cases = append(cases,
			errorCase{"alone: " + s.Error(), s, is},
			errorCase{"in a context: " + s.Error(), fmt.Errorf("batch 7: %w", s), is})
	}
	corrupt := &fileformat.CorruptError{File: "seg/00000001.vec", Offset: 65536, Err: fileformat.ErrChecksum}
	later := &fileformat.CorruptError{File: "meta.bolt", Offset: -1, Err: fmt.Errorf("%w 9", fileformat.ErrVersion)}
	deep := corrupt
	for range 2 * maxNesting {
		deep = &fileformat.CorruptError{File: "x", Err: deep}
	}
	dim := &engine.DimensionError{Collection: "notes", ID: "a", Expected: 3, Got: 2}
	return append(cases,
		errorCase{"text", errors.New("something else"), nil},
		errorCase{"no text", errors.New(""), nil},
		errorCase{"not UTF-8", errors.New("\xff\x00"), nil},
		errorCase{"dimension", dim, []error{engine.ErrDimensionMismatch}},
		errorCase{"dimension in a context", fmt.Errorf("upsert: %w", dim), []error{engine.ErrDimensionMismatch}},
		errorCase{"corrupt", corrupt, []error{fileformat.ErrCorrupt, fileformat.ErrChecksum}},
		errorCase{"corrupt in a context", fmt.Errorf("get: %w", corrupt), []error{fileformat.ErrCorrupt, fileformat.ErrChecksum}},
		errorCase{"corrupt for no reason", &fileformat.CorruptError{File: "x", Offset: 1}, []error{fileformat.ErrCorrupt}},
		errorCase{"corrupt many times", deep, []error{fileformat.ErrCorrupt, fileformat.ErrChecksum}},
		errorCase{"later release", later, []error{fileformat.ErrVersion}},
		errorCase{"both", errors.Join(dim, corrupt), []error{engine.ErrDimensionMismatch, fileformat.ErrCorrupt, fileformat.ErrChecksum}},
		errorCase{"no text index", engine.NoText("notes"), []error{engine.ErrTextIndex, document.ErrInvalid}},
		errorCase{"missing", engine.Missing("x", map[string]uint32{"y": 1, "z": 2}), []error{engine.ErrNotFound}},
		errorCase{"full disk", engine.Translate(&fs.PathError{Op: "write", Path: "wal/00000001.wal", Err: syscall.ENOSPC}),
			[]error{engine.ErrNoSpace, syscall.ENOSPC}},
		errorCase{"no file", engine.Translate(&fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist}),
			[]error{engine.ErrNotFound, fs.ErrNotExist}},
		errorCase{"advice", errtext.InGo(engine.ErrReadOnly, "Options.ReadOnly"), []error{engine.ErrReadOnly}},
		errorCase{"several", fmt.Errorf("%w: %w", context.Canceled, errNotLeader), []error{context.Canceled, errNotLeader}},
	)
}

// TestErrors sends every error in a Refused and in a Result.
func TestErrors(t *testing.T) {
	for _, c := range errorCases(t) {
		t.Run(c.name, func(t *testing.T) {
			for _, got := range []error{crosses(t, Refused{c.err}).(Refused).Err, crosses(t, Result{Err: c.err}).(Result).Err} {
				if got.Error() != c.err.Error() || errtext.Plain(got.Error()) != errtext.Plain(c.err.Error()) {
					t.Errorf("text %q, want %q", got, c.err)
				}
				for _, s := range sentinels {
					want := false
					for _, is := range c.is {
						want = want || is == s
					}
					if errors.Is(c.err, s) != want && !impliedBy(c.is, s) {
						t.Errorf("the case matches %v: %v", s, !want)
					}
					if errors.Is(got, s) != errors.Is(c.err, s) {
						t.Errorf("matches %v: %v", s, errors.Is(got, s))
					}
				}
				var dim, wantDim *engine.DimensionError
				if errors.As(got, &dim) != errors.As(c.err, &wantDim) || !cmp.Equal(dim, wantDim) {
					t.Errorf("%+v, want %+v", dim, wantDim)
				}
				sameDamage(t, got, c.err, 0)
			}
		})
	}
}

// impliedBy reports whether one of the sentinels matches another by itself.
func impliedBy(is []error, s error) bool {
	for _, e := range is {
		if errors.Is(e, s) {
			return true
		}
	}
	return false
}

// sameDamage compares the fields of the CorruptErrors in two errors, as deep as they cross.
func sameDamage(t *testing.T, got, want error, depth int) {
	t.Helper()
	var a, b *fileformat.CorruptError
	found := errors.As(want, &b)
	if errors.As(got, &a) != (found && depth < maxNesting) {
		t.Errorf("damage %+v, want %+v, in %d others", a, b, depth)
	}
	if a == nil || b == nil {
		return
	}
	if a.File != b.File || a.Offset != b.Offset || a.Error() != b.Error() || (a.Err == nil) != (b.Err == nil) {
		t.Errorf("damage %+v, want %+v", a, b)
	}
	if b.Err != nil {
		sameDamage(t, a.Err, b.Err, depth+1)
	}
}

// An error that is one of the known errors arrives as it, so that == works as well.
func TestErrorsKeepIdentity(t *testing.T) {
	for _, s := range sentinels {
		if got := crosses(t, Refused{s}).(Refused).Err; got != s {
			t.Errorf("%v arrives as %T", s, got)
		}
	}
	if got := crosses(t, Refused{io.EOF}).(Refused).Err; got == io.EOF || got.Error() != "EOF" {
		t.Errorf("an unknown error arrives as %v", got)
	}
}

// A text beyond the limit is cut between characters, and the answer still crosses.
func TestLongErrors(t *testing.T) {
	for _, unit := range []string{"x", "é", "\xff"} {
		long := strings.Repeat(unit, maxErrorText)
		err := &fileformat.CorruptError{File: long, Err: &engine.DimensionError{Collection: long, ID: long}}
		got := crosses(t, Result{Err: err}).(Result).Err
		if n := len(got.Error()); n > maxErrorText || n < maxErrorText-4 || !strings.HasPrefix(err.Error(), got.Error()) {
			t.Errorf("%q: cut to %d bytes", unit, n)
		}
		if !errors.Is(got, fileformat.ErrCorrupt) || !errors.Is(got, engine.ErrDimensionMismatch) {
			t.Errorf("%q: no longer matches", unit)
		}
	}
}

// TestNotShared: an error that is not about the holder of the lock does not match ErrLocked, so
// that nobody waits for the holder.
func TestNotShared(t *testing.T) {
	locked := fmt.Errorf("%w by another process", engine.ErrLocked)
	for _, c := range []struct {
		joined error
		locked bool
	}{
		{errors.New("it is of another version"), true},
		{errors.Join(fmt.Errorf("%w here", fs.ErrPermission)), true},
		{&fileformat.CorruptError{File: "wal/1", Err: fileformat.ErrChecksum}, false},
		{&os.PathError{Op: "open", Path: "lock", Err: syscall.EMFILE}, false},
		{&os.PathError{Op: "open", Path: "lock", Err: syscall.ENFILE}, false},
		{&os.SyscallError{Syscall: "mmap", Err: syscall.ENOMEM}, false},
		{&welcomedError{errors.New("whatever")}, false},
	} {
		err := notShared(locked, c.joined)
		if errors.Is(err, engine.ErrLocked) != c.locked || !strings.HasSuffix(err.Error(), c.joined.Error()) ||
			strings.Contains(err.Error(), "it does not share it") != c.locked {
			t.Errorf("%v: %v", c.joined, err)
		}
	}
}
