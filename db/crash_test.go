package db

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

var (
	kills  = flag.Int("kills", 25, "processes that TestKill kills")
	faults = flag.Bool("faults", false, "TestEveryOperationFails lets every operation fail, not a sample")
)

// TestKill repeatedly kills a process that writes, flushes and compacts one database with
// several goroutines. Every acknowledged batch must be there, only whole batches, and no
// leftover may hinder the next process.
func TestKill(t *testing.T) {
	if dir := os.Getenv("VECBOLT_KILL_DIR"); dir != "" {
		killedProcess(dir, os.Getenv("VECBOLT_KILL_ROUND"))
		return
	}
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(1, 2))
	acked := map[string]bool{}
	for round := range *kills {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKill$")
		cmd.Env = append(os.Environ(), "VECBOLT_KILL_DIR="+dir, "VECBOLT_KILL_ROUND="+strconv.Itoa(round))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// The kill comes after a number of acknowledgements, not after a time.
		left := 1 + rng.IntN(400)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			id, isAck := strings.CutPrefix(lines.Text(), "ack ")
			if !isAck {
				t.Fatalf("round %d: child says %q", round, lines.Text())
			}
			acked[id] = true
			if left--; left == 0 {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := cmd.Wait(); err == nil {
			t.Fatalf("round %d: the child ended by itself", round)
		}
		verifyKilled(t, dir, acked)
	}
	t.Logf("%d kills, %d acknowledged batches, 0 lost", *kills, len(acked))
}

func verifyKilled(t *testing.T, dir string, acked map[string]bool) {
	t.Helper()
	vdb := open(t, dir, nil)
	a, b := collection(t, vdb, "a", Schema{Dim: 8}), collection(t, vdb, "b", Schema{})
	inA, inB := dump(t, a), dump(t, b)
	for id := range acked {
		if _, ok := inA[id]; !ok {
			t.Errorf("acknowledged %q is lost", id)
		}
	}
	for id := range inA {
		if _, ok := inB[id]; !ok {
			t.Errorf("half of batch %q", id)
		}
	}
	if len(inA) != len(inB) {
		t.Errorf("%d and %d documents: half a batch", len(inA), len(inB))
	}
	check(t, vdb)
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
}

// killedProcess writes until it is killed.
func killedProcess(dir, round string) {
	die := func(err error) {
		if err != nil {
			fmt.Println("child:", err)
			os.Exit(3)
		}
	}
	vdb, err := Open(dir, &Options{HeadSize: 64 << 10})
	die(err)
	ctx, out := context.Background(), sync.Mutex{}
	_, err = vdb.OpenCollection(ctx, "a", Schema{Dim: 8})
	die(err)
	_, err = vdb.OpenCollection(ctx, "b", Schema{})
	die(err)
	for w := range 8 {
		go func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("%s/%d/%d", round, w, i)
				batch := &Batch{}
				batch.Upsert("a", Document{ID: id, Vector: []float32{1, 2, 3, 4, 5, 6, 7, float32(i)}, Text: strings.Repeat(id, 20)})
				batch.Upsert("b", Document{ID: id, Metadata: Metadata{"i": i}})
				die(vdb.Apply(ctx, batch))
				out.Lock()
				fmt.Println("ack", id)
				out.Unlock()
			}
		}()
	}
	for {
		die(vdb.Compact(ctx))
	}
}

// faulty makes file operations fail, from the n-th matching one on.
type faulty struct {
	mu     sync.Mutex
	kinds  []vfs.Kind
	n      int // operations until the first failure; negative: never
	times  int // number of failures
	err    error
	count  int
	failed []string
}

func (f *faulty) hook(op vfs.Op) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Contains(f.kinds, op.Kind) || f.n < 0 {
		return nil
	}
	f.count++
	if f.count <= f.n || f.times == 0 {
		return nil
	}
	f.times--
	f.failed = append(f.failed, fmt.Sprint(op.Kind, " ", op.Name))
	return f.err
}

var changing = []vfs.Kind{vfs.OpCreate, vfs.OpWrite, vfs.OpSync, vfs.OpSyncDir, vfs.OpRename, vfs.OpRemove, vfs.OpTruncate, vfs.OpMkdir}

// faultWorkload writes, flushes and compacts until the first error of a write. It returns
// the acknowledged and the attempted writes.
func faultWorkload(t *testing.T, dir string, f *faulty) (acked, tried map[string]int, failed error) {
	acked, tried = map[string]int{}, map[string]int{}
	vdb, err := Open(dir, &Options{HeadSize: 1 << 20, Compaction: Manual, tests: testOptions{hook: f.hook}})
	if err != nil {
		return acked, tried, err
	}
	defer func() {
		if err := vdb.Close(); failed == nil {
			failed = err
		}
	}()
	ctx := t.Context()
	c, err := vdb.OpenCollection(ctx, "c", Schema{Dim: 4})
	if err != nil {
		return acked, tried, err
	}
	for i := range 12 {
		docs := []Document{}
		for j := range 3 {
			id := fmt.Sprint((i*3 + j*5) % 17)
			tried[id] = i
			docs = append(docs, Document{ID: id, Vector: []float32{float32(i), 1, 2, 3}, Metadata: Metadata{"i": i}})
		}
		if _, err := c.Upsert(ctx, docs...); err != nil {
			return acked, tried, err
		}
		for _, d := range docs {
			acked[d.ID] = i
		}
		switch i {
		case 3, 6:
			if err := vdb.Flush(ctx); err != nil {
				failed = err
			}
		case 8:
			if err := vdb.Compact(ctx); err != nil {
				failed = err
			}
		}
	}
	return acked, tried, failed
}

// TestEveryOperationFails makes each operation that changes files fail in turn, once and
// permanently. Nothing panics, the error is reported, acknowledged writes survive, and
// the next open recovers.
func TestEveryOperationFails(t *testing.T) {
	probe := &faulty{kinds: changing, n: 1 << 30}
	if _, _, err := faultWorkload(t, t.TempDir(), probe); err != nil {
		t.Fatal(err)
	}
	step := 9
	if *faults {
		step = 1
	}
	runs := 0
	for _, err := range []error{syscall.EIO, syscall.ENOSPC} {
		for _, times := range []int{1, 1 << 30} {
			for n := 0; n < probe.count; n += step {
				runs++
				dir := t.TempDir()
				f := &faulty{kinds: changing, n: n, times: times, err: err}
				acked, tried, failed := faultWorkload(t, dir, f)
				if len(f.failed) == 0 {
					continue // fewer operations than in the probe: background work varies
				}
				verifyFault(t, dir, fmt.Sprintf("operation %d (%s, %v, %d times; the workload says %v)", n, f.failed[0], err, times, failed), acked, tried)
			}
		}
	}
	t.Logf("%d faults over %d operations", runs, probe.count)
}

func verifyFault(t *testing.T, dir, what string, acked, tried map[string]int) {
	t.Helper()
	vdb, err := Open(dir, nil)
	if err != nil {
		t.Fatalf("%s: reopen: %v", what, err)
	}
	defer vdb.Close()
	c, err := vdb.OpenCollection(t.Context(), "c", Schema{Dim: 4})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	docs := dump(t, c)
	for id, i := range acked {
		got, ok := docs[id]
		if !ok {
			t.Fatalf("%s: acknowledged %q is lost", what, id)
		}
		if n := int(got.Metadata["i"].(int64)); n != i && n != tried[id] {
			t.Fatalf("%s: %q is of batch %d, acknowledged %d, tried %d", what, id, n, i, tried[id])
		}
		if float32(got.Metadata["i"].(int64)) != got.Vector[0] {
			t.Fatalf("%s: %q has the vector of another version", what, id)
		}
	}
	r, err := vdb.Check(t.Context(), CheckBytes)
	if err != nil || !r.OK() {
		t.Fatalf("%s: check: %v %v", what, err, r)
	}
}

// After a failed sync the database answers reads and writes nothing further.
func TestFailedSync(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	f := &faulty{kinds: []vfs.Kind{vfs.OpSync}, n: -1, times: 1, err: syscall.EIO}
	vdb := open(t, dir, &Options{tests: testOptions{hook: f.hook}})
	c := collection(t, vdb, "c", Schema{Dim: 1})
	upsert(t, c, Document{ID: "a", Vector: []float32{1}})
	f.mu.Lock()
	f.n, f.count = 0, 0
	f.mu.Unlock()
	_, err := c.Upsert(ctx, Document{ID: "b", Vector: []float32{1}})
	if !errors.Is(err, ErrUnknown) || !errors.Is(err, syscall.EIO) {
		t.Fatalf("write with a failing sync: %v", err)
	}
	f.mu.Lock()
	f.kinds, f.count, f.n, f.times, f.failed = changing, 0, 0, 1<<30, nil
	f.mu.Unlock()
	if _, err := c.Upsert(ctx, Document{ID: "c"}); !errors.Is(err, ErrUnknown) {
		t.Fatalf("write after a failed sync: %v", err)
	}
	if err := vdb.Flush(ctx); !errors.Is(err, ErrUnknown) {
		t.Fatalf("flush after a failed sync: %v", err)
	}
	if res, err := c.Search(ctx, Query{Near: Vector{1}}); err != nil || len(res.Hits) != 1 {
		t.Fatalf("read after a failed sync: %v %v", res, err)
	}
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	if len(f.failed) != 0 {
		t.Errorf("operations after a failed sync: %v", f.failed)
	}
	vdb = open(t, dir, nil)
	if d, err := collection(t, vdb, "c", Schema{}).Get(ctx, "a", 0); err != nil {
		t.Fatal(d, err)
	}
	check(t, vdb)
}

// On a full disk writes fail with ErrNoSpace and nothing else breaks. Once there is room
// they succeed, without a restart.
func TestDiskFull(t *testing.T) {
	ctx := t.Context()
	f := &faulty{kinds: []vfs.Kind{vfs.OpCreate}, n: -1, err: syscall.ENOSPC}
	vdb := open(t, t.TempDir(), &Options{HeadSize: 32 << 10, tests: testOptions{hook: f.hook}, Compaction: Manual})
	c := collection(t, vdb, "c", Schema{Dim: 64})
	full := func(times int) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.n, f.count, f.times = 0, 0, times
	}
	doc := func(i int) Document { return Document{ID: fmt.Sprint(i), Vector: make([]float32, 64)} }
	n := 0
	for ; n < 50; n++ {
		upsert(t, c, doc(n))
	}
	full(1 << 30)
	var err error
	for ; err == nil; n++ {
		if n > 5000 {
			t.Fatal("no error with a full disk")
		}
		_, err = c.Upsert(ctx, doc(n))
	}
	n--
	if !errors.Is(err, ErrNoSpace) {
		t.Fatal(err)
	}
	if must(c.Info()).Documents != n {
		t.Fatalf("%d documents, %d acknowledged", must(c.Info()).Documents, n)
	}
	if _, err := c.Search(ctx, Query{Near: Vector(make([]float32, 64))}); err != nil {
		t.Fatal(err)
	}
	full(0)
	for i := 0; ; i++ {
		if _, err = c.Upsert(ctx, doc(n)); err == nil {
			break
		}
		if i > 10 || !errors.Is(err, ErrNoSpace) {
			t.Fatalf("after room was made: %v", err)
		}
	}
	for n++; n < 400; n++ {
		upsert(t, c, doc(n))
	}
	vdb = reopen(t, vdb, nil)
	if c := collection(t, vdb, "c", Schema{}); must(c.Info()).Documents != n {
		t.Fatalf("%d documents, want %d", must(c.Info()).Documents, n)
	}
	check(t, vdb)
}

// lose closes a database as a killed process would leave it.
func lose(t *testing.T, vdb *DB) {
	t.Helper()
	vdb.abandon()
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
}

// A log that is cut anywhere in its last write loses at most that write.
func TestTornLog(t *testing.T) {
	dir := t.TempDir()
	vdb := open(t, dir, nil)
	c := collection(t, vdb, "c", Schema{Dim: 2})
	for i := range 5 {
		upsert(t, c, Document{ID: fmt.Sprint(i), Vector: []float32{1, 2}, Text: strings.Repeat("x", 700)})
	}
	lose(t, vdb)
	logs, err := filepath.Glob(filepath.Join(dir, engine.WALDir, "*.wal"))
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	whole, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	end := len(strings.TrimRight(string(whole), "\x00"))
	for cut := end - 1500; cut <= end; cut += 97 {
		torn := t.TempDir()
		_ = os.Remove(filepath.Join(dir, engine.SocketName)) // of the process that was killed, if it was there
		if err := os.CopyFS(torn, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		b := append([]byte(nil), whole...)
		clear(b[cut:])
		if err := os.WriteFile(filepath.Join(torn, engine.WALDir, filepath.Base(logs[0])), b, 0o600); err != nil {
			t.Fatal(err)
		}
		vdb, err := Open(torn, nil)
		if err != nil {
			t.Fatalf("cut at %d of %d: %v", cut, end, err)
		}
		docs := dump(t, collection(t, vdb, "c", Schema{}))
		for i := range 3 { // the last write is 1500 bytes at most
			if _, ok := docs[fmt.Sprint(i)]; !ok {
				t.Fatalf("cut at %d of %d: %v", cut, end, slices.Sorted(maps.Keys(docs)))
			}
		}
		check(t, vdb)
		if err := vdb.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A vector file that shrinks or is damaged during reads gives an error that names it, in
// every kind of read, and never ends the process.
func TestDamageUnderReaders(t *testing.T) {
	ctx := t.Context()
	build := func(t *testing.T) (*DB, *Collection, string) {
		dir := t.TempDir()
		vdb := open(t, dir, nil)
		c := collection(t, vdb, "c", Schema{Dim: 1024})
		for i := range 100 {
			upsert(t, c, Document{ID: fmt.Sprint(i), Vector: randomVectors(rand.New(rand.NewPCG(1, uint64(i))), 1, 1024)[0], Metadata: Metadata{"i": i}})
		}
		vdb = reopen(t, vdb, nil)
		files, err := filepath.Glob(filepath.Join(dir, engine.SegDir, "*.vec"))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		return vdb, collection(t, vdb, "c", Schema{}), files[0]
	}
	reads := func(vdb *DB, c *Collection) map[string]error {
		errs := map[string]error{}
		_, errs["Search"] = c.Search(ctx, Query{Near: Vector(make([]float32, 1024))})
		_, errs["Get"] = c.Get(ctx, "70", Everything)
		for _, err := range c.All(ctx, nil, Everything) {
			if err != nil {
				errs["All"] = err
			}
		}
		errs["Backup"] = vdb.Backup(ctx, filepath.Join(memDir(t), "copy"))
		return errs
	}
	verify := func(t *testing.T, errs map[string]error, file string) {
		t.Helper()
		if len(errs) != 4 {
			t.Errorf("an error is missing: %v", errs)
		}
		for name, err := range errs {
			var corrupt *CorruptError
			if !errors.As(err, &corrupt) || corrupt.File != engine.SegDir+"/"+filepath.Base(file) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	t.Run("cut", func(t *testing.T) {
		if runtime.GOOS == "windows" {
			t.Skip("a file that is mapped cannot be cut")
		}
		vdb, c, file := build(t)
		if err := os.Truncate(file, 8192); err != nil {
			t.Fatal(err)
		}
		verify(t, reads(vdb, c), file)
		vdb.abandon()
	})
	t.Run("rotten", func(t *testing.T) {
		vdb, c, file := build(t)
		f, err := os.OpenFile(file, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte{0xa5}, 4096+70*4096+5); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		verify(t, reads(vdb, c), file)
		r, err := vdb.Check(ctx, CheckBytes)
		if err != nil || r.OK() || r.Problems[0].File != engine.SegDir+"/"+filepath.Base(file) {
			t.Errorf("check: %+v %v", r, err)
		}
	})
}

// Derived files can be deleted or damaged at any time: answers stay right.
func TestDerivedFilesAreRebuilt(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	vdb := open(t, dir, &Options{tests: testOptions{codedBytes: 1}})
	c := collection(t, vdb, "c", Schema{Dim: 1})
	for i := range 200 {
		upsert(t, c, Document{ID: fmt.Sprint(i), Vector: []float32{1}, Metadata: Metadata{"i": i}})
	}
	for i, damage := range []func(string) error{
		os.Remove,
		func(name string) error { return os.WriteFile(name, []byte("rubbish"), 0o600) },
		func(name string) error { return os.Truncate(name, 100) },
	} {
		if err := vdb.Close(); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(dir, engine.SegDir, "*.co*"))
		if err != nil || len(files) != 2 {
			t.Fatal(files, err)
		}
		for _, name := range files {
			if err := damage(name); err != nil {
				t.Fatal(err)
			}
		}
		// A reader does without the file, and Check reports it.
		r := open(t, dir, &Options{ReadOnly: true, tests: testOptions{codedBytes: 1}})
		c := collection(t, r, "c", Schema{})
		n, err := c.Count(ctx, filter.Lt("i", 150))
		res, err2 := c.Search(ctx, Query{Near: Vector{1}})
		if err := errors.Join(err, err2); err != nil || n != 150 || res.Matched != 200 || res.Plan != "exact scan" {
			t.Fatalf("%d %+v %v", n, res, err)
		}
		report, err := r.Check(ctx, CheckBytes)
		if want := []int{0, 2, 2}[i]; err != nil || len(report.Problems) != want {
			t.Fatalf("%+v %v", report, err)
		}
		// A writer rebuilds the files it needs, and all of them by Close.
		vdb = reopen(t, r, &Options{tests: testOptions{codedBytes: 1}})
		n, err = collection(t, vdb, "c", Schema{}).Count(ctx, filter.Lt("i", 150))
		if err != nil || n != 150 {
			t.Fatalf("%d %v", n, err)
		}
		vdb = reopen(t, vdb, &Options{tests: testOptions{codedBytes: 1}})
		check(t, vdb)
		if res, err := collection(t, vdb, "c", Schema{}).Search(ctx, Query{Near: Vector{1}}); err != nil || res.Plan != "exact scan of codes" {
			t.Fatalf("%+v %v", res, err)
		}
	}
}

// TestCompactRebuildsDerivedFiles damages each derived file, of a closed database and of one that
// uses it. Compact builds it again, although nothing else is to be done, and Check finds no damage.
func TestCompactRebuildsDerivedFiles(t *testing.T) {
	opts := smallest
	opts.Compaction = Manual
	dir := t.TempDir()
	vdb := open(t, dir, &opts)
	c := collection(t, vdb, "c", Schema{Dim: 8, Text: &TextIndex{}})
	rng := rand.New(rand.NewPCG(5, 1))
	for i, vec := range randomVectors(rng, 300, 8) {
		upsert(t, c, Document{ID: fmt.Sprint(i), Vector: vec, Text: fmt.Sprint("number ", i), Metadata: Metadata{"i": i}})
	}
	compact(t, vdb)
	use := func(t *testing.T) {
		find(t, c, Query{Near: Vector(randomVectors(rng, 1, 8)[0]), Where: filter.Lt("i", 200)})
		find(t, c, Query{Text: "number 7"})
	}
	use(t)
	at := func(part, of int64) func(string) error { // a flipped byte
		return func(name string) error {
			st, err := os.Stat(name)
			if err == nil {
				flip(t, name, (st.Size()-1)*part/of)
			}
			return err
		}
	}
	damages := map[string]func(string) error{
		"removed": os.Remove,
		"rubbish": func(name string) error {
			return errors.Join(os.Remove(name), os.WriteFile(name, []byte("rubbish"), 0o600))
		},
		"head": at(0, 1), "quarter": at(1, 4), "middle": at(1, 2), "end": at(1, 1),
		"a directory": func(name string) error { return errors.Join(os.Remove(name), os.Mkdir(name, 0o700)) },
	}
	for _, ext := range engine.DerivedExts {
		name := filepath.Join(dir, engine.SegDir, "00000001."+ext)
		for _, what := range slices.Sorted(maps.Keys(damages)) {
			for _, open := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/%s/open %v", ext, what, open), func(t *testing.T) {
					if runtime.GOOS == "windows" {
						t.Skip("a file that is mapped cannot be removed or replaced: a damaged one stays, and is not used")
					}
					if !open {
						if err := vdb.Close(); err != nil {
							t.Fatal(err)
						}
					}
					if err := damages[what](name); err != nil {
						t.Fatal(err)
					}
					if !open {
						var err error
						if vdb, err = Open(dir, &opts); err != nil {
							t.Fatal(err)
						}
						c = collection(t, vdb, "c", Schema{})
					}
					compact(t, vdb)
					check(t, vdb)
					if st, err := os.Stat(name); err != nil || !st.Mode().IsRegular() {
						t.Errorf("it is not there: %v", err)
					}
					if got := must(vdb.Stats()).BackgroundError; got != "" {
						t.Error(got)
					}
					use(t)
				})
			}
		}
	}
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
}

// A mapped derived file that becomes unreadable costs only time.
func TestDerivedFilesFault(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a mapped file cannot be made shorter there")
	}
	ctx := t.Context()
	dir := t.TempDir()
	vdb := open(t, dir, &Options{tests: testOptions{codedBytes: 1}, Compaction: Manual})
	c := collection(t, vdb, "c", Schema{Dim: 2})
	for i := range 300 {
		upsert(t, c, Document{ID: fmt.Sprint(i), Vector: []float32{1, float32(i)}, Metadata: Metadata{"i": i}})
	}
	q := Query{Near: Vector{1, 20}, Where: filter.Lt("i", 150)}
	ask := func(plan string) *Result {
		t.Helper()
		r, err := c.Search(ctx, q)
		n, err2 := c.Count(ctx, q.Where)
		if err := errors.Join(err, err2); err != nil || n != 150 || r.Plan != plan {
			t.Fatalf("%d %+v %v", n, r, err)
		}
		return r
	}
	if err := vdb.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	want := ask("exact scan of codes")
	files, err := filepath.Glob(filepath.Join(dir, engine.SegDir, "*.co*"))
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		if err := os.Truncate(name, 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, plan := range []string{"exact scan", "exact scan of codes"} {
		got := ask(plan)
		got.Plan = want.Plan
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if err := vdb.Compact(ctx); err != nil {
			t.Fatal(err)
		}
	}
	check(t, vdb)
}

// Foreign files block nothing; leftovers of the database are removed.
func TestStrayFiles(t *testing.T) {
	dir := t.TempDir()
	vdb := open(t, dir, nil)
	upsert(t, collection(t, vdb, "c", Schema{Dim: 1}), Document{ID: "a", Vector: []float32{1}})
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	stray := []string{"README.txt", "seg/notes.txt", "wal/core.1", "seg/0000000g.vec"}
	leftover := []string{"tmp/x", "seg/000000ff.vec", "seg/000000ff.cols"}
	for _, name := range append(stray, leftover...) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("?"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	vdb = open(t, dir, nil)
	check(t, vdb)
	for _, name := range stray {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	for _, name := range leftover {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
	// A directory that lost meta.bolt, or holds foreign files, cannot become a new
	// database.
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, engine.MetaName)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, nil); !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrInvalid) {
		t.Errorf("open without a root: %v", err)
	}
}
