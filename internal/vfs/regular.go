package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// NotRegularError reports something else, or a link that leads to nothing, in place of a regular
// file or a directory. It wraps Err.
type NotRegularError struct {
	Name string      // as given to the call
	Mode fs.FileMode // of the file found
	Err  error       // why it was not opened; nil if only its mode tells, errNotDir in place of a directory
}

// Error returns the name of the file and its kind.
func (e *NotRegularError) Error() string { return e.Name + ": " + e.Reason() }

// Unwrap returns Err.
func (e *NotRegularError) Unwrap() error { return e.Err }

// Reason returns the kind of file, without the name.
func (e *NotRegularError) Reason() string {
	kind, want := "a special file", "a regular file"
	if errors.Is(e.Err, errNotDir) {
		want = "a directory"
	}
	switch e.Mode.Type() {
	case 0:
		kind = "a regular file"
	case fs.ModeSymlink:
		switch {
		case errors.Is(e.Err, syscall.ELOOP):
			return "a loop of links"
		case escapes(e.Err):
			return "a link that leads out of the directory"
		}
		return "a link to nothing"
	case fs.ModeDir:
		kind = "a directory"
	case fs.ModeNamedPipe:
		kind = "a named pipe"
	case fs.ModeSocket:
		kind = "a socket"
	}
	return kind + ", not " + want
}

// escapes reports whether an [os.Root] has refused to follow a path. Its error has no name, but it
// is no error of the system.
func escapes(err error) bool {
	return err != nil && !errors.As(err, new(syscall.Errno)) && !errors.Is(err, fs.ErrClosed)
}

// astray returns a *NotRegularError if a name that cannot be opened is a link that leads to
// nothing, and otherwise err. The target of a link that is there but cannot be read is no such
// thing.
func astray(name string, err error, lstat func() (fs.FileInfo, error)) error {
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) && !errors.Is(err, syscall.ELOOP) &&
		!escapes(err) {
		return err
	}
	if st, serr := lstat(); serr == nil && st.Mode().Type() == fs.ModeSymlink {
		return &NotRegularError{name, st.Mode(), reason(err)}
	}
	return err
}

// Opening a named pipe blocks until another process opens its other end, unless it is opened with
// nonBlock. So the opened file is checked before anything is read. Symbolic links are followed;
// below a root, only to targets inside it.

// OpenIn opens a regular file below root. Anything else is a *NotRegularError, without blocking.
func OpenIn(root *os.Root, name string, flag int, perm fs.FileMode) (*os.File, error) {
	return regular(name, func() (*os.File, error) { return root.OpenFile(name, flag|nonBlock, perm) },
		func() (fs.FileInfo, error) { return root.Stat(name) }, func() (fs.FileInfo, error) { return root.Lstat(name) })
}

// OpenFile opens a regular file by its path, for reading. Anything else is a *NotRegularError,
// without blocking.
func OpenFile(path string) (*os.File, error) {
	return regular(path, func() (*os.File, error) { return os.OpenFile(path, os.O_RDONLY|nonBlock, 0) },
		func() (fs.FileInfo, error) { return os.Stat(path) }, func() (fs.FileInfo, error) { return os.Lstat(path) })
}

// ReadFile returns the content of a regular file. Anything else is a *NotRegularError, without
// blocking.
func ReadFile(path string) ([]byte, error) {
	f, err := OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

func regular(name string, open func() (*os.File, error), stat, lstat func() (fs.FileInfo, error)) (*os.File, error) {
	f, err := open()
	if err != nil {
		// A socket cannot be opened, nor a directory for writing: the system's error does not say
		// which it is.
		if st, serr := stat(); serr == nil && !st.Mode().IsRegular() {
			return nil, &NotRegularError{name, st.Mode(), reason(err)}
		}
		return nil, astray(name, err, lstat)
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = &NotRegularError{Name: name, Mode: st.Mode()}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// ReadDir is os.ReadDir, for which a file in place of a directory is no fs.ErrNotExist, on Windows
// either.
func ReadDir(dir string) ([]fs.DirEntry, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if st, serr := os.Stat(dir); serr == nil && !st.IsDir() {
			err = &fs.PathError{Op: OpReadDir.String(), Path: dir, Err: errNotDir}
		}
	}
	return entries, err
}

// reason returns an error of the system without the name of the file.
func reason(err error) error {
	if e, ok := err.(*fs.PathError); ok {
		return e.Err
	}
	return err
}

// openDir opens a directory below root. Anything else is a *NotRegularError.
func openDir(root *os.Root, name string) (*os.File, error) {
	d, err := root.OpenFile(name, os.O_RDONLY|nonBlock, 0)
	if err != nil {
		if st, serr := root.Stat(name); serr == nil && !st.IsDir() { // a socket
			return nil, &NotRegularError{name, st.Mode(), errNotDir}
		}
		return nil, astray(name, err, func() (fs.FileInfo, error) { return root.Lstat(name) })
	}
	st, err := d.Stat()
	if err == nil && !st.IsDir() {
		err = &NotRegularError{name, st.Mode(), errNotDir}
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// MapFile is ReadFile that maps the file read-only, whole.
func MapFile(path string) (*Mapping, error) {
	f, err := OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if int64(int(info.Size())) != info.Size() {
		return nil, &fs.PathError{Op: OpMap.String(), Path: path, Err: ErrTooLarge}
	}
	if info.Size() == 0 {
		return &Mapping{}, nil // systems refuse empty mappings
	}
	b, err := mmap(f, int(info.Size()))
	if err != nil {
		return nil, &fs.PathError{Op: OpMap.String(), Path: path, Err: err}
	}
	return &Mapping{b: b}, nil
}
