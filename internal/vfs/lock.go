package vfs

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// Lock is a held lock. The system releases it when the process ends, however it ends.
type Lock struct {
	mu    sync.Mutex
	f     *os.File // nil: nothing to hold
	token string
	at    int    // where Ring writes; 0 for a holder that shares with nobody
	bell  []byte // the file up to there, mapped; nil until Rung needs it
}

// The byte after the first line of a lock file with a token: see FS.Ring.
const (
	bellSilent = '0'
	bellRung   = '1'
)

// ErrReaders is the error of an exclusive lock while readers hold it. It wraps ErrLocked.
var ErrReaders = fmt.Errorf("%w by readers", ErrLocked)

// Alone removes the token from the file of an exclusive lock: its holder cannot share after all.
func (l *Lock) Alone() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f != nil && l.token != "" {
		l.token = ""
		_, _ = l.f.WriteAt(ownHolder("").line(), 0) // shorter: only the first line counts
	}
}

// Token identifies this hold of an exclusive lock. No other hold has the same, not even of the same
// process. It is empty if the holder shares with nobody, or the file could not be written.
func (l *Lock) Token() string { return l.token }

// Holds reports whether the held lock is on the file that has the name now.
func (l *Lock) Holds(f *FS, name string) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return false, fs.ErrClosed
	}
	held, err := l.f.Stat()
	if err != nil {
		return false, err
	}
	there, err := f.in().Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(held, there), err
}

// LockToken returns the token of the process that holds or held the named lock exclusively, as far
// as its file tells.
func (f *FS) LockToken(name string) (string, error) {
	file, err := f.in().open(name, os.O_RDONLY, 0)
	if err != nil {
		return "", err
	}
	defer file.Close()
	return readHolder(file).token, nil
}

// LockMark tells the holds of the named lock apart: it changes whenever the lock is taken
// exclusively. It is empty if there is no file.
func (f *FS) LockMark(name string) (string, error) {
	file, err := f.in().open(name, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer file.Close()
	return readMark(file)
}

// Mark returns LockMark of the file of a held lock.
func (l *Lock) Mark() (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return "", nil
	}
	return readMark(l.f)
}

// readMark returns the token in a lock file, or when it was written if the last holder left none.
func readMark(file *os.File) (string, error) {
	if token := readHolder(file).token; token != "" {
		return token, nil
	}
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	return info.ModTime().UTC().Format(time.RFC3339Nano), nil
}

// Lock takes the lock of the named file without waiting: exclusive for a writer, shared for
// readers. When another handle, in this process or another, holds it in the way, the error wraps
// ErrLocked and tells process id and program of a writer and since when, as far as the file does.
// An exclusive lock creates the file and writes these into it, for people to read; a shared lock
// needs read permission only, and an absent file then counts as locked: there is no writer.
//
// The file also gets a token, which tells others that the holder may share with them what the lock
// protects. LockAlone leaves it out.
func (f *FS) Lock(name string, exclusive bool) (*Lock, error) {
	return f.lock(name, exclusive, rand.Text())
}

// LockAlone is Lock for an exclusive holder that shares with nobody.
func (f *FS) LockAlone(name string) (*Lock, error) { return f.lock(name, true, "") }

func (f *FS) lock(name string, exclusive bool, token string) (*Lock, error) {
	if err := f.before(Op{Kind: OpLock, Name: name}); err != nil {
		return nil, err
	}
	flag := os.O_RDONLY
	if exclusive {
		flag = os.O_RDWR | os.O_CREATE
	}
	file, err := f.in().open(name, flag, 0o600)
	if err != nil {
		if !exclusive && errors.Is(err, fs.ErrNotExist) {
			return &Lock{}, nil
		}
		return nil, err
	}
	held, err := flock(file, exclusive)
	if err == nil && held {
		err = heldBy(file, exclusive)
	}
	if err != nil {
		file.Close()
		return nil, &fs.PathError{Op: OpLock.String(), Path: name, Err: err}
	}
	l := &Lock{f: file}
	if exclusive {
		line := ownHolder(token).line()
		at := 0
		if token != "" {
			at = len(line)
			line = append(line, bellSilent, '\n')
		}
		if err := note(file, line); err == nil {
			l.token, l.at = token, at
		}
	}
	return l, nil
}

// Ring tells the holder of the named lock, which has a token, that another process takes its place.
// The lock must not change hands during the call.
func (f *FS) Ring(name string) error {
	file, err := f.in().open(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	var b [maxHolder]byte
	n, err := file.ReadAt(b[:], 0)
	if err != nil && err != io.EOF {
		return err
	}
	at := bytes.IndexByte(b[:n], '\n') + 1
	if at == 0 || at == n || b[at] != bellSilent && b[at] != bellRung {
		return &fs.PathError{Op: OpWrite.String(), Path: name, Err: errors.New("its holder shares with nobody")}
	}
	_, err = file.WriteAt([]byte{bellRung}, int64(at))
	return err
}

// Rung reports whether Ring may have been called for a held lock. It costs no system call: the file
// is mapped.
func (l *Lock) Rung() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bell == nil && l.at > 0 && l.f != nil {
		bell, err := mmap(l.f, l.at+1)
		if err != nil {
			return true
		}
		l.bell = bell
	}
	rung := true
	_ = Guard("lock", func() error { // somebody may have emptied the file
		rung = l.bell == nil || l.bell[l.at] != bellSilent
		return nil
	})
	return rung
}

// note replaces the content of the file of a lock, if it can: a full disk must not keep the writer
// out. It writes over an earlier line, which needs no more space. An empty first line names nobody.
func note(file *os.File, line []byte) error {
	for _, b := range [][]byte{{'\n'}, line} {
		if _, err := file.WriteAt(b, 0); err != nil {
			return err
		}
	}
	return file.Truncate(int64(len(line)))
}

// heldBy returns an error with the holder of a file's lock. Readers do not write their process id,
// so the file may still name an earlier writer.
func heldBy(file *os.File, exclusive bool) error {
	if exclusive {
		if held, err := flock(file, false); err == nil && !held { // held until the file is closed, immediately after
			return ErrReaders
		}
	}
	h := readHolder(file)
	if h.pid == 0 {
		return ErrLocked
	}
	return fmt.Errorf("%w by process %d%s", ErrLocked, h.pid, h.details())
}

// A holder is the content of a lock file: process id, program, time and token, separated by tabs.
// Earlier releases wrote no token, and before that the process id alone.
type holder struct {
	pid     int
	program string
	since   time.Time
	token   string
}

// maxHolder limits the bytes of a lock file that are read, and maxProgram the name of a program.
const (
	maxHolder  = 256
	maxProgram = 64
)

func ownHolder(token string) holder {
	program := ""
	if len(os.Args) > 0 {
		program = filepath.Base(os.Args[0]) // no arguments: they may hold secrets
	}
	return holder{os.Getpid(), program, time.Now(), token}
}

// line returns the content of the file. A name is shown to people: it is cut, and without control
// characters.
func (h holder) line() []byte {
	return fmt.Appendf(nil, "%d\t%s\t%s\t%s\n", h.pid, Printable(h.program, maxProgram),
		h.since.UTC().Format(time.RFC3339), h.token)
}

// Printable cuts a name that is shown to people to max bytes, and removes control characters from
// it.
func Printable(name string, max int) string {
	name = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, name)
	for len(name) > max {
		_, size := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-size]
	}
	return name
}

// details returns program and time of a holder, as far as they are known.
func (h holder) details() string {
	text := ""
	if h.program != "" {
		text += ", " + h.program
	}
	if !h.since.IsZero() {
		text += ", since " + h.since.UTC().Format(time.RFC3339)
	}
	if h.pid == os.Getpid() {
		text += ", this one"
	}
	return text
}

// readHolder reads a lock file, without the parts that cannot be read.
func readHolder(f io.ReaderAt) (h holder) {
	var b [maxHolder]byte
	n, err := f.ReadAt(b[:], 0)
	if err != nil && err != io.EOF {
		return holder{}
	}
	text, _, _ := strings.Cut(string(b[:n]), "\n")
	parts := strings.SplitN(strings.TrimSpace(text), "\t", 4)
	if h.pid, err = strconv.Atoi(parts[0]); err != nil || h.pid <= 0 {
		return holder{}
	}
	if len(parts) == 4 {
		h.token = Printable(parts[3], maxProgram)
	}
	if len(parts) >= 3 {
		h.program = Printable(parts[1], maxProgram)
		h.since, _ = time.Parse(time.RFC3339, parts[2]) // zero if it is something else
	}
	return h
}

// Unlock releases the lock that a library holds on its own file, so that other processes can open
// the file too. It fails with errors.ErrUnsupported on Windows.
func Unlock(f *os.File) error { return funlock(f) }

// Unheld reports whether nobody holds the lock of an open file. The handle must not hold it.
func Unheld(f *os.File) (bool, error) {
	held, err := flock(f, true)
	if held || err != nil {
		return false, err
	}
	return true, funlock(f)
}

// Close releases the lock. The file stays: removing it would let two holders in. Closing twice is
// fine.
func (l *Lock) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return nil
	}
	var err error
	if l.bell != nil {
		err = munmap(l.bell) // or the lock would last
		l.bell = nil
	}
	err = errors.Join(err, l.f.Close())
	l.f = nil
	return err
}
