package load

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"

	"github.com/vecbolt/vecbolt/internal/vfs"
)

// gitDir returns the directory in which git keeps a repository, or "" if none is known. The work
// trees of a repository share it.
func gitDir(top string) string {
	dir := filepath.Join(top, ".git")
	if b, err := vfs.ReadFile(dir); err == nil { // of a work tree or a submodule
		to, ok := strings.CutPrefix(string(b), "gitdir:")
		if !ok {
			return ""
		}
		dir = inDir(top, to)
		if b, err := vfs.ReadFile(filepath.Join(dir, "commondir")); err == nil {
			dir = inDir(dir, string(b))
		}
	}
	return dir
}

// inDir returns the path that a file of git names in a directory.
func inDir(dir, file string) string {
	if file = filepath.FromSlash(strings.TrimSpace(file)); filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(dir, file)
}

// ownRules returns the patterns of the repository in top that are in none of its directories: those
// of the user for all repositories, and those that the repository does not track. As in git, later
// ones decide.
func ownRules(top string) (list ignore, err error) {
	dir := gitDir(top)
	if file := usersExcludes(top, dir); file != "" {
		// The file may be out of reach, as for a service without a home. Git goes on then as well.
		list, _ = readPatterns(nil, file, ".")
	}
	if dir == "" {
		return list, nil
	}
	return readPatterns(list, filepath.Join(dir, "info", "exclude"), ".")
}

// usersExcludes returns the file that the key core.excludesFile names, or its default, or "" if the
// user has no home. The repository's configuration comes first, and then the user's; files that
// they include are not read.
func usersExcludes(top, dir string) string {
	home, _ := os.UserHomeDir()
	config := os.Getenv("XDG_CONFIG_HOME")
	if config == "" && home != "" {
		config = filepath.Join(home, ".config")
	}
	var files []string
	if global, ok := os.LookupEnv("GIT_CONFIG_GLOBAL"); ok {
		files = append(files, global)
	} else {
		if home != "" {
			files = append(files, filepath.Join(home, ".gitconfig"))
		}
		if config != "" {
			files = append(files, filepath.Join(config, "git", "config"))
		}
	}
	if dir != "" {
		files = append([]string{filepath.Join(dir, "config")}, files...)
	}
	for _, name := range files {
		b, err := vfs.ReadFile(name)
		if err != nil {
			continue
		}
		file, ok := configured(string(b))
		if !ok {
			continue
		}
		if rest, inHome := strings.CutPrefix(file, "~/"); inHome && home != "" {
			return inDir(home, rest)
		}
		if file == "" {
			return ""
		}
		return inDir(top, file)
	}
	if config == "" {
		return ""
	}
	return filepath.Join(config, "git", "ignore")
}

// configured returns the value of core.excludesFile in a configuration of git; ok is false if it
// has none. The last one counts.
func configured(config string) (value string, ok bool) {
	in := false
	config = strings.ReplaceAll(strings.TrimPrefix(config, mark), "\r\n", "\n")
	for line := range strings.Lines(strings.ReplaceAll(config, "\\\n", "")) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section, rest, _ := strings.Cut(line[1:], "]")
			in, line = strings.EqualFold(strings.TrimSpace(section), "core"), strings.TrimSpace(rest)
		}
		key, v, set := strings.Cut(line, "=")
		if in && set && strings.EqualFold(strings.TrimSpace(key), "excludesFile") {
			value, ok = unquoted(v), true
		}
	}
	return value, ok
}

// unquoted returns a value of a configuration of git, without the comment behind it.
func unquoted(v string) string {
	var b strings.Builder
	quoted, spaces := false, ""
	for i := 0; i < len(v); i++ {
		c := v[i]
		switch {
		case c == '"':
			quoted = !quoted
			continue
		case !quoted && (c == '#' || c == ';'):
			return b.String()
		case !quoted && (c == ' ' || c == '\t' || c == '\n'):
			spaces += string(c)
			continue
		case c == '\\' && i+1 < len(v):
			i++
			c = cmp.Or(map[byte]byte{'n': '\n', 't': '\t', 'b': '\b'}[v[i]], v[i])
		}
		if b.Len() > 0 {
			b.WriteString(spaces)
		}
		spaces = ""
		b.WriteByte(c)
	}
	return b.String()
}
