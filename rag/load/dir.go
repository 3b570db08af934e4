package load

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/vecbolt/vecbolt/internal/vfs"
)

// ignoreFiles are files of patterns that exclude paths in their directory and below it.
var ignoreFiles = []string{".gitignore", ".vecboltignore"}

// readIgnore appends the patterns of the files in a directory to a list. name is the directory as
// the names to match begin.
func readIgnore(list ignore, dir, name string) (ignore, error) {
	list = slices.Clip(list)
	for _, file := range ignoreFiles {
		b, err := vfs.ReadFile(filepath.Join(dir, file))
		switch {
		case err == nil:
			list = append(list, patterns(name, strings.Split(strings.TrimPrefix(string(b), mark), "\n"))...)
		case !errors.Is(err, fs.ErrNotExist) && !errors.As(err, new(*vfs.NotRegularError)):
			return nil, err
		}
	}
	return list, nil
}

// rulesAbove returns the patterns in the directories above root, up to the top of its repository,
// and the path of root below the top. Outside of a repository nothing above counts, because no
// directory tells where to stop.
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
		ignored := name != "." && parent.matches(inRules, e.IsDir())
		full := filepath.Join(root, filepath.FromSlash(name))
		ignored = ignored || exclude.matches(name, e.IsDir()) || o.Skip != nil && o.Skip(full)
		if hidden || e.Name() == ".git" || ignored {
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
		if len(include) > 0 && !include.matches(name, false) || e.Type() == fs.ModeSymlink {
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

// ignore is a list of patterns; the last that matches decides.
type ignore []pattern

type pattern struct {
	re     *regexp.Regexp
	keep   bool // begins with !
	dirs   bool // ends with /
	within string
}

// patterns compiles lines in the syntax of gitignore(5) for a directory. A line that cannot be
// compiled matches nothing.
func patterns(dir string, lines []string) ignore {
	var list ignore
	for _, line := range lines {
		line = strings.TrimRight(line, " \t\r")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		p := pattern{within: dir}
		line, p.keep = strings.CutPrefix(line, "!")
		line, p.dirs = strings.CutSuffix(line, "/")
		anchored := strings.Contains(line, "/")
		line = strings.TrimPrefix(line, "/")
		var re strings.Builder
		re.WriteString("^")
		if !anchored {
			re.WriteString("(?:.*/)?")
		}
		for i := 0; i < len(line); i++ {
			switch rest := line[i:]; {
			case strings.HasPrefix(rest, "**/"):
				re.WriteString("(?:.*/)?")
				i += 2
			case strings.HasPrefix(rest, "**"):
				re.WriteString(".*")
				i++
			case line[i] == '*':
				re.WriteString("[^/]*")
			case line[i] == '?':
				re.WriteString("[^/]")
			case line[i] == '[' && strings.Contains(rest, "]"):
				end := i + strings.Index(rest, "]")
				class := strings.ReplaceAll(line[i+1:end], `\`, `\\`)
				if after, ok := strings.CutPrefix(class, "!"); ok {
					class = "^" + after
				}
				re.WriteString("[" + class + "]")
				i = end
			case line[i] == '\\' && i+1 < len(line):
				i++
				re.WriteString(regexp.QuoteMeta(line[i : i+1]))
			default:
				re.WriteString(regexp.QuoteMeta(line[i : i+1]))
			}
		}
		re.WriteString("$")
		var err error
		if p.re, err = regexp.Compile(re.String()); err == nil {
			list = append(list, p)
		}
	}
	return list
}

func (l ignore) matches(name string, dir bool) bool {
	matched := false
	for _, p := range l {
		rel := name
		if p.within != "" && p.within != "." {
			var below bool
			if rel, below = strings.CutPrefix(name, p.within+"/"); !below {
				continue
			}
		}
		if (!p.dirs || dir) && p.re.MatchString(rel) {
			matched = !p.keep
		}
	}
	return matched
}
