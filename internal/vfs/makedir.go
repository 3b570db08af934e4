package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// MakeDir creates a directory and its parents and makes their names durable. If it exists, MakeDir
// does nothing. hook may be nil; it sees the names of directories relative to their parents.
func MakeDir(dir string, hook Hook) error {
	_, err := os.Stat(dir)
	if err == nil {
		return nil
	}
	dir = filepath.Clean(dir)
	parent, name := filepath.Dir(dir), filepath.Base(dir)
	if parent == dir { // a drive or a share of Windows that is not there
		return err
	}
	if err := MakeDir(parent, hook); err != nil {
		return err
	}
	f, err := Open(parent, hook)
	if err != nil {
		return err
	}
	if err = f.Mkdir(name); err != nil {
		err = whole(err, dir)
	} else if err = f.SyncDir("."); err != nil {
		_ = f.Remove(name) // so that the next call does not take it for durable
	}
	return errors.Join(err, f.Close())
}

// whole gives an error of Mkdir the path in place of its last part.
func whole(err error, dir string) error {
	switch e := err.(type) {
	case *fs.PathError:
		return &fs.PathError{Op: OpMkdir.String(), Path: dir, Err: e.Err}
	case *NotRegularError:
		return &NotRegularError{dir, e.Mode, e.Err}
	}
	return err
}
