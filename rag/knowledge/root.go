package knowledge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/vecbolt/vecbolt/db"
)

// A root is the directory that the file ids of a base are relative to. The base records it, so that
// an id means the same file from any working directory. Files elsewhere have absolute paths as ids.
type root struct {
	dir   string // absolute, without symbolic links
	wd    string // the working directory, absolute, without symbolic links
	guess bool   // the base has no recorded root, and none of its files exist below dir
}

// rooted is the field in the metadata of the collection of files that stores the root. A root that
// contains the directory of the base is stored relative to it, so that both can be moved together;
// any other root is absolute.
const rooted = "root"

// root returns the root of a base. For a new base it is the working directory. So it is for a base
// from before roots were recorded, unless more of its files exist below a parent of a learnt path
// or of the workspace.
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
	info, err := files.Info()
	if err != nil {
		return r, err
	}
	if recorded, ok := info.Metadata[rooted].(string); ok {
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

// count returns how many of paths exist below the root.
func (r root) count(paths []string) (n int) {
	for _, path := range paths {
		if _, err := os.Stat(filepath.Join(r.dir, path)); err == nil {
			n++
		}
	}
	return n
}

// realDir returns the absolute directory of a base, with symbolic links resolved if it exists.
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

// recorded returns the root as the base in a directory stores it.
func (r root) recorded(base string) string {
	if rel, ok := below(r.dir, base); ok {
		if up, err := filepath.Rel(rel, "."); err == nil {
			return filepath.ToSlash(up)
		}
	}
	return filepath.ToSlash(r.dir)
}

// below returns path relative to dir, if it lies below dir.
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

// id returns the id of a file or directory: its path below the root, after resolving symbolic links
// if necessary, or its absolute path. A link below the root keeps its name, because it may lead to
// a new version of its files later, which are to replace the old ones.
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
	if runtime.GOOS == "windows" && strings.EqualFold(real, path) {
		path = real // the file has one name, in whatever case it is typed
	}
	for _, way := range []string{path, filepath.Join(parent, filepath.Base(path)), real} {
		if rel, ok := below(r.dir, way); ok {
			return fileID(filepath.ToSlash(rel))
		}
	}
	return filepath.ToSlash(path)
}

// fileID returns the id for a path. A file named "-" must not get the id of the standard input.
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

// has reports whether the file is id itself or lies below directory id.
func (r root) has(id, file string) bool {
	if file == stdin {
		return false
	}
	dir, path := r.file(id), r.file(file)
	_, inside := below(dir, path)
	return inside
}
