package main

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/vecbolt/vecbolt/internal/vfs"
)

// spare refuses output files that lie inside the database: they would damage it. Names that are
// empty or "-" are not files.
func (d database) spare(names ...string) error {
	for _, name := range names {
		if name == "" || name == "-" {
			continue
		}
		inside, err := vfs.Inside(name, d.DB)
		if err != nil {
			return err
		}
		if inside {
			return fmt.Errorf("%s lies inside the database directory %s", name, d.DB)
		}
	}
	return nil
}

// sameFile reports whether two names of output files lead to the same file, which need not be
// there.
func sameFile(a, b string) bool {
	stat := func(name string) (fs.FileInfo, error) {
		if name == "-" {
			return os.Stdout.Stat()
		}
		return os.Stat(name)
	}
	x, errX := stat(a)
	y, errY := stat(b)
	if errX != nil && errY != nil && filepath.Base(a) == filepath.Base(b) {
		x, errX = os.Stat(filepath.Dir(a))
		y, errY = os.Stat(filepath.Dir(b))
	}
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// write writes a file as a whole: until it is complete, an earlier one of that name stays. "-" is
// the standard output.
func (t *tool) write(name string, write func(io.Writer) error) error {
	if name == "-" && t.json {
		return errors.New("the file is not JSON: with --json, name a file")
	}
	out, err := t.create(name)
	if err != nil {
		return err
	}
	defer out.drop()
	if err := write(out); err != nil {
		return err
	}
	return keep(out)
}

// create begins a file, which takes the place of an earlier one of that name when it is kept; "-"
// is the standard output. drop must be called.
func (t *tool) create(name string) (*outFile, error) {
	if name == "-" {
		return &outFile{Writer: t.out}, nil
	}
	info, err := os.Stat(name)
	switch {
	case err == nil && info.Mode().IsRegular():
		if name, err = filepath.EvalSymlinks(name); err != nil {
			return nil, err
		}
	case err == nil: // a device, or a pipe
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		return &outFile{Writer: bufio.NewWriter(f), file: f}, nil
	}
	part := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+"."+rand.Text()[:8])
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		if p, ok := errors.AsType[*fs.PathError](err); ok {
			p.Path = name // which the caller knows
		}
		return nil, err
	}
	if info != nil {
		if err := f.Chmod(info.Mode().Perm()); err != nil {
			return nil, errors.Join(err, f.Close(), os.Remove(part))
		}
	}
	return &outFile{Writer: bufio.NewWriter(f), file: f, part: part, name: name}, nil
}

// An outFile is a buffered file.
type outFile struct {
	*bufio.Writer
	file       *os.File // nil for the standard output, and after complete
	part, name string   // part becomes name; empty: file is written in place, or has its name
	before     string   // a second name of the earlier file, until all files have theirs
	settled    bool
}

// keep gives files their names. All are complete before the first gets its own, and if one cannot
// get it, the others give theirs back: an error leaves the earlier files, which belong together
// like these.
func keep(files ...*outFile) error {
	for _, o := range files {
		if err := o.complete(); err != nil {
			return err
		}
	}
	for i, o := range files {
		last := i == len(files)-1
		if err := o.settle(last); err != nil {
			for _, done := range files[:i] {
				err = errors.Join(err, done.unsettle())
			}
			return err
		}
	}
	return nil
}

// complete writes the rest of the file.
func (o *outFile) complete() error {
	err := o.Flush()
	f := o.file
	if f == nil || err != nil {
		return err
	}
	if o.part != "" {
		err = f.Sync()
	}
	o.file = nil
	return errors.Join(err, f.Close())
}

// settle gives a complete file its name. Unless it is the last one, the earlier file is kept for
// unsettle.
func (o *outFile) settle(last bool) error {
	if o.part == "" {
		return nil
	}
	if info, err := os.Lstat(o.name); !last && err == nil && info.Mode().IsRegular() {
		before := o.part + ".before"
		if os.Link(o.name, before) != nil { // a file system without links
			if err := os.Rename(o.name, before); err != nil {
				return err
			}
		}
		o.before = before
	}
	if err := os.Rename(o.part, o.name); err != nil {
		return errors.Join(err, o.restore())
	}
	o.part, o.settled = "", true
	return nil
}

// unsettle takes the name away that settle gave.
func (o *outFile) unsettle() error {
	switch {
	case !o.settled: // it is written in place
		return nil
	case o.before == "":
		return os.Remove(o.name)
	}
	return o.restore()
}

// restore gives the earlier file its name back, if it was kept.
func (o *outFile) restore() error {
	before := o.before
	if o.before = ""; before == "" {
		return nil
	}
	if err := os.Rename(before, o.name); err != nil {
		return fmt.Errorf("%w; the earlier file is %s", err, before)
	}
	os.Remove(before) // is there if both are names of one file
	return nil
}

// drop removes a file that was not kept, or the second name of the earlier one.
func (o *outFile) drop() {
	if o.file != nil {
		o.file.Close()
	}
	if o.part != "" {
		os.Remove(o.part)
	}
	if o.before != "" {
		os.Remove(o.before)
	}
}
