package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Is reports whether info describes the directory itself.
func (f *FS) Is(info fs.FileInfo) (bool, error) {
	here, err := f.in().Stat(".")
	return err == nil && os.SameFile(here, info), err
}

// Moved reports whether the path given to Open leads to another directory now.
func (f *FS) Moved() (bool, error) {
	here, err := f.in().Stat(".")
	if err != nil {
		return false, err
	}
	there, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // renamed, with nothing in its place
	}
	return err == nil && !os.SameFile(here, there), err
}

// Reopen uses the directory to which the path given to Open leads now. Files that are open keep
// referring to the directory before.
func (f *FS) Reopen() error {
	root, err := os.OpenRoot(f.path)
	if err != nil {
		return err
	}
	var in directory = rooted{root}
	f.root.Store(&in) // calls may still use the one before; the collector closes it
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = nil
	return nil
}

// LinkTo gives a file another name: the same one below another FS of the same file system.
func (f *FS) LinkTo(to *FS, name string) error {
	name, err := f.Real(name)
	if err != nil {
		return err
	}
	return os.Link(filepath.Join(f.path, name), filepath.Join(to.path, name))
}

// Exchange swaps the names of two directories of the same file system in one step. It fails with
// errors.ErrUnsupported where the system cannot do that.
func Exchange(a, b string) error { return exchange(a, b) }
