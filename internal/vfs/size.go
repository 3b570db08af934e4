package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// DirSize returns the bytes of all regular files in a directory. It follows symbolic links.
// Other processes may use the directory: a file that vanishes counts nothing.
func DirSize(dir string) (int64, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return 0, err
	}
	return dirSize(dir, []fs.FileInfo{info})
}

// dirSize is DirSize for the last directory of a path; a link back to an earlier one has no end.
func dirSize(dir string, path []fs.FileInfo) (total int64, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		info, err := os.Stat(name)
		n := int64(0)
		switch {
		case err != nil:
		case info.Mode().IsRegular():
			n = info.Size()
		case info.IsDir() && !slices.ContainsFunc(path, func(up fs.FileInfo) bool { return os.SameFile(up, info) }):
			n, err = dirSize(name, append(slices.Clip(path), info))
		}
		if total += n; err != nil && !errors.Is(err, fs.ErrNotExist) {
			return total, err
		}
	}
	return total, nil
}
