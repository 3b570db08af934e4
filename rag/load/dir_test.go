package load

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tree makes files, all with text but those whose content is given after "=".
func tree(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		name, content, ok := strings.Cut(f, "=")
		if !ok {
			content = "text"
		}
		path := filepath.Join(dir, filepath.FromSlash(name))
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, []byte(content), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// list returns the files of a directory, below it, in order.
func list(t *testing.T, dir string, o *Options) (files, skipped []string) {
	t.Helper()
	for name, err := range Files(t.Context(), dir, o) {
		to := &files
		var skip *SkipError
		if errors.As(err, &skip) {
			to, name, err = &skipped, skip.Source, nil
		}
		if err == nil {
			name, err = filepath.Rel(dir, name)
		}
		if err != nil {
			t.Fatal(err)
		}
		*to = append(*to, filepath.ToSlash(name))
	}
	slices.Sort(files)
	return files, skipped
}

// Rules above the directory count up to the top of its repository.
func TestRulesAbove(t *testing.T) {
	userHome(t, t.TempDir())
	files := []string{".gitignore=*.outer\n", "proj/.gitignore=docs/secret.txt\n/sub.txt\n*.log\n", "proj/docs/.gitignore=!keep.log\n",
		"proj/.vecboltignore=docs/sub/private\n",
		"proj/docs/a.txt", "proj/docs/secret.txt", "proj/docs/sub.txt", "proj/docs/x.log", "proj/docs/keep.log", "proj/docs/b.outer",
		"proj/docs/sub/secret.txt", "proj/docs/sub/private/c.txt"}
	all := []string{"a.txt", "b.outer", "keep.log", "secret.txt", "sub.txt", "sub/private/c.txt", "sub/secret.txt", "x.log"}
	for _, tt := range []struct {
		name, git string
		o         *Options
		want      []string
	}{
		{"repository", "proj/.git/HEAD", nil, []string{"a.txt", "b.outer", "keep.log", "sub.txt", "sub/secret.txt"}},
		{"work tree", "proj/.git", nil, []string{"a.txt", "b.outer", "keep.log", "sub.txt", "sub/secret.txt"}},
		{"the directory itself", "proj/docs/.git/HEAD", nil, all},
		{"further up", ".git/HEAD", nil, []string{"a.txt", "keep.log", "sub.txt", "sub/secret.txt"}},
		{"none", "other", nil, all},
		{"off", "proj/.git/HEAD", &Options{Ignored: true}, all},
	} {
		dir := tree(t, append(files, tt.git)...)
		got, skipped := list(t, filepath.Join(dir, "proj", "docs"), tt.o)
		if diff := cmp.Diff(tt.want, got); diff != "" || skipped != nil {
			t.Errorf("%s: %q, (-want +got)\n%s", tt.name, skipped, diff)
		}
		t.Chdir(filepath.Join(dir, "proj", "docs"))
		if got, _ := list(t, ".", tt.o); !cmp.Equal(got, tt.want) {
			t.Errorf("%s: %q from inside", tt.name, got)
		}
	}
	// The rules that a repository keeps for itself come before all others. Work trees share them.
	for _, git := range [][]string{
		{"proj/.git/info/exclude=docs/secret.txt\n*.log\n"},
		{"proj/.git=gitdir: ../main/.git/worktrees/proj\n", "main/.git/worktrees/proj/commondir=../..\n",
			"main/.git/info/exclude=docs/secret.txt\n*.log\n"},
		{"proj/.git=gitdir: ../main/.git/modules/proj\n", "main/.git/modules/proj/info/exclude=docs/secret.txt\n*.log\n"},
	} {
		dir := tree(t, append(git, "proj/docs/.gitignore=!keep.log\n", "proj/docs/a.txt", "proj/docs/secret.txt",
			"proj/docs/x.log", "proj/docs/keep.log")...)
		for at, want := range map[string][]string{"proj": {"docs/a.txt", "docs/keep.log"}, "proj/docs": {"a.txt", "keep.log"}} {
			if got, skipped := list(t, filepath.Join(dir, filepath.FromSlash(at)), nil); !cmp.Equal(got, want) || skipped != nil {
				t.Errorf("%s, %s: %q, skipped %q", git[0], at, got, skipped)
			}
		}
	}
	// A path that is named is read, even if a rule above excludes it.
	dir := tree(t, ".git/HEAD", ".gitignore=build/\n", "build/a.txt")
	if got, _ := list(t, filepath.Join(dir, "build"), nil); !cmp.Equal(got, []string{"a.txt"}) {
		t.Errorf("%q", got)
	}
}

// The user's own rules for all repositories come before those of a repository. git config names
// their file.
func TestRulesOfUser(t *testing.T) {
	for name, tt := range map[string]struct {
		files []string // in the home directory, or in the repository below it
		want  []string
	}{
		"none":              {nil, []string{"a.txt", "b.log", "c.tmp"}},
		"default":           {[]string{".config/git/ignore=*.log\n"}, []string{"a.txt", "c.tmp"}},
		"named":             {[]string{".gitconfig=[core]\n\tExcludesFile = ~/rules # mine\n", "rules=*.log\n", ".config/git/ignore=*.tmp\n"}, []string{"a.txt", "c.tmp"}},
		"in the other file": {[]string{".config/git/config=[core] excludesfile = \"~/my rules\"\n", "my rules=*.log\n"}, []string{"a.txt", "c.tmp"}},
		"twice":             {[]string{".gitconfig=[core]\nexcludesfile=~/old\n[user]\nexcludesfile=~/old\n[CORE]\nexcludesfile=~/rules\n", "old=*.tmp\n", "rules=*.log\n"}, []string{"a.txt", "c.tmp"}},
		"of the repository": {[]string{".gitconfig=[core]\nexcludesfile=~/rules\n", "rules=*.tmp\n", "repo/.git/config=[core]\nexcludesfile = .rules\n", "repo/.rules=*.log\n"}, []string{"a.txt", "c.tmp"}},
		"switched off":      {[]string{".gitconfig=[core]\nexcludesfile =\n", ".config/git/ignore=*.log\n"}, []string{"a.txt", "b.log", "c.tmp"}},
		"taken back":        {[]string{".config/git/ignore=*.log\n*.tmp\n", "repo/.git/info/exclude=!b.log\n", "repo/.gitignore=!c.tmp\n"}, []string{"a.txt", "b.log", "c.tmp"}},
		"missing":           {[]string{".gitconfig=[core]\nexcludesfile=~/none\n", ".config/git/ignore=*.log\n"}, []string{"a.txt", "b.log", "c.tmp"}},
		"other sections":    {[]string{".gitconfig=[core \"x\"]\nexcludesfile=~/rules\n[user]\n;excludesfile=~/rules\n", "rules=*.log\n"}, []string{"a.txt", "b.log", "c.tmp"}},
	} {
		t.Run(name, func(t *testing.T) {
			home := tree(t, append(tt.files, "repo/.git/HEAD", "repo/a.txt", "repo/b.log", "repo/c.tmp", "other/b.log")...)
			userHome(t, home)
			if got, skipped := list(t, filepath.Join(home, "repo"), nil); !cmp.Equal(got, tt.want) || skipped != nil {
				t.Errorf("%q, skipped %q, want %q", got, skipped, tt.want)
			}
			if got, _ := list(t, filepath.Join(home, "other"), nil); !cmp.Equal(got, []string{"b.log"}) {
				t.Errorf("%q outside of the repository", got)
			}
		})
	}
}

// As in git, a file of the user that cannot be read has no rules.
func TestUnreadableRulesOfUser(t *testing.T) {
	repo := []string{"repo/.git/HEAD", "repo/.gitignore=*.log\n", "repo/a.txt", "repo/b.log"}
	for name, tt := range map[string]struct {
		files []string
		home  string // below the directory of the files
		link  bool   // the default file is a loop of links
	}{
		"a home that is a file":   {[]string{"null"}, "null", false},
		"a file in a file":        {[]string{".gitconfig=[core]\nexcludesFile=~/passwd/x\n", "passwd"}, "", false},
		"a directory":             {[]string{".config/git/ignore/x"}, "", false},
		"a loop of links":         {[]string{".config/git/x"}, "", true},
		"a name that is too long": {[]string{".gitconfig=[core]\nexcludesFile=~/" + strings.Repeat("x", 5000) + "\n"}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tree(t, append(tt.files, repo...)...)
			userHome(t, filepath.Join(dir, tt.home))
			if tt.link {
				if err := os.Symlink("ignore", filepath.Join(dir, ".config", "git", "ignore")); err != nil {
					t.Skip("skipped: no symbolic links: ", err)
				}
			}
			if got, skipped := list(t, filepath.Join(dir, "repo"), nil); !cmp.Equal(got, []string{"a.txt"}) || skipped != nil {
				t.Errorf("%q, skipped %q", got, skipped)
			}
		})
	}
}

// userHome sets the home directory, and no other place of git's files.
func userHome(t *testing.T, dir string) {
	t.Setenv("HOME", dir)
	t.Setenv("USERPROFILE", dir)
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("GIT_CONFIG_GLOBAL", "")
	if err := os.Unsetenv("GIT_CONFIG_GLOBAL"); err != nil {
		t.Fatal(err)
	}
}

func TestRulesWithMark(t *testing.T) {
	dir := tree(t, ".gitignore=\ufeffa.txt\n", "a.txt", "b.txt")
	if got, _ := list(t, dir, nil); !cmp.Equal(got, []string{"b.txt"}) {
		t.Errorf("%q", got)
	}
}

// Files whose rules are not known are not read.
func TestUnreadableRules(t *testing.T) {
	for _, tt := range []struct{ rules, dir, skipped string }{
		{"docs/sub/.gitignore", "docs", "sub"},
		{"docs/.gitignore", "docs", "."},
		{".gitignore", "docs", "."},
	} {
		dir := tree(t, ".git/HEAD", "docs/a.txt", "docs/sub/b.txt")
		// A loop of links cannot be read, not even by root.
		if err := os.Symlink(".gitignore", filepath.Join(dir, filepath.FromSlash(tt.rules))); err != nil {
			t.Skip("skipped: no symbolic links: ", err)
		}
		files, skipped := list(t, filepath.Join(dir, tt.dir), nil)
		if !cmp.Equal(skipped, []string{tt.skipped}) || tt.skipped == "." && files != nil || tt.skipped != "." && !cmp.Equal(files, []string{"a.txt"}) {
			t.Errorf("%s: %q, skipped %q", tt.rules, files, skipped)
		}
		if files, _ := list(t, filepath.Join(dir, tt.dir), &Options{Ignored: true}); len(files) != 2 {
			t.Errorf("%s: %q", tt.rules, files)
		}
	}
}
