package knowledge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/vecbolt/vecbolt/db"
)

// A root is the directory that the ids of the files of a base are relative to.
// The base records it, so that an id means the same file whatever directory the
// program works in. Files elsewhere have their absolute paths as ids.
type root struct {
	dir   string // absolute, without links
	wd    string // the working directory, absolute, without links
	guess bool   // of a base without a recorded root that has none of its files
}

// rooted is the field of the metadata of the collection of files that holds the
// root: relative to the directory of the base if that lies below it, so that
// both can be moved together, or absolute.
const rooted = "root"

// root returns the root of a base. A new base has the working directory; so has
// one from before roots were recorded, unless its files are elsewhere: above
// one of the paths to learn, or beside the workspace.
func (e *Engine) root(
	ctx context.Context, name string, files *db.Collection, paths []string,
) (r root, err error) {
	if r.wd, err = os.Getwd(); err == nil {
		r.wd, err = filepath.EvalSymlinks(r.wd)
	}
	if err != nil {
		return r, fmt.Errorf("working directory: %w", err)
	}
	base, err := e.realDir(name)
	if err != nil {
		return r, err
	}
	if recorded, ok := files.Metadata()[rooted].(string); ok {
		if r.dir = filepath.FromSlash(recorded); !filepath.IsAbs(r.dir) {
			r.dir = filepath.Join(base, r.dir)
		}
		return r, nil
	}
	r.dir = r.wd
	const enough = 1000
	var relative []string
	for d, err := range files.All(ctx, nil, db.IDsOnly) {
		if err != nil {
			return r, err
		}
		if d.ID != stdin && !filepath.IsAbs(d.ID) {
			if relative = append(relative, filepath.FromSlash(d.ID)); len(relative) == enough {
				break
			}
		}
	}
	if len(relative) == 0 {
		return r, nil
	}
	most := r.count(relative)
	for _, path := range append([]string{base}, paths...) {
		above := root{dir: filepath.Dir(r.absolute(path))}
		for ; ; above.dir = filepath.Dir(above.dir) {
			if n := above.count(relative); n > most {
				r.dir, most = above.dir, n
			}
			if above.dir == filepath.Dir(above.dir) {
				break
			}
		}
	}
	r.guess = most == 0
	return r, nil
}

// count returns how many paths exist below the root.
func (r root) count(paths []string) (n int) {
	for _, path := range paths {
		if _, err := os.Stat(filepath.Join(r.dir, path)); err == nil {
			n++
		}
	}
	return n
}

// realDir returns the directory of a base, absolute and, if it exists, without links.
func (e *Engine) realDir(name string) (string, error) {
	dir, err := filepath.Abs(e.dir(name))
	if err != nil {
		return "", fmt.Errorf("directory of the base: %w", err)
	}
	real, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return dir, nil
	}
	if err != nil {
		return "", fmt.Errorf("directory of the base: %w", err)
	}
	return real, nil
}

// recorded returns what is kept of the root by a base in a directory.
func (r root) recorded(base string) string {
	if rel, ok := below(r.dir, base); ok {
		if up, err := filepath.Rel(rel, "."); err == nil {
			return filepath.ToSlash(up)
		}
	}
	return filepath.ToSlash(r.dir)
}

// below returns the path of a file relative to a directory that it is in.
func below(dir, path string) (rel string, ok bool) {
	rel, err := filepath.Rel(dir, path)
	return rel, err == nil && filepath.IsLocal(rel)
}

// absolute returns the path of a file that the program or an id names.
func (r root) absolute(path string) string {
	if path = filepath.FromSlash(path); filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(r.wd, path)
}

// id returns the id of a file or directory: its path below the root, with
// links above it followed if need be, or else its absolute path.
func (r root) id(path string) string {
	path = r.absolute(path)
	parent, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		parent = filepath.Dir(path)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		real = path
	}
	for _, way := range []string{path, filepath.Join(parent, filepath.Base(path)), real} {
		if rel, ok := below(r.dir, way); ok {
			return fileID(filepath.ToSlash(rel))
		}
	}
	return filepath.ToSlash(path)
}

// fileID returns the id for a path: a file of the name - is not the standard input.
func fileID(path string) string {
	if path == stdin {
		return "./" + path
	}
	return path
}

// file returns the absolute path of a file by its id.
func (r root) file(id string) string {
	if id = filepath.FromSlash(id); filepath.IsAbs(id) {
		return filepath.Clean(id)
	}
	return filepath.Join(r.dir, id)
}

// has reports whether the file or directory of one id is that of another, or
// has it somewhere below it.
func (r root) has(id, file string) bool {
	if file == stdin {
		return false
	}
	dir, path := r.file(id), r.file(file)
	_, inside := below(dir, path)
	return inside
}
