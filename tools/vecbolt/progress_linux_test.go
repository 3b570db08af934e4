package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/vecbolt/vecbolt/db"
)

// pseudoTerminal returns the two ends of a pseudo-terminal: the one that a person looks at, and the
// one that a program writes to (pts(4)).
func pseudoTerminal(t *testing.T) (screen, program *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no pseudo-terminals:", err)
	}
	t.Cleanup(func() { screen.Close() })
	control := func(request uintptr, v *int32) {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, screen.Fd(), request, uintptr(unsafe.Pointer(v))); errno != 0 {
			t.Skip("no pseudo-terminals:", errno)
		}
	}
	var unlock, number int32
	control(syscall.TIOCSPTLCK, &unlock)
	control(syscall.TIOCGPTN, &number)
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo-terminals:", err)
	}
	return screen, program
}

// TestBars shows bars on a terminal, and removes them before the messages that follow.
func TestBars(t *testing.T) {
	dir := t.TempDir()
	screen, program := pseudoTerminal(t)
	seen := make(chan string)
	go func() {
		var b bytes.Buffer
		_, _ = io.Copy(&b, screen) // ends with an error when the other end is closed
		seen <- b.String()
	}()
	tl := &tool{report: program}
	b := tl.bar("learn", func() int64 { return 4 })
	b.add(1)
	b.end()
	b = tl.busy("check")
	b.end()
	ctx, b := tl.working(t.Context(), "check")
	vdb, err := db.Open(filepath.Join(dir, "t.vdb"), nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := vdb.CreateCollection(ctx, "c", db.Schema{}, nil)
	if err == nil {
		_, err = c.Upsert(ctx, db.Document{ID: "a", Vector: []float32{1, 0}})
	}
	if err == nil {
		err = vdb.Flush(ctx)
	}
	if err == nil {
		_, err = vdb.Check(ctx, db.CheckBytes)
	}
	if err = errors.Join(err, vdb.Close()); err != nil {
		t.Fatal(err)
	}
	if b.bar.Current() != 2 { // the row in its segment, and its document
		t.Errorf("%d of 2 done", b.bar.Current())
	}
	b.end()
	b = tl.copying("backup", dir, dir)
	b.add(0)
	b.end()
	tl.notef("done")
	program.Close()
	if got := <-seen; !strings.HasSuffix(strings.TrimSpace(got), "vecbolt: done") {
		t.Errorf("%q", got)
	}
}

// TestNoBars writes no bar to a file, and does not count documents for a bar that is not shown.
func TestNoBars(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, w := range []io.Writer{f, new(bytes.Buffer)} {
		tl := &tool{report: w}
		b := tl.bar("learn", func() int64 { t.Error("counted"); return 1 })
		b.add(1)
		b.end()
		tl.copying("backup", ".", ".").end()
		tl.busy("check").end()
		if ctx, b := tl.working(t.Context(), "check"); ctx != t.Context() || b != nil {
			t.Error("progress is reported to nobody")
		}
		if buffer, ok := w.(*bytes.Buffer); ok && buffer.Len() > 0 {
			t.Errorf("%q", buffer)
		}
	}
	if info, err := f.Stat(); err != nil || info.Size() > 0 {
		t.Error(info, err)
	}
}
