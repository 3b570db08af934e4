//go:build linux || darwin

package share_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/share"
)

// leads runs another process that leads the database in dir.
func leads(t *testing.T, dir string) *os.Process {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env, cmd.Stderr = append(os.Environ(), "VECBOLT_LEADS="+dir), os.Stderr
	out, err := cmd.StdoutPipe()
	in, err2 := cmd.StdinPipe()
	if err := errors.Join(err, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGCONT)
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			t.Error(err)
		}
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "leads\n" {
		t.Fatal(line, err)
	}
	return cmd.Process
}

// leadUntilEnd is the process of leads.
func leadUntilEnd(dir string) {
	vdb, err := db.Open(dir, nil)
	if err == nil {
		fmt.Println("leads")
		_, err = io.Copy(io.Discard, os.Stdin)
		err = errors.Join(err, vdb.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// TestStoppedLeaderIsWaitedForOnce: beside a leader that is stopped, a process that cannot take its
// place waits openTime, whatever it asks, and then says which process does not answer.
func TestStoppedLeaderIsWaitedForOnce(t *testing.T) {
	if dir := os.Getenv("VECBOLT_LEADS"); dir != "" {
		leadUntilEnd(dir)
	}
	const most = time.Second
	defer share.SetOpenTime(share.SetOpenTime(most))
	for _, readOnly := range []bool{true, false} {
		t.Run(fmt.Sprintf("ReadOnly=%v", readOnly), func(t *testing.T) { besideStopped(t, readOnly, most) })
	}
}

// TestPlaceTakenAtOpen: to take the place of a leader that is stopped takes longer than Open waits
// for readers, which does not count as such a wait.
func TestPlaceTakenAtOpen(t *testing.T) {
	if dir := os.Getenv("VECBOLT_LEADS"); dir != "" {
		leadUntilEnd(dir)
	}
	defer share.SetReadersTime(share.SetReadersTime(50 * time.Millisecond))
	dir := filepath.Join(t.TempDir(), "db")
	stop(t, leads(t, dir))
	vdb, err := db.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := vdb.Close(); err != nil {
		t.Error(err)
	}
}

// TestReaderGoesToNextLeader: a call of a process that only reads, which waits for a leader that is
// stopped, goes on because another process takes its place, though that one waits for nothing.
func TestReaderGoesToNextLeader(t *testing.T) {
	if dir := os.Getenv("VECBOLT_LEADS"); dir != "" {
		leadUntilEnd(dir)
	}
	dir := filepath.Join(t.TempDir(), "db")
	leader := leads(t, dir)
	var reader *db.DB
	for _, readOnly := range []bool{false, true} {
		vdb, err := db.Open(dir, &db.Options{ReadOnly: readOnly})
		if err != nil {
			t.Fatal(err)
		}
		defer vdb.Close()
		reader = vdb
	}
	stop(t, leader)
	if err := reader.Barrier(t.Context()); err != nil {
		t.Error(err)
	}
}

// stop stops a process by a signal, and waits until it is.
func stop(t *testing.T, p *os.Process) {
	t.Helper()
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(p.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatal(status, err)
	}
}

func besideStopped(t *testing.T, readOnly bool, most time.Duration) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "db")
	for n := range 16 { // every name that the directory of a stopped leader could get
		if err := os.WriteFile(filepath.Join(parent, ".db.fenced-"+strconv.Itoa(n)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	leader := leads(t, dir)
	vdb, err := db.Open(dir, &db.Options{ReadOnly: readOnly})
	if err != nil {
		t.Fatal(err)
	}
	stop(t, leader)
	ctx, cancel := context.WithTimeout(t.Context(), 10*most)
	defer cancel()
	for name, call := range map[string]func() error{
		"Open": func() error {
			other, err := db.Open(dir, &db.Options{ReadOnly: readOnly})
			if err == nil {
				err = errors.Join(errors.New("it is open"), other.Close())
			}
			return err
		},
		"Processes": func() error { _, err := vdb.Processes(ctx); return err },
		"Barrier":   func() error { return vdb.Barrier(ctx) },
		"Check":     func() error { _, err := vdb.Check(ctx, db.CheckBytes); return err },
	} {
		start := time.Now()
		err := call()
		if took := time.Since(start); took < most {
			t.Errorf("%s waits %v, not %v", name, took, most)
		}
		want := fmt.Sprintf("process %d leads and does not answer", leader.Pid)
		if !errors.Is(err, db.ErrLocked) || !errors.Is(err, share.ErrStopped) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := leader.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if list, err := vdb.Processes(ctx); err != nil || len(list) < 2 { // and those that have left
		t.Errorf("after it has gone on: %v, %v", list, err)
	}
	if err := vdb.Close(); err != nil {
		t.Error(err)
	}
}
