package torture

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
)

// TestStalledSync lets the sync of a write take for ever, and the first sync of a flush. Reads go
// on meanwhile. What the write changes is not seen before its sync is over, in whatever way one
// reads, and is seen once it has returned.
func TestStalledSync(t *testing.T) {
	ctx := t.Context()
	tmp, err := scratch(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	rec, err := startRecorder(nil, tmp)
	if errors.Is(err, ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer rec.close()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	vdb, err := db.Open(filepath.Join(rec.dir, databaseName), &db.Options{Compaction: db.Manual, Workers: 1})
	must(err)
	_, err = vdb.CreateCollection(ctx, "c", db.Schema{Dim: 2, Text: &db.TextIndex{Language: "none"}}, nil)
	must(err)
	put := func(d db.Document) error {
		b := &db.Batch{}
		b.Upsert("c", d)
		return vdb.Apply(ctx, b)
	}
	must(put(db.Document{ID: "old", Vector: []float32{1, 0}, Text: "early", Metadata: db.Metadata{"v": 1}}))
	must(put(db.Document{ID: "gone", Vector: []float32{1, 1}, Text: "early", Metadata: db.Metadata{"v": 1}}))
	// The write that stalls replaces a document, deletes one and adds one.
	b := &db.Batch{}
	b.Upsert("c", db.Document{ID: "old", Vector: []float32{0, 1}, Text: "late", Metadata: db.Metadata{"v": 2}})
	b.Upsert("c", db.Document{ID: "new", Vector: []float32{0, 2}, Text: "late", Metadata: db.Metadata{"v": 2}})
	b.Delete("c", "gone")

	type source interface {
		Collection(name string) (*db.Collection, error)
	}
	type seen struct {
		Info, Counted, Listed, Early, Late int
		Old                                any
		New, Gone                          bool
		Nearest                            string
	}
	see := func(from source) (s seen) {
		t.Helper()
		c, err := from.Collection("c")
		must(err)
		info, err := c.Info()
		must(err)
		s.Info = info.Documents
		s.Counted, err = c.Count(ctx, nil)
		must(err)
		page, err := c.List(ctx, db.ListQuery{Limit: 10})
		must(err)
		s.Listed = len(page.Documents)
		old, err := c.Get(ctx, "old", 0)
		must(err)
		s.Old = old.Metadata["v"]
		_, err = c.Get(ctx, "new", 0)
		s.New = err == nil
		_, err = c.Get(ctx, "gone", 0)
		s.Gone = err == nil
		for word, n := range map[string]*int{"early": &s.Early, "late": &s.Late} {
			res, err := c.Search(ctx, db.Query{Text: word, K: 10})
			must(err)
			*n = len(res.Hits)
		}
		res, err := c.Search(ctx, db.Query{Near: db.Vector{0, 1}, K: 1, Where: filter.Gt("v", 0)})
		must(err)
		s.Nearest = res.Hits[0].ID
		return s
	}
	before := seen{Info: 2, Counted: 2, Listed: 2, Early: 2, Old: int64(1), Gone: true, Nearest: "gone"}
	after := seen{Info: 2, Counted: 2, Listed: 2, Late: 2, Old: int64(2), New: true, Nearest: "new"}
	same := func(when string, want seen) {
		t.Helper()
		if got := see(vdb); got != want {
			t.Errorf("%s: %+v, want %+v", when, got, want)
		}
		snap, err := vdb.Snapshot()
		must(err)
		if got := see(snap); got != want {
			t.Errorf("%s, in a snapshot: %+v, want %+v", when, got, want)
		}
		must(snap.Close())
	}
	stalled := func(what string, want seen, do func() error) {
		t.Helper()
		same("before the "+what, want)
		_, err := rec.take()
		must(err)
		must(rec.do("stall"))
		done := make(chan error, 1)
		go func() { done <- do() }()
		must(rec.do("await"))
		ops, err := rec.take()
		must(err)
		if written := slices.ContainsFunc(ops, func(op Op) bool { return op.Kind == Write && strings.Contains(string(op.Data), "late") }); what == "write" && !written {
			t.Fatalf("a sync is stalled, and it is not that of the write: %v", ops)
		}
		for range 20 {
			same("during the "+what, want)
		}
		select {
		case err := <-done:
			t.Fatalf("the %s did not wait for the disk: %v", what, err)
		default:
		}
		must(rec.do("resume"))
		must(<-done)
	}
	stalled("write", before, func() error { return vdb.Apply(ctx, b) })
	same("after the write", after)
	stalled("flush", after, func() error { return vdb.Flush(ctx) })
	same("after the flush", after)
	must(vdb.Close())
}

// TestDescriptorLimit lets a database run out of file descriptors, with each number of them left.
// Calls fail with EMFILE, never with a wrong answer; with more descriptors they succeed again,
// after opening again where the outcome of a write was unknown.
func TestDescriptorLimit(t *testing.T) {
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	restore := func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
			t.Fatal(err)
		}
	}
	defer restore()
	outcomes := map[string]int{}
	for left := range 12 {
		w := newWorkload(&readProfile, uint64(left), t.TempDir(), func(string, ...any) error { return nil })
		w.p = &db16
		w.faulty, w.blind = true, true
		track := w.tracks[0]
		if err := w.open(); err != nil {
			t.Fatal(err)
		}
		take := func(s *step) error {
			if s.kind >= lastWrite {
				return w.maintain(t.Context(), track, s)
			}
			err := w.write(t.Context(), track, s)
			if err != nil && !errors.Is(err, db.ErrUnknown) {
				track.history = track.history[:len(track.history)-1] // not written
			}
			return err
		}
		limit := func() {
			f, err := os.Open(os.DevNull) // the first number that is free
			if err != nil {
				t.Fatal(err)
			}
			n := uint64(f.Fd()) + uint64(left)
			f.Close()
			if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n, Max: old.Max}); err != nil {
				t.Fatal(err)
			}
		}
		failed := 0
		for i := range 40 {
			if i == 10 {
				limit()
			}
			s := track.next()
			if s.kind == stepReopen {
				continue
			}
			err := take(&s)
			if err == nil {
				continue
			}
			failed++
			if i < 10 || !errors.Is(err, syscall.EMFILE) {
				t.Errorf("%d descriptors left: %v", left, err)
			}
			if errors.Is(err, db.ErrUnknown) {
				break
			}
		}
		restore()
		if w.wrong != nil {
			t.Errorf("%d descriptors left: %v", left, w.wrong)
		}
		outcome := "nothing failed"
		stats, err := w.vdb.Stats()
		if err != nil {
			t.Fatal(err)
		}
		if stats.Failed != "" {
			outcome = "opened again"
			if err := w.close(); err != nil {
				t.Fatal(err)
			}
			if err := w.open(); err != nil {
				t.Fatal(err)
			}
			if n := len(track.history); track.acked < n-1 { // it may have been written, or not
				got, err := read(t.Context(), w.vdb, 1)
				if err != nil {
					t.Fatal(err)
				}
				if got[0].sum() == track.now().sum() {
					track.acked = n - 1
				}
			}
		} else if failed > 0 {
			outcome = "went on"
		}
		outcomes[outcome]++
		w.blind = false
		if err := errors.Join(w.look(t.Context(), track), w.wrong, w.close()); err != nil {
			t.Errorf("%d descriptors left, then more: %v", left, err)
		}
	}
	t.Logf("outcomes: %v", outcomes)
}

// db16 is readProfile without maintenance in the background, whose errors nobody sees.
var db16 = func() profile {
	p := readProfile
	p.name, p.steps, p.head = "descriptors", 0, 1<<20
	return p
}()

const memoryEnv = "VECBOLT_TORTURE_MEMORY"

// TestMemoryLimit searches a database that is larger than the memory which its process may use,
// file cache included: the hits are those of a process without a limit, and the kernel does not
// kill it.
func TestMemoryLimit(t *testing.T) {
	if dir := os.Getenv(memoryEnv); dir != "" {
		answerInLittleMemory(t, dir)
		return
	}
	const limit, rows, dims = 40 << 20, 24000, 768 // 70 MiB of vectors
	if testing.Short() {
		t.Skip("writes 70 MiB")
	}
	group := "/sys/fs/cgroup/memory/vecbolt-" + strconv.Itoa(os.Getpid())
	limitFile, procs := group+"/memory.limit_in_bytes", group+"/cgroup.procs"
	if _, err := os.Stat("/sys/fs/cgroup/memory/memory.limit_in_bytes"); err != nil {
		t.Skip("no memory control group (version 1): ", err)
	}
	if err := os.Mkdir(group, 0o700); err != nil {
		t.Skip("no control group of our own: ", err)
	}
	defer os.Remove(group)
	if err := os.WriteFile(limitFile, []byte(strconv.Itoa(limit)), 0o600); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	vdb, err := db.Open(dir, &db.Options{Sync: db.SyncNever, HeadSize: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	c, err := vdb.CreateCollection(t.Context(), "c", db.Schema{Dim: dims}, nil)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(*seed, 1))
	for i := 0; i < rows; i += 500 {
		docs := make([]db.Document, 500)
		for j := range docs {
			docs[j] = db.Document{ID: fmt.Sprint(i + j), Vector: randomVector(rng, dims), Metadata: db.Metadata{"n": i + j}}
		}
		if _, err := c.Upsert(t.Context(), docs...); err != nil {
			t.Fatal(err)
		}
	}
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	if err := filepath.WalkDir(dir, forget); err != nil {
		t.Fatal(err)
	}
	ask := func(within string) (answer []string) {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMemoryLimit$")
		if within != "" {
			cmd = exec.CommandContext(t.Context(), "sh", "-c", "echo $$ > "+within+" && exec \"$0\" \"$@\"", os.Args[0], "-test.run=^TestMemoryLimit$")
		}
		cmd.Env = append(os.Environ(), memoryEnv+"="+dir, "GOMEMLIMIT=24MiB")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		line, _, _ := strings.Cut(string(out), "\n")
		if err := json.Unmarshal([]byte(line), &answer); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return answer
	}
	tight, free := ask(procs), ask("") // the latter fills the cache
	if len(free) == 0 || !reflect.DeepEqual(free, tight) {
		t.Errorf("without a limit %v, with one of %d MiB %v", free, limit>>20, tight)
	}
	if most, err := os.ReadFile(filepath.Join(group, "memory.max_usage_in_bytes")); err == nil {
		t.Logf("a database of %d MiB searched within %s bytes of %d MiB", rows*dims*4>>20, strings.TrimSpace(string(most)), limit>>20)
	}
}

// forget takes a file out of the cache, so that it counts for who reads it next.
func forget(path string, e fs.DirEntry, err error) error {
	if err != nil || e.IsDir() {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED), f.Close())
}

// answerInLittleMemory prints the hits of some searches, and that nothing is wrong.
func answerInLittleMemory(t *testing.T, dir string) {
	vdb, err := db.Open(dir, &db.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	c, err := vdb.Collection("c")
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(*seed, 2))
	var answer []string
	for i := range 6 {
		q := db.Query{Near: db.Vector(randomVector(rng, 768)), K: 10}
		if i%2 == 1 {
			q.Where = filter.Lt("n", 9000)
		}
		res, err := c.Search(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range res.Hits {
			answer = append(answer, fmt.Sprint(h.ID, " ", h.Score))
		}
	}
	if r, err := vdb.Check(t.Context(), db.CheckBytes); err != nil || !r.OK() {
		t.Fatal(r, err)
	}
	b, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(string(b))
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestReadOnlyFileSystem opens a database where nothing can be written: for reading that works, for
// writing it says why not.
func TestReadOnlyFileSystem(t *testing.T) {
	dir := t.TempDir()
	if os.Geteuid() != 0 {
		t.Skip("mounting a file system needs root")
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=24m"); err != nil {
		t.Skip("tmpfs:", err)
	}
	defer func() {
		if err := detach(dir); err != nil {
			t.Error(err)
		}
	}()
	w := newWorkload(&fullProfile, *seed, dir, func(string, ...any) error { return nil })
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	for range 30 {
		s := w.tracks[0].next()
		err := error(nil)
		if s.kind < lastWrite {
			err = w.write(t.Context(), w.tracks[0], &s)
		} else {
			err = w.maintain(t.Context(), w.tracks[0], &s)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if err := w.open(); !errors.Is(err, syscall.EROFS) {
		t.Errorf("opened for writing: %v", err)
	}
	vdb, err := db.Open(filepath.Join(dir, databaseName), &db.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	w.vdb = vdb
	if err := errors.Join(w.look(t.Context(), w.tracks[0]), w.wrong, vdb.Close()); err != nil {
		t.Error(err)
	}
}
