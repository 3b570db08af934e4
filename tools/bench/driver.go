package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// driver is a child process that runs one peer. A request is a line, an operation and key=value
// pairs separated by tabs; the answer is a line of JSON, with "error" if it failed. The child reads
// vectors and rows from the files that a request names and measures time itself, so that the pipe
// is never timed.
type driver struct {
	name     string
	settings string
	version  string // of a package that no package manager here knows
	split    bool   // two threads can work on one query
	pin      bool   // one thread requires limiting the process to one processor
	blocks   bool   // a query blocks the whole process, so there is no second caller
	cmd      *exec.Cmd
	in       io.WriteCloser
	out      *bufio.Reader
	log      string
}

// callLimit ends a driver that does not answer. The slowest operation but building a graph, filling
// sqlite-vec, takes about a minute; graphs of a million rows take up to half an hour.
const (
	callLimit  = 15 * time.Minute
	buildLimit = 2 * time.Hour
)

func startDriver(name string, argv []string, logDir string) (*driver, error) {
	d := &driver{name: name, cmd: exec.Command(argv[0], argv[1:]...), log: filepath.Join(logDir, name+".log")}
	log, err := os.Create(d.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	d.cmd.Stderr = log
	if d.in, err = d.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	d.out = bufio.NewReaderSize(out, 1<<20)
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	var hello struct {
		Settings, Version  string
		Split, Pin, Blocks bool
	}
	if err := d.call("hello", nil, &hello); err != nil {
		d.close()
		return nil, err
	}
	d.settings, d.version, d.split, d.pin, d.blocks = hello.Settings, hello.Version, hello.Split, hello.Pin, hello.Blocks
	return d, nil
}

// args are the parameters of a request; values must not contain tabs or line ends.
type args map[string]any

func (d *driver) call(op string, a args, reply any) error {
	var line strings.Builder
	line.WriteString(op)
	for k, v := range a {
		fmt.Fprintf(&line, "\t%s=%v", k, v)
	}
	line.WriteByte('\n')
	if _, err := io.WriteString(d.in, line.String()); err != nil {
		return d.failed(op, err)
	}
	limit := callLimit
	if op == "build" {
		limit = buildLimit
	}
	timer := time.AfterFunc(limit, func() { d.cmd.Process.Kill() })
	answer, err := d.out.ReadBytes('\n')
	timer.Stop()
	if err != nil {
		return d.failed(op, err)
	}
	var failure struct{ Error string }
	if err := json.Unmarshal(answer, &failure); err != nil {
		return d.failed(op, err)
	}
	if failure.Error != "" {
		return d.failed(op, errors.New(failure.Error))
	}
	if reply == nil {
		return nil
	}
	return json.Unmarshal(answer, reply)
}

func (d *driver) failed(op string, err error) error {
	tail, _ := os.ReadFile(d.log)
	if len(tail) > 300 {
		tail = tail[len(tail)-300:]
	}
	return fmt.Errorf("%s: %s: %w %s", d.name, op, err, strings.TrimSpace(string(tail)))
}

func (d *driver) close() {
	d.in.Close()
	done := time.AfterFunc(10*time.Second, func() { d.cmd.Process.Kill() })
	d.cmd.Wait()
	done.Stop()
}

// processors limits the child to n processors; threads that it starts later inherit the limit.
func (d *driver) processors(n int) error {
	var set unix.CPUSet
	for i := range min(n, runtime.NumCPU()) {
		set.Set(i)
	}
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", d.cmd.Process.Pid))
	if err != nil {
		return err
	}
	for _, t := range tasks {
		var tid int
		fmt.Sscan(t.Name(), &tid)
		if err := unix.SchedSetaffinity(tid, &set); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}

// resident returns the child's resident memory in bytes, in total and without pages of mapped
// files.
func (d *driver) resident() (all, anonymous int64) {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	for line := range strings.Lines(string(b)) {
		var key string
		var kb int64
		if n, _ := fmt.Sscan(line, &key, &kb); n == 2 {
			switch key {
			case "VmRSS:":
				all = kb << 10
			case "RssAnon:":
				anonymous = kb << 10
			}
		}
	}
	return all, anonymous
}

func (d *driver) title() string { return d.name }

func (d *driver) load(s *vectorSet, dir string) error {
	return d.call("load", args{"base": s.basePath, "queries": s.queryPath, "dir": dir}, nil)
}

func (d *driver) scan(r scanRequest) (scanResult, error) { return d.ask("scan", r, args{}) }

// ask makes the driver answer the queries of a request by an operation; more adds arguments.
func (d *driver) ask(op string, r scanRequest, more args) (scanResult, error) {
	if r.mode == modeSplit && !d.split || r.mode == modeCallers && d.blocks {
		return scanResult{}, errUnsupported
	}
	if d.pin {
		n := runtime.NumCPU()
		if r.mode == modeOne {
			n = 1
		}
		if err := d.processors(n); err != nil {
			return scanResult{}, err
		}
	}
	a := args{"mode": r.mode, "first": r.first, "n": r.n, "k": r.k, "budget_ms": r.budget.Milliseconds()}
	maps.Copy(a, more)
	var res scanResult
	err := d.call(op, a, &res)
	return res, err
}
