package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// NotRegularError reports another kind of file, or a link to nothing, in place of a regular file or
// a directory.
type NotRegularError struct {
	Name string      // as given to the call
	Mode fs.FileMode // of the file found
}

// Error returns the name of the file and its kind.
func (e *NotRegularError) Error() string { return e.Name + ": " + e.Reason() }

// Reason returns the kind of file, without the name.
func (e *NotRegularError) Reason() string {
	kind := "a special file"
	switch e.Mode.Type() {
	case 0:
		return "a regular file, not a directory"
	case fs.ModeSymlink:
		return "a link to nothing"
	case fs.ModeDir:
		kind = "a directory"
	case fs.ModeNamedPipe:
		kind = "a named pipe"
	case fs.ModeSocket:
		kind = "a socket"
	}
	return kind + ", not a regular file"
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
		// A socket cannot be opened, nor a directory for writing, nor a link to nothing: return our
		// error, not the system's.
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ELOOP) {
			stat = lstat
		}
		if st, serr := stat(); serr == nil && !st.Mode().IsRegular() {
			return nil, fmt.Errorf("%w (%w)", &NotRegularError{name, st.Mode()}, reason(err))
		}
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = &NotRegularError{name, st.Mode()}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// reason returns an error of the system without the name of the file.
func reason(err error) error {
	if e, ok := err.(*fs.PathError); ok {
		return e.Err
	}
	return err
}

// openDir opens a directory below root.
func openDir(root *os.Root, name string) (*os.File, error) {
	d, err := root.OpenFile(name, os.O_RDONLY|nonBlock, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ELOOP) {
		if st, serr := root.Lstat(name); serr == nil && st.Mode().Type() == fs.ModeSymlink {
			return nil, fmt.Errorf("%w (%w)", &NotRegularError{name, st.Mode()}, reason(err))
		}
	}
	if err != nil {
		return nil, err
	}
	if st, err := d.Stat(); err != nil || !st.IsDir() {
		d.Close()
		if err == nil {
			err = &fs.PathError{Op: OpOpen.String(), Path: name, Err: syscall.ENOTDIR}
		}
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
