package torture

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/db"
)

var crampedStep = flag.Int("torture.fullprocesses", 128, "TestFullDiskOfProcesses tries every so many pages of remaining space; 1: all")

// crampedEnv marks a process of TestFullDiskOfProcesses.
const crampedEnv = "VECBOLT_TORTURE_CRAMPED"

// TestFullDiskOfProcesses is TestFullDisk with three processes that share the database. Writes of
// each say ErrNoSpace and have written nothing, and all of them read on. Then there is room, or the
// leading process ends, is killed or is stopped first: those that are left read, and write once
// there is room.
func TestFullDiskOfProcesses(t *testing.T) {
	if dir := os.Getenv(crampedEnv); dir != "" {
		if err := obey(dir, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	onSmallDisks(t, 64, func(t *testing.T, dir string, times int) {
		n := 0
		for pages := 0; pages < fullPages; pages += times * *crampedStep {
			for _, then := range []string{"room", "close", "kill", "stop"} {
				t.Run(fmt.Sprintf("%d pages, %s", pages, then), func(t *testing.T) {
					at := filepath.Join(dir, "try")
					if err := os.Mkdir(at, 0o700); err != nil {
						t.Fatal(err)
					}
					defer os.RemoveAll(at)
					c := &cramped{t: t, dir: at, acked: map[string]bool{}, refused: map[string]bool{}}
					defer c.end()
					c.run(int64(pages)*pageSize, n, then)
				})
				n++
			}
		}
	})
}

// crampedText is what documents hold beside their id.
var crampedText = strings.Repeat("A text of some length. ", 130)

// obey opens a database and follows orders, a line for each call: it answers "ok", "full", or an
// error.
func obey(dir string, in io.Reader, out io.Writer) error {
	ctx := context.Background()
	vdb, err := db.Open(dir, &db.Options{HeadSize: 16 * kib})
	if err != nil {
		return err
	}
	docs, err := vdb.OpenCollection(ctx, "docs", db.Schema{Dim: 8})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "ok")
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		call, id, _ := strings.Cut(lines.Text(), " ")
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		switch call {
		case "insert":
			_, err = docs.Insert(ctx, db.Document{ID: id, Text: crampedText + id, Vector: []float32{1, 2, 3, 4, 5, 6, 7, 8}})
		case "get":
			var d *db.Document
			if d, err = docs.Get(ctx, id, db.WithText); err == nil && d.Text != crampedText+id {
				err = fmt.Errorf("another text: %.40q", d.Text)
			}
		case "flush":
			err = vdb.Flush(ctx)
		case "compact":
			err = vdb.Compact(ctx)
		case "barrier":
			err = vdb.Barrier(ctx)
		case "lead":
			var list []db.Process
			if list, err = vdb.Processes(ctx); err == nil && list[0].PID != os.Getpid() {
				err = errors.New("no")
			}
		case "close":
			err = vdb.Close()
		}
		cancel()
		switch {
		case err == nil:
			fmt.Fprintln(out, "ok")
		case errors.Is(err, db.ErrNoSpace) && !errors.Is(err, db.ErrUnknown):
			fmt.Fprintln(out, "full")
		case errors.Is(err, db.ErrNoSpace):
			fmt.Fprintln(out, "unknown")
		case errors.Is(err, db.ErrNotFound) && call == "get":
			fmt.Fprintln(out, "absent")
		default:
			fmt.Fprintln(out, strings.ReplaceAll(err.Error(), "\n", "; "))
		}
		if call == "close" {
			break
		}
	}
	return lines.Err()
}

// An obedient is a process that follows orders.
type obedient struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
}

// cramped is one database, and the processes that share it.
type cramped struct {
	t       *testing.T
	dir     string
	all     []*obedient
	n       int // inserts that were tried
	acked   map[string]bool
	refused map[string]bool // inserts for which there was no room
}

func (c *cramped) start() *obedient {
	t := c.t
	t.Helper()
	p := &obedient{name: fmt.Sprint("process ", len(c.all)), cmd: exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFullDiskOfProcesses$")}
	p.cmd.Env = append(os.Environ(), crampedEnv+"="+filepath.Join(c.dir, databaseName))
	p.cmd.Stderr = os.Stderr
	var out io.ReadCloser
	var err error
	if p.in, err = p.cmd.StdinPipe(); err == nil {
		out, err = p.cmd.StdoutPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	c.all = append(c.all, p)
	p.out = bufio.NewReader(out)
	if got := c.answer(p); got != "ok" {
		t.Fatalf("open: %s", got)
	}
	return p
}

func (c *cramped) answer(p *obedient) string {
	line, err := p.out.ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(line)
}

// tell has a process make a call.
func (c *cramped) tell(p *obedient, call ...string) string {
	if _, err := fmt.Fprintln(p.in, strings.Join(call, " ")); err != nil {
		return err.Error()
	}
	return c.answer(p)
}

// must fails the test unless a call gets one of the answers.
func (c *cramped) must(p *obedient, call string, want ...string) string {
	c.t.Helper()
	got := c.tell(p, call)
	if !slices.Contains(want, got) {
		c.t.Fatalf("%s: %s: %s, want %v", p.name, call, got, want)
	}
	return got
}

// insert has a process insert the next document.
func (c *cramped) insert(p *obedient, want ...string) bool {
	c.t.Helper()
	id := fmt.Sprint(c.n)
	c.n++
	switch c.must(p, "insert "+id, want...) {
	case "ok":
		c.acked[id] = true
		return true
	case "full":
		c.refused[id] = true
	}
	return false
}

// look has processes read everything.
func (c *cramped) look(all ...*obedient) {
	c.t.Helper()
	for _, p := range all {
		for _, id := range slices.Sorted(maps.Keys(c.acked)) {
			c.must(p, "get "+id, "ok")
		}
		for _, id := range slices.Sorted(maps.Keys(c.refused)) {
			c.must(p, "get "+id, "absent")
		}
	}
}

func (c *cramped) run(room int64, n int, then string) {
	t := c.t
	leader := c.start()
	others := []*obedient{c.start(), c.start()}
	all := []*obedient{leader, others[0], others[1]}
	for i := range 10 + n%20 {
		c.insert(all[i%3], "ok")
	}
	filler := filepath.Join(c.dir, "filler")
	if err := leave(filler, room); err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		if i == fullSteps {
			t.Fatal("the disk does not fill up")
		}
		p := all[(n+i)%3]
		if !c.insert(p, "ok", "full") {
			break
		}
		if i%13 == 5 && c.must(p, "flush", "ok", "full") != "ok" {
			break
		}
		if i%29 == 11 && c.must(p, "compact", "ok", "full") != "ok" {
			break
		}
	}
	for _, p := range all {
		c.insert(p, "ok", "full")
	}
	for _, p := range others {
		c.must(p, "barrier", "ok")
	}
	c.look(all...)
	left := all
	switch then {
	case "close":
		c.must(leader, "close", "ok", "full")
		left = others
	case "kill":
		if err := leader.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		left = others
	case "stop":
		if err := leader.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		left = others
	}
	c.look(left...)
	if then == "close" || then == "kill" {
		for _, p := range left {
			c.insert(p, "ok", "full", "unknown") // what became of it only who leads next can tell
			c.insert(p, "ok", "full")
		}
		for _, p := range left {
			c.must(p, "barrier", "ok", "full") // full: nobody leads, so nobody has written
		}
		c.look(left...)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	for _, p := range left {
		for i := 0; !c.insert(p, "ok", "full"); i++ {
			if i == 3 {
				t.Fatalf("%s: no room, though there is", p.name)
			}
		}
	}
	if then == "stop" {
		if err := leader.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		c.insert(leader, "ok")
		left = all
	}
	for _, p := range left {
		c.must(p, "barrier", "ok")
	}
	c.look(left...)
	for _, p := range left {
		c.must(p, "close", "ok")
	}
	c.look(c.start())
	names, err := os.ReadDir(c.dir)
	if err != nil || len(names) != 1 {
		t.Errorf("beside the database: %v, %v", names, err)
	}
}

// end ends all processes.
func (c *cramped) end() {
	for _, p := range c.all {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}
