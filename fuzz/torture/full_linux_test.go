package torture

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vecbolt/vecbolt/db"
)

var fullStep = flag.Int("torture.full", 16, "TestFullDisk tries every so many pages of remaining space; 1: all")

// fullProfile is what fills the disk.
var fullProfile = profile{name: "full", head: 16 * kib, ids: 400, text: 3000, docs: 4,
	weights: []weight{{stepBatch, 8}, {stepCross, 4}, {stepDelete, 2}, {stepWhere, 1}, {stepCreate, 1}, {stepFlush, 2}, {stepCompact, 1}}}

const (
	fullPages = 400  // remaining space, at most
	fullSteps = 1500 // until it must be used up
)

// TestFullDisk lets a disk fill up, from each number of pages that remain. The call that meets the
// end says ErrNoSpace and has written nothing; reads go on; once there is room, so do writes,
// without opening again. Or the database is closed, and read, while the disk is full, and opened
// for writing when there is room.
func TestFullDisk(t *testing.T) {
	onSmallDisks(t, 24, func(t *testing.T, dir string, times int) { fillUp(t, dir, times**fullStep) })
}

// onSmallDisks runs a test on file systems of some MiB. times is how much longer it takes on one
// than on another.
func onSmallDisks(t *testing.T, size int64, test func(t *testing.T, dir string, times int)) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	t.Run("tmpfs", func(t *testing.T) {
		dir := t.TempDir()
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", size)); err != nil {
			t.Skip("tmpfs:", err)
		}
		defer func() {
			if err := detach(dir); err != nil {
				t.Error(err)
			}
		}()
		test(t, dir, 1)
	})
	t.Run("ext4", func(t *testing.T) {
		fs := &realFSs[0]
		if err := fs.available(); err != nil {
			t.Skip(err)
		}
		dir, err := scratch(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		image, at := filepath.Join(dir, "image"), filepath.Join(dir, "mnt")
		err = errors.Join(os.Mkdir(at, 0o700), os.WriteFile(image, nil, 0o600), os.Truncate(image, (size+8)<<20),
			system(t.Context(), append(fs.mkfs, "-m", "0", image)...))
		if err != nil {
			t.Fatal(err)
		}
		if err := system(t.Context(), "mount", "-t", fs.name, "-o", "loop", image, at); err != nil {
			t.Skip(err)
		}
		defer func() {
			if err := detach(at); err != nil {
				t.Error(err)
			}
		}()
		test(t, at, 4)
	})
}

// fillUp tries every so many of the pages that may remain below dir.
func fillUp(t *testing.T, dir string, step int) {
	outcomes := map[string]int{}
	n := 0
	for pages := 0; pages < fullPages; pages += step {
		at := filepath.Join(dir, "try")
		if err := os.Mkdir(at, 0o700); err != nil {
			t.Fatal(err)
		}
		outcome, err := fillUpFrom(t, at, pages, n)
		if err != nil {
			t.Errorf("%d pages remain: %v", pages, err)
		}
		outcomes[outcome]++
		n++
		if err := os.RemoveAll(at); err != nil {
			t.Fatal(err)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(outcomes)) {
		t.Logf("%4d times: %s", outcomes[what], what)
	}
}

// fillUpFrom makes a database, leaves so many pages, and writes until there are none.
func fillUpFrom(t *testing.T, dir string, pages, n int) (outcome string, err error) {
	ctx := t.Context()
	w := newWorkload(&fullProfile, uint64(n), dir, func(string, ...any) error { return nil })
	track := w.tracks[0]
	if err := w.open(); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	take := func(s *step) error {
		if s.kind >= lastWrite {
			return w.maintain(ctx, track, s)
		}
		err := s.write(ctx, w.vdb)
		if err == nil {
			track.acked = len(track.history) - 1
		}
		return err
	}
	for range 10 + n%20 {
		s := track.next()
		if err := take(&s); err != nil {
			return "", err
		}
	}
	filler := filepath.Join(dir, "filler")
	if err := leave(filler, int64(pages)*pageSize); err != nil {
		return "", err
	}
	var s step
	for i := 0; err == nil; i++ {
		if i == fullSteps {
			return "", errors.New("the disk does not fill up")
		}
		s = track.next()
		err = take(&s)
	}
	what := "a write"
	switch s.kind {
	case stepFlush:
		what = "a flush"
	case stepCompact:
		what = "a compaction"
	}
	stats, unknown := w.vdb.Stats()
	if unknown != nil {
		return "", unknown
	}
	if !errors.Is(err, db.ErrNoSpace) || errors.Is(err, db.ErrUnknown) || stats.Failed != "" {
		return what + " failed for good", fmt.Errorf("%s: %w", what, err)
	}
	if err := errors.Join(w.look(ctx, track), w.wrong); err != nil {
		return "", fmt.Errorf("reading with a full disk: %w", err)
	}
	if n%2 == 0 {
		if err := os.Remove(filler); err != nil {
			return "", err
		}
		// A background flush has noted its failure for the next write.
		for i := range 3 {
			if err = take(&s); err == nil {
				break
			} else if i == 2 || !errors.Is(err, db.ErrNoSpace) {
				return "", fmt.Errorf("%s again, with room: %w", what, err)
			}
		}
		outcome = what + " said ErrNoSpace and went on when there was room"
	} else {
		closed := w.vdb.Close()
		w.vdb = nil
		if closed != nil && (!errors.Is(closed, db.ErrNoSpace) || errors.Is(closed, db.ErrUnknown)) {
			return "", fmt.Errorf("close with a full disk: %w", closed)
		}
		if w.vdb, err = db.Open(filepath.Join(dir, databaseName), &db.Options{ReadOnly: true}); err != nil {
			return "", fmt.Errorf("open read-only with a full disk: %w", err)
		}
		err = errors.Join(w.look(ctx, track), w.wrong, w.vdb.Close())
		if w.vdb = nil; err != nil {
			return "", fmt.Errorf("read-only with a full disk: %w", err)
		}
		if err := errors.Join(os.Remove(filler), w.open()); err != nil {
			return "", err
		}
		if err := errors.Join(w.look(ctx, track), w.wrong); err != nil {
			return "", fmt.Errorf("opened when there was room: %w", err)
		}
		if err := take(&s); err != nil {
			return "", fmt.Errorf("%s again, opened when there was room: %w", what, err)
		}
		outcome = what + " said ErrNoSpace, close "
		if closed == nil {
			outcome += "succeeded"
		} else {
			outcome += "said so too"
		}
	}
	for range 5 {
		s := track.next()
		if err := take(&s); err != nil {
			return "", fmt.Errorf("with room: %w", err)
		}
	}
	if err := errors.Join(w.close(), w.open()); err != nil {
		return "", err
	}
	return outcome, errors.Join(w.look(ctx, track), w.wrong)
}

// leave makes a file that takes all of a disk but so many bytes.
func leave(name string, room int64) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return err
	}
	// A file system needs some blocks to tell which ones the file has.
	for n := int64(st.Bavail)*st.Bsize - room; ; n -= 16 * kib {
		if err := unix.Fallocate(int(f.Fd()), 0, 0, max(1, n)); !errors.Is(err, unix.ENOSPC) || n < 0 {
			return err
		}
	}
}
