package knowledge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// learns names, in the environment, the process of TestManyLearn that this program is.
const learns = "VECBOLT_TEST_LEARNS"

// rounds is how often each process of TestManyLearn learns and asks.
const rounds = 15

// learnAndAsk changes a file, learns and asks, again and again, in a workspace that other processes
// use in the same way.
func learnAndAsk(name, workspace, docs string) error {
	ctx := context.Background()
	e, err := New(workspace, &Options{Logger: slog.New(slog.DiscardHandler), KeepOpen: time.Hour})
	if err != nil {
		return err
	}
	for i := range rounds {
		// Every process makes another number of chunks of the same file.
		text := strings.Repeat(fmt.Sprintf("Process %s wrote this in round %d. ", name, i), 1+(7*i+len(name))%11)
		fresh := filepath.Join(docs, "."+name)
		if err := os.WriteFile(fresh, []byte(text), 0o600); err != nil {
			return err
		}
		if err := os.Rename(fresh, filepath.Join(docs, "shared.txt")); err != nil {
			return err
		}
		o := LearnOptions{Paths: []string{docs}, Config: &Config{Provider: "hash", Model: "trigram-v1", ChunkSize: 40}}
		if _, err := e.Learn(ctx, "b", o); err != nil {
			return err
		}
		r, err := e.Query(ctx, "b", "which process wrote this?", QueryOptions{K: 3})
		if err != nil {
			return err
		}
		if len(r.Chunks) == 0 {
			return errors.New("no chunk found")
		}
		if _, err := e.Status(ctx, "b"); err != nil {
			return err
		}
	}
	return e.Close()
}

// TestManyLearn lets processes learn one base and ask it at the same time. None fails, and every
// chunk belongs to the file that was written last.
func TestManyLearn(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: runs several processes, which -short does not")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t)
	f.write("other.txt", "Nobody changes this file.")
	var all sync.WaitGroup
	for _, name := range []string{"a", "bb", "ccc", "dddd"} {
		all.Go(func() {
			cmd := exec.CommandContext(t.Context(), program, f.workspace, f.docs)
			cmd.Env = append(os.Environ(), learns+"="+name)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", name, err, out)
			}
		})
	}
	all.Wait()
	r, err := f.read(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	known := map[string]bool{}
	for d, err := range r.files.All(t.Context(), nil, db.WithMetadata) {
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range chunkIDs(d) {
			known[id] = true
		}
	}
	for d, err := range r.chunks.All(t.Context(), nil, db.IDsOnly) {
		if err != nil {
			t.Fatal(err)
		}
		if !known[d.ID] {
			t.Errorf("chunk %s belongs to no file", d.ID)
		}
		delete(known, d.ID)
	}
	for id := range known {
		t.Errorf("chunk %s is missing", id)
	}
	if _, err := os.Stat(filepath.Join(f.dir("b"), toLearn.name)); !errors.Is(err, os.ErrNotExist) {
		t.Error("the lock is still there:", err)
	}
}

// While a base is learnt, what would change it under the learner is refused, and another Learn
// gives up its place when its context ends.
func TestLearningLocks(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", "Apples are red.")
	f.learn("b", counted)
	unlock, err := f.lock(t.Context(), "b", toLearn, true)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f.Engine.at = func(step string) {
		if step == "waits" {
			cancel()
		}
	}
	_, err = f.Learn(ctx, "b", LearnOptions{Paths: []string{f.docs}})
	if !errors.Is(err, db.ErrLocked) || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "the base is being learnt") {
		t.Error(err)
	}
	if err := f.Clean("b"); !errors.Is(err, db.ErrLocked) {
		t.Error(err)
	}
	if _, err := f.Configure(t.Context(), "b", map[string]any{"language": "german"}); !errors.Is(err, db.ErrLocked) {
		t.Error(err)
	}
	f.query("apples", QueryOptions{})
	unlock()
	f.learn("b", nil)
	if err := f.Clean("b"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(f.dir("b")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// another returns an Engine that has the bases as another process has them.
func (f *fixture) another() *Engine {
	f.t.Helper()
	e, err := New(f.workspace, &f.opts)
	if err != nil {
		f.t.Fatal(err)
	}
	return e
}

// A configuration that one process has read and not yet written is changed by nobody else: both
// changes last.
func TestConfigureBesideOthers(t *testing.T) {
	for _, tt := range []struct {
		name    string
		beside  func(context.Context, *fixture) error
		want    map[string]any // keys
		entries []string
	}{
		{"configure", func(ctx context.Context, f *fixture) error {
			_, err := f.Configure(ctx, "b", map[string]any{"threshold": 0.5})
			return err
		}, map[string]any{"top_k": 7, "threshold": 0.5, "provider": "counting"}, []string{"config.yaml", "index.vdb"}},
		{"learn", func(ctx context.Context, f *fixture) error {
			_, err := f.Learn(ctx, "b", LearnOptions{Paths: []string{f.docs}, Set: map[string]any{"threshold": 0.5}})
			return err
		}, map[string]any{"top_k": 7, "threshold": 0.5, "provider": "counting"}, []string{"config.yaml", "index.vdb"}},
		{"reembed", func(ctx context.Context, f *fixture) error {
			_, err := f.Reembed(ctx, "b", ReembedOptions{Switch: yes}) // has been begun
			return err
		}, map[string]any{"top_k": 7, "provider": "hash", "embedding.dimensions": 128}, []string{"config.yaml", "index-2.vdb"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			f.write("a.txt", "Apples are red.")
			f.learn("b", counted)
			if tt.name == "reembed" {
				f.reembed(ReembedOptions{Config: hashed})
			}
			var waits sync.Once
			met := make(chan struct{}) // the other one waits, or has ended
			f.Engine.at = func(step string) {
				if step == "waits" {
					waits.Do(func() { close(met) })
				}
			}
			ended := make(chan error, 1)
			e := f.another()
			e.at = func(step string) {
				if step != "read" {
					return
				}
				go func() {
					ended <- tt.beside(t.Context(), f)
					waits.Do(func() { close(met) })
				}()
				<-met
			}
			if _, err := e.Configure(t.Context(), "b", map[string]any{"top_k": 7}); err != nil {
				t.Error(err)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
			c, err := f.Config("b")
			if err != nil {
				t.Fatal(err)
			}
			for key, want := range tt.want {
				if got, err := c.Get(key); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%s is %v, want %v, %v", key, got, want, err)
				}
			}
			if diff := cmp.Diff(tt.entries, f.entries()); diff != "" {
				t.Error(diff)
			}
			f.query("apples", QueryOptions{})
		})
	}
}

// Settings that change while the switch of Reembed is decided last.
func TestConfigureBeforeTheSwitch(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", "Apples are red.")
	f.learn("b", counted)
	f.reembed(ReembedOptions{Config: hashed, Switch: func(*Reembedding) bool {
		if _, err := f.another().Configure(t.Context(), "b", map[string]any{"top_k": 7}); err != nil {
			t.Error(err)
		}
		return true
	}})
	if c, err := f.Config("b"); err != nil || c.TopK != 7 || c.Provider != "hash" {
		t.Errorf("%+v, %v", c, err)
	}
}

// Clean and Create do not wait for a change of the configuration that lasts. Clean leaves the base
// as it is then, and lets others learn it.
func TestWhileConfigured(t *testing.T) {
	for _, tt := range []struct {
		name, base string
		call       func(f *fixture, base string) error
		want       error
		entries    []string // of the directory of the base, without the lock that is held
	}{
		{"clean", "b", (*fixture).Clean, db.ErrLocked, []string{"config.yaml", "index.vdb"}},
		{"create a base that exists", "b", (*fixture).create, db.ErrExists, []string{"config.yaml", "index.vdb"}},
		{"create a base", "new", (*fixture).create, db.ErrLocked, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			f.write("a.txt", "Apples are red.")
			f.learn("b", counted)
			unlock, err := f.another().lock(t.Context(), tt.base, toConfigure, true)
			if err != nil {
				t.Fatal(err)
			}
			release := sync.OnceFunc(unlock)
			defer release()
			f.Engine.at = func(step string) {
				if step == "waits" {
					t.Error("it waits")
					release()
				}
			}
			if err := tt.call(f, tt.base); !errors.Is(err, tt.want) {
				t.Error(err)
			}
			want := append(slices.Clone(tt.entries), toConfigure.name)
			slices.Sort(want)
			if diff := cmp.Diff(want, f.entriesOf(tt.base)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func (f *fixture) create(name string) error {
	_, err := f.Create(name, nil)
	return err
}

// A run of Learn that is ended before its first file is written removes the configuration that it
// made. It does not wait for others that change it, and leaves it to them.
func TestLearnEndedBeforeItsFirstFile(t *testing.T) {
	for _, tt := range []struct {
		name    string
		held    bool
		want    error
		entries []string
	}{
		{"alone", false, context.Canceled, nil},
		{"while it is configured", true, db.ErrLocked, []string{"config.lock", "config.yaml"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			f.write("a.txt", "Apples are red.")
			ctx, cancel := context.WithCancel(t.Context())
			release := func() {}
			defer func() { release() }()
			f.Engine.at = func(step string) {
				switch step {
				case "configured":
					cancel()
					if !tt.held {
						return
					}
					unlock, err := f.another().lock(t.Context(), "b", toConfigure, true)
					if err != nil {
						t.Error(err)
						return
					}
					release = sync.OnceFunc(unlock)
				case "waits":
					t.Error("it waits")
					release()
				}
			}
			_, err := f.Learn(ctx, "b", LearnOptions{Paths: []string{f.docs}, Config: counted})
			if !errors.Is(err, tt.want) || !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			if diff := cmp.Diff(tt.entries, f.entriesOf("b")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// One run at a time has the next database of a base, also while it is not open. Others say so, and
// leave its configuration.
func TestReembedAlone(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", "Apples are red.")
	f.learn("b", counted)
	begun := false
	f.Engine.at = func(step string) {
		if step != "begun" {
			return
		}
		begun = true
		other := f.another()
		for call, err := range map[string]error{
			"Reembed": func() error {
				_, err := other.Reembed(t.Context(), "b", ReembedOptions{Config: &Config{Provider: "hash", Model: "trigram-v1"}})
				return err
			}(),
			"Discard": other.Discard("b"),
			"Clean":   other.Clean("b"),
		} {
			if !errors.Is(err, db.ErrLocked) || !strings.Contains(fmt.Sprint(err), "the base is being embedded again") {
				t.Errorf("%s: %v", call, err)
			}
		}
		if _, err := other.Learn(t.Context(), "b", LearnOptions{Paths: []string{f.docs}}); err != nil { // it sweeps
			t.Error(err)
		}
		if diff := cmp.Diff([]string{"config.yaml", "index.vdb", "next.yaml", "reembed.lock"}, f.entries()); diff != "" {
			t.Error(diff)
		}
	}
	f.reembed(ReembedOptions{Config: hashed})
	if diff := cmp.Diff([]string{"config.yaml", "index-2.vdb", "index.vdb", "next.yaml"}, f.entries()); !begun || diff != "" {
		t.Error(begun, diff)
	}
}

// Learning leaves the lock of re-embedding alone when there is nothing to remove: a Reembed of
// another process would fail at that moment. Who takes the lock removes a file that was left.
func TestLearnTakesNoLockOfReembed(t *testing.T) {
	for _, tt := range []struct {
		name string
		next string // content of its index; empty: as begun
		want []string
	}{
		{"begun", "", []string{"config.yaml", "index-2.vdb", "index.vdb", "next.yaml", "reembed.lock"}},
		{"left by a switch", "index: index.vdb\n", []string{"config.yaml", "index-2.vdb", "index.vdb"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			f.write("a.txt", "Apples are red.")
			f.learn("b", counted)
			f.reembed(ReembedOptions{Config: hashed})
			files := map[string]string{toReembed.name: ""}
			if tt.next != "" {
				files[nextConfig] = tt.next
			}
			for name, content := range files {
				if err := os.WriteFile(filepath.Join(f.dir("b"), name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			f.learn("b", nil)
			if diff := cmp.Diff(tt.want, f.entries()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What killed runs have left of configurations does not pile up: the next one takes its place.
func TestUnfinishedConfigs(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", "Apples are red.")
	f.learn("b", counted)
	for _, name := range []string{configFile, nextConfig} {
		if err := os.WriteFile(filepath.Join(f.dir("b"), name+newSuffix), []byte(strings.Repeat("left ", 1000)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.Configure(t.Context(), "b", map[string]any{"top_k": 7}); err != nil {
		t.Error(err)
	}
	f.reembed(ReembedOptions{Config: hashed})
	if c, err := f.Config("b"); err != nil || c.TopK != 7 {
		t.Errorf("%+v, %v", c, err)
	}
	if diff := cmp.Diff([]string{"config.yaml", "index-2.vdb", "index.vdb", "next.yaml"}, f.entries()); diff != "" {
		t.Error(diff)
	}
}

// A configuration that cannot be written leaves no file.
func TestConfigThatCannotBeWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "b", "config.yaml")
	if err := os.MkdirAll(filepath.Join(path, "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := writeConfig(path, Defaults("b"), nil); err == nil {
		t.Error("no error")
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Error(entries, err)
	}
}

// The directories of a new base are durable before anything lies in them, as its configuration is.
func TestNewBaseIsDurable(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", "Apples are red.")
	var trace []string
	fail := ""
	f.Engine.hook = func(op vfs.Op) error {
		step := strings.TrimSpace(fmt.Sprint(op.Kind, " ", op.Name, " ", op.To))
		if step == fail {
			fail = ""
			return syscall.EIO
		}
		trace = append(trace, step)
		return nil
	}
	fail = "syncdir ." // of the parent of the workspace
	if err := f.create("b"); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	if _, err := os.Stat(f.workspace); !errors.Is(err, os.ErrNotExist) {
		t.Error("a directory that may not be durable stays:", err)
	}
	config := []string{"remove config.yaml.new", "create config.yaml.new", "write config.yaml.new", "sync config.yaml.new",
		"rename config.yaml.new config.yaml", "syncdir ."}
	trace = nil
	f.learn("b", counted)
	want := slices.Concat([]string{"mkdir workspace", "syncdir .", "mkdir b", "syncdir ."}, config)
	if diff := cmp.Diff(want, trace); diff != "" {
		t.Error("a first Learn: (-want +got)\n", diff)
	}
	trace = nil
	if err := f.create("c"); err != nil {
		t.Error(err)
	}
	want = slices.Concat([]string{"mkdir c", "syncdir ."}, config)
	if diff := cmp.Diff(want, trace); diff != "" {
		t.Error("Create: (-want +got)\n", diff)
	}
	if fail = "syncdir ."; f.create("d") == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(f.dir("d")); !errors.Is(err, os.ErrNotExist) {
		t.Error("a directory that may not be durable stays:", err)
	}
}

// A base that was removed does not come back after a power cut, and its database is gone for good
// before its configuration: a new base of that name would have its files.
func TestCleanIsDurable(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", "Apples are red.")
	f.learn("b", counted)
	fail := true
	var synced [][]string
	f.Engine.hook = func(op vfs.Op) error {
		if op.Kind != vfs.OpSyncDir {
			return nil
		}
		if fail {
			return syscall.EIO
		}
		synced = append(synced, slices.DeleteFunc(f.entries(), func(name string) bool { return slices.Contains(lockNames, name) }))
		return nil
	}
	if err := f.Clean("b"); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	if _, err := f.Config("b"); err != nil {
		t.Error("a base that may not be gone has no configuration:", err)
	}
	fail = false
	if err := f.Clean("b"); err != nil {
		t.Error(err)
	}
	want := [][]string{{configFile}, {}}
	if diff := cmp.Diff(want, synced); diff != "" {
		t.Error("entries when the directory was synced: (-want +got)\n", diff)
	}
}
