package load

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vecbolt/vecbolt/internal/vfs"
)

// ignoreFiles are files of patterns that exclude paths in their directory and below it.
var ignoreFiles = []string{".gitignore", ".vecboltignore"}

// readIgnore appends the patterns of the files in a directory to a list. name is the path of the
// directory as the names to match have it.
func readIgnore(list ignore, dir, name string) (ignore, error) {
	list = slices.Clip(list)
	var err error
	for _, file := range ignoreFiles {
		if list, err = readPatterns(list, filepath.Join(dir, file), name); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// readPatterns appends the patterns of a file to a list, if it exists.
func readPatterns(list ignore, file, name string) (ignore, error) {
	b, err := vfs.ReadFile(file)
	if err == nil {
		return append(list, patterns(name, strings.Split(strings.TrimPrefix(string(b), mark), "\n"))...), nil
	}
	other, ok := errors.AsType[*vfs.NotRegularError](err)
	loop := ok && other.Mode.Type() == fs.ModeSymlink
	if errors.Is(err, fs.ErrNotExist) || ok && !loop {
		return list, nil
	}
	return nil, err
}

// rulesAbove returns the patterns of the repository of root: its own ones, and those in the
// directories above root. below is the path of root in the repository. Outside of a repository
// nothing above counts, because no directory tells where to stop.
func rulesAbove(root string) (list ignore, below string, err error) {
	dir, err := filepath.Abs(root)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, "", err
	}
	dirs := []string{dir}
	for {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil { // a file in a work tree or submodule
			break
		}
		up := filepath.Dir(dir)
		if up == dir {
			return nil, "", nil
		}
		dir = up
		dirs = append(dirs, dir)
	}
	if list, err = ownRules(dir); err != nil {
		return nil, "", err
	}
	for _, above := range slices.Backward(dirs) {
		rel, err := filepath.Rel(dir, above)
		if err != nil {
			return nil, "", err
		}
		if below = filepath.ToSlash(rel); above == dirs[0] {
			break
		}
		if list, err = readIgnore(list, above, below); err != nil {
			return nil, "", err
		}
	}
	return list, below, nil
}

// walk yields the files to read below root. It skips symbolic links. A pipe, a socket or a device
// yields a *SkipError, because reading it could block forever. So does a directory that cannot be
// read, or whose rules cannot. walk continues after a *SkipError; any other error is the last.
func walk(ctx context.Context, root string, o *Options, yield func(string, error) bool) {
	include, exclude := patterns("", o.Include), patterns("", o.Exclude)
	rules := map[string]ignore{} // by directory, including the directories above root
	var above ignore
	var below string
	if !o.Ignored {
		var err error
		if above, below, err = rulesAbove(root); err != nil {
			yield("", &SkipError{Source: root, Err: err})
			return
		}
	}
	more := true
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, e fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			if more = yield("", &SkipError{Source: filepath.Join(root, name), Err: err}); !more {
				return fs.SkipAll
			}
			if e != nil && e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		parent, inRules := above, path.Join(below, name)
		if name != "." {
			parent = rules[path.Dir(name)]
		}
		hidden := name != "." && strings.HasPrefix(e.Name(), ".") && !o.Hidden
		ignored := name != "." && (parent.matches(inRules, e.IsDir()) || exclude.matches(name, e.IsDir()))
		full := filepath.Join(root, filepath.FromSlash(name))
		if hidden || e.Name() == ".git" || ignored || o.Skip != nil && o.Skip(full) {
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if e.IsDir() {
			rules[name] = parent
			if !o.Ignored {
				if rules[name], err = readIgnore(parent, full, inRules); err != nil {
					if more = yield("", &SkipError{Source: full, Err: err}); !more {
						return fs.SkipAll
					}
					return fs.SkipDir
				}
			}
			return nil
		}
		if len(include) > 0 && !include.covers(name) || e.Type() == fs.ModeSymlink {
			return nil
		}
		if !e.Type().IsRegular() {
			if more = yield("", &SkipError{Source: full,
				Err: errors.New((&vfs.NotRegularError{Mode: e.Type()}).Reason())}); !more {
				return fs.SkipAll
			}
			return nil
		}
		if more = yield(full, nil); !more {
			return fs.SkipAll
		}
		return nil
	})
	if err != nil && more {
		yield("", err)
	}
}
