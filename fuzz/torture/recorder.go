package torture

import (
	"bufio"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Environment variables that mark a process as a child of a torture run.
const (
	serveEnv = "VECBOLT_TORTURE_SERVE" // serves the recording file system at this directory
	killEnv  = "VECBOLT_TORTURE_KILL"  // writes to a database until it is killed
)

// ErrUnavailable is returned when the recording file system cannot be mounted on this machine.
var ErrUnavailable = errors.New("recording file system unavailable: it needs Linux, root and /dev/fuse")

// Child does the work of a child process of Run and reports whether this process is one; then its
// caller must exit. Run starts the current program again, with Options.Args: on that path Child
// must be called before anything is written to standard output.
func Child() bool {
	switch {
	case os.Getenv(serveEnv) != "":
		serve(os.Getenv(serveEnv), os.Stdin, os.Stdout)
	case os.Getenv(killEnv) != "":
		killedProcess(os.Getenv(killEnv), os.Stdin, os.Stdout)
	case os.Getenv(memberEnv) != "":
		memberProcess(os.Getenv(memberEnv), os.Stdin, os.Stdout)
	default:
		return false
	}
	return true
}

// command returns a child process that is not started yet.
func command(args []string, env string) (*exec.Cmd, error) {
	// os.Executable would be wrong: a program may look at the name under which it was called.
	exe, err := exec.LookPath(os.Args[0])
	if err != nil {
		if exe, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), env)
	cmd.Stderr = os.Stderr
	return cmd, nil
}

// A recorder is a mounted recording file system. Its server is a separate process: a process that
// serves files and also maps them would deadlock at a page fault.
type recorder struct {
	dir  string // mount point
	tmp  string
	args []string // start this program such that it calls Child

	mu  sync.Mutex
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// answerTime is the time limit of an answer by the server. A server that hangs is killed: every
// call on its files then fails.
const answerTime = time.Minute

// startRecorder mounts a file system below tmp.
func startRecorder(args []string, tmp string) (_ *recorder, err error) {
	tmp, err = os.MkdirTemp(tmp, "recorder-")
	if err != nil {
		return nil, err
	}
	r := &recorder{dir: filepath.Join(tmp, "mnt"), tmp: tmp, args: args}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if err := os.Mkdir(r.dir, 0o700); err != nil {
		return nil, err
	}
	if r.cmd, err = command(args, serveEnv+"="+r.dir); err != nil {
		return nil, err
	}
	if r.in, err = r.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	r.out = bufio.NewReader(out)
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	if err := r.answer(); err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrUnavailable, err)
	}
	return r, nil
}

// do sends one command to the server.
func (r *recorder) do(format string, args ...any) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := fmt.Fprintf(r.in, format+"\n", args...); err != nil {
		return fmt.Errorf("torture: recorder: %w", err)
	}
	if err := r.answer(); err != nil {
		return fmt.Errorf("torture: recorder: %w", err)
	}
	return nil
}

func (r *recorder) answer() error {
	watchdog := time.AfterFunc(answerTime, func() { _ = r.cmd.Process.Kill() })
	defer watchdog.Stop()
	line, err := r.out.ReadString('\n')
	switch {
	case err != nil:
		return fmt.Errorf("no answer from its process: %w", err)
	case line != "ok\n":
		return errors.New(strings.TrimSpace(line))
	}
	return nil
}

// mark adds a note to the recording.
func (r *recorder) mark(format string, args ...any) error {
	return r.do("mark "+format, args...)
}

// fault makes the n-th modifying operation from now on, or the n-th of a kind, fail with errno; if
// sticky, all later ones too. n = 0 disables faults. shortWrite, which is not an error number,
// makes writes write half. Reads, including page faults of mapped files, and opens are counted and
// recorded only if kind names them; files are then not cached between opens.
func (r *recorder) fault(kind Kind, n int, errno syscall.Errno, sticky bool) error {
	return r.do("fault %d %d %d %t", kind, n, int(errno), sticky)
}

// take returns the recording since the last call and starts a new one.
func (r *recorder) take() ([]Op, error) {
	name := filepath.Join(r.tmp, "log")
	if err := r.do("take %s", name); err != nil {
		return nil, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var ops []Op
	if err := gob.NewDecoder(bufio.NewReaderSize(f, 1<<20)).Decode(&ops); err != nil {
		return nil, fmt.Errorf("torture: read recording: %w", err)
	}
	return ops, nil
}

// reset empties the file system.
func (r *recorder) reset() error {
	if err := r.do("fault 0 0 0 false"); err != nil {
		return err
	}
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(r.dir, e.Name())); err != nil {
			return err
		}
	}
	return r.do("forget")
}

// close unmounts. It works even if the server is gone.
func (r *recorder) close() {
	if r.in != nil {
		r.in.Close() // the server ends with its input
	}
	if r.cmd != nil && r.cmd.Process != nil {
		watchdog := time.AfterFunc(answerTime, func() { _ = r.cmd.Process.Kill() })
		_ = r.cmd.Wait()
		watchdog.Stop()
	}
	unmount(r.dir)
	_ = os.Remove(r.dir)
	_ = os.RemoveAll(r.tmp)
}
