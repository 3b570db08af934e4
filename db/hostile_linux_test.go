package db

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/engine"
)

// notRegular are what can be in the place of a file.
var notRegular = map[string]func(path string) error{
	"pipe": func(path string) error { return syscall.Mkfifo(path, 0o600) },
	"socket": func(path string) error {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err == nil {
			l.SetUnlinkOnClose(false)
			err = l.Close()
		}
		return err
	},
	"loop":      func(path string) error { return os.Symlink(filepath.Base(path), path) },
	"directory": func(path string) error { return os.Mkdir(path, 0o700) },
	"full directory": func(path string) error {
		if err := os.Mkdir(path, 0o700); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(path, "x"), []byte("x"), 0o600)
	},
	"empty file": func(path string) error { return os.WriteFile(path, nil, 0o600) },
}

// hostileOptions make all kinds of files of few rows.
func hostileOptions() Options {
	o := walking
	o.tests.walkAlways = false
	return o
}

// TestNotRegularFiles puts pipes, sockets, directories, symlink loops and
// empty files in the place of each file that a database has or is about to write,
// and uses the database in every way. No call hangs. Errors name the file, and
// answers are right; derived files are rebuilt or not used. Once the file is back,
// the database opens, so no call has kept the lock. Without -everystep the test
// tries all pipes, and one in six of the other kinds.
func TestNotRegularFiles(t *testing.T) {
	ctx := t.Context()
	root := memDir(t)
	closed, killed, folder := filepath.Join(root, "c"), filepath.Join(root, "k"), filepath.Join(root, "f")
	opts := hostileOptions()
	vdb := open(t, closed, &opts)
	c := collection(t, vdb, "c", Schema{Dim: 8, Text: &TextIndex{}})
	docs := func(from, to int) {
		for i := from; i < to; i++ {
			upsert(t, c, Document{ID: fmt.Sprint(i), Vector: mappedVector(i)[:8], Text: fmt.Sprint("text number ", i), Metadata: Metadata{"n": i}})
		}
	}
	docs(0, 60)
	if err := vdb.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	p := publisher(t, vdb, folder, nil)
	docs(60, 70)
	if _, err := p.Publish(ctx); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	writeFiles(t, killed, readFiles(t, closed))
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}

	// read returns the answers of a database as text.
	read := func(vdb *DB) (string, error) {
		c, err := vdb.Collection("c")
		if err != nil {
			return "", err
		}
		n, err := c.Count(ctx, filter.Lt("n", 50))
		if err != nil {
			return "", err
		}
		s := fmt.Sprint(n, must(c.Info()).Documents, "\n")
		for _, q := range []Query{{Near: Vector(mappedVector(7)[:8]), K: 3, Accuracy: Exact}, {Text: "number 33", K: 3}, {Near: Vector(mappedVector(9)[:8]), K: 3}} {
			text, err := answerText(c.Search(ctx, q))
			if err != nil {
				return "", err
			}
			s += text + "\n"
		}
		return s, nil
	}
	type use struct {
		of    []string // directories
		write bool
		do    func(dir string) (answer string, err error)
	}
	opened := func(dir string, o Options, do func(*DB) error) (answer string, err error) {
		vdb, err := Open(dir, &o)
		if err != nil {
			return "", err
		}
		defer func() { err = errors.Join(err, vdb.Close()) }()
		if answer, err = read(vdb); err == nil && do != nil {
			err = do(vdb)
		}
		return answer, err
	}
	reader := Options{ReadOnly: true}
	uses := map[string]use{
		"write": {of: []string{closed, killed}, write: true, do: func(dir string) (string, error) {
			return opened(dir, opts, func(vdb *DB) error {
				c, err := vdb.Collection("c")
				if err == nil {
					_, err = c.Upsert(ctx, Document{ID: "new", Vector: mappedVector(1)[:8], Text: "of another kind"})
				}
				if err == nil {
					err = vdb.Flush(ctx)
				}
				if err == nil {
					err = vdb.Compact(ctx)
				}
				if err == nil {
					_, err = c.Get(ctx, "new", Everything)
				}
				return err
			})
		}},
		"read": {of: []string{closed, killed, folder}, do: func(dir string) (string, error) { return opened(dir, reader, nil) }},
		"check": {of: []string{closed, killed, folder}, do: func(dir string) (string, error) {
			return opened(dir, reader, func(vdb *DB) error { _, err := vdb.Check(ctx, CheckBytes); return err })
		}},
		"check files": {of: []string{closed, killed}, do: func(dir string) (string, error) {
			_, err := CheckFiles(ctx, dir, CheckDeep)
			return "", err
		}},
		"back up": {of: []string{closed, killed, folder}, do: func(dir string) (string, error) {
			return opened(dir, reader, func(vdb *DB) error { return vdb.Backup(ctx, filepath.Join(memDir(t), "b")) })
		}},
		"follow": {of: []string{folder}, do: func(dir string) (string, error) {
			return opened(dir, Options{ReadOnly: true, Follow: time.Hour}, func(vdb *DB) error {
				_, err := vdb.Refresh(ctx)
				return err
			})
		}},
		"repair": {of: []string{closed, killed}, do: func(dir string) (string, error) {
			_, err := Repair(ctx, dir, filepath.Join(memDir(t), "r"))
			return "", err
		}},
	}
	lay := func(dir string, files map[string][]byte) {
		err := os.RemoveAll(dir)
		for name := range files {
			err = errors.Join(err, os.MkdirAll(filepath.Join(dir, path.Dir(name)), 0o700))
		}
		if err != nil {
			t.Fatal(err)
		}
		for name, b := range files {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), b, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	seen, cases, failed, right := 0, 0, 0, 0
	dir := filepath.Join(root, "d")
	for _, of := range []string{closed, killed, folder} {
		files := readFiles(t, of)
		names := slices.Sorted(maps.Keys(files))
		if of == folder {
			names = append(names, engine.ManifestName(9), "LOCK", engine.MetaName)
		} else {
			names = append(names, engine.LockName, "seg", "wal", "tmp", "tmp/meta.bolt", "tmp/00000001.cols", "tmp/00000003.codes", "tmp/meta.sums.1")
			for id := range 6 {
				for _, ext := range append(engine.DerivedExts, "vec") {
					names = append(names, fmt.Sprintf("seg/%08x.%s", id, ext))
				}
				names = append(names, fmt.Sprintf("wal/%08d.wal", id))
			}
			slices.Sort(names)
			names = slices.Compact(names)
		}
		for _, way := range slices.Sorted(maps.Keys(uses)) {
			u := uses[way]
			if !slices.Contains(u.of, of) {
				continue
			}
			lay(dir, files)
			want, err := u.do(dir)
			if err != nil {
				t.Fatalf("%s of %s as it is: %v", way, filepath.Base(of), err)
			}
			for _, name := range names {
				for _, kind := range slices.Sorted(maps.Keys(notRegular)) {
					put := notRegular[kind]
					_, there := files[name]
					ext := path.Ext(name)
					if kind == "empty file" && (ext == ".wal" || ext == "" && name != engine.LockName || !there) {
						continue // the loss of a log cannot be told from there having been none
					}
					if name == engine.WALDir && strings.HasSuffix(kind, "directory") {
						continue // likewise
					}
					if seen++; kind != "pipe" && seen%6 != 0 && !*everyStep {
						continue
					}
					what := fmt.Sprintf("%s of %s, %s in place of %s", way, filepath.Base(of), kind, name)
					lay(dir, files)
					at := filepath.Join(dir, filepath.FromSlash(name))
					if err := errors.Join(os.RemoveAll(at), os.MkdirAll(filepath.Dir(at), 0o700), put(at)); err != nil {
						t.Fatal(err)
					}
					cases++
					var got string
					var err error
					finishes(t, what, func() { got, err = u.do(dir) })
					switch {
					case err != nil:
						failed++
						if !strings.Contains(err.Error(), path.Base(name)) {
							t.Errorf("%s: the error does not name it: %v", what, err)
						}
						if of == folder {
							break // a version is taken whole or not at all
						}
						if slices.Contains(engine.DerivedExts, strings.TrimPrefix(ext, ".")) || strings.HasPrefix(name, "tmp/") || name == engine.SumsName {
							t.Errorf("%s: it could be done without: %v", what, err)
						}
					case got != want:
						t.Errorf("%s: answered\n%s\nwant\n%s", what, got, want)
					default:
						right++
					}
					if err == nil {
						continue
					}
					if err := os.RemoveAll(at); err != nil {
						t.Fatal(err)
					}
					lay(dir, files)
					finishes(t, what+", afterwards", func() {
						if got, err := u.do(dir); err != nil || got != want {
							t.Errorf("%s: put back: %v, answered\n%s", what, err, got)
						}
					})
				}
			}
		}
	}
	t.Logf("%d cases: %d failed with the name, %d were right", cases, failed, right)
	if failed < 50 || right < 200 {
		t.Errorf("%d cases: %d failed, %d were right", cases, failed, right)
	}
}

// TestRepairOfNotRegularFiles puts directories and links in the place of files that are not needed
// to save the rest: errors name them and their kind, Check reports them, and Repair saves the rest.
func TestRepairOfNotRegularFiles(t *testing.T) {
	kinds := maps.Clone(notRegular)
	kinds["dangling link"] = func(path string) error { return os.Symlink("nowhere", path) }
	kinds["link out"] = func(path string) error { return os.Symlink("/etc/passwd", path) }
	kinds["link through a file"] = func(path string) error {
		to := engine.MetaName + "/x"
		if filepath.Base(filepath.Dir(path)) == engine.WALDir {
			to = "../" + to
		}
		return os.Symlink(to, path)
	}
	reasons := map[string]string{
		"directory": "a directory, not a regular file", "full directory": "a directory, not a regular file",
		"pipe": "a named pipe, not a ", "socket": "a socket, not a ", "empty file": "a regular file, not a directory",
		"loop": "a loop of links", "dangling link": "a link to nothing", "link through a file": "a link to nothing",
		"link out": "a link that leads out of the directory",
	}
	links := []string{"loop", "link out", "link through a file"}
	locks := append([]string{"directory", "full directory", "pipe", "socket"}, links...)
	files := append(slices.Clone(locks), "dangling link") // through which LOCK is made
	dirs := append([]string{"empty file", "pipe", "socket", "dangling link"}, links...)
	for _, test := range []struct {
		name   string
		kinds  []string
		closed []string // kinds with which it cannot be opened to write
		needed bool     // for an opening to read
		saved  int      // documents
	}{
		{"wal/00000002.wal", files, files, true, 2},
		{"wal", dirs, dirs, true, 2},
		{engine.LockName, locks, locks, true, 3},
		{engine.LockName, []string{"dangling link"}, nil, false, 3},
		{"wal/00000001.wal", files, []string{"full directory"}, false, 3}, // no longer needed
		{"wal/spare", files, []string{"full directory"}, false, 3},
	} {
		for _, kind := range test.kinds {
			t.Run(test.name+"/"+kind, func(t *testing.T) {
				dir := t.TempDir()
				vdb := open(t, dir, &Options{Compaction: Manual})
				c := collection(t, vdb, "c", Schema{})
				upsert(t, c, Document{ID: "a"}, Document{ID: "b"})
				flush(t, vdb)
				upsert(t, c, Document{ID: "c"})
				lose(t, vdb)
				at := filepath.Join(dir, filepath.FromSlash(test.name))
				if err := errors.Join(os.RemoveAll(at), kinds[kind](at)); err != nil {
					t.Fatal(err)
				}
				vdb, err := Open(dir, &Options{ReadOnly: true})
				if err == nil {
					err = vdb.Close()
				}
				if (err != nil) != test.needed || err != nil && !strings.Contains(err.Error(), test.name+": "+reasons[kind]) {
					t.Errorf("read: %v", err)
				}
				report, err := CheckFiles(t.Context(), dir, CheckBytes)
				if err != nil || len(report.Problems) > 1 || report.OK() == test.needed || test.needed && (report.Problems[0].File != test.name || !strings.HasPrefix(report.Problems[0].Detail, reasons[kind])) {
					t.Errorf("check: %+v, %v", report, err)
				}
				r, err := Repair(t.Context(), dir, filepath.Join(t.TempDir(), "saved"))
				if err != nil || r.Documents != test.saved || len(r.Lost) != 3-test.saved || (len(r.Problems) == 1) != test.needed {
					t.Errorf("repair: %+v, %v", r, err)
				}
				for range 2 { // what the first opening leaves must not stop the second one
					vdb, err = Open(dir, nil)
					if err == nil {
						upsert(t, collectionOf(t, vdb, "c"), Document{ID: "d"})
						err = vdb.Close()
					}
					if (err != nil) != slices.Contains(test.closed, kind) || err != nil && !strings.Contains(err.Error(), test.name) {
						t.Errorf("write: %v", err)
					}
				}
			})
		}
	}
}
