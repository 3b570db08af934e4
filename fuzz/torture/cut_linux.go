package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A realFS is a file system of the kernel on a loop device.
type realFS struct {
	name string
	size int64    // of the device
	mkfs []string // command line; the image is appended
	from string   // Debian package of the program
}

// realFSs are the file systems that support a shutdown.
var realFSs = []realFS{
	{"ext4", 96 << 20, []string{"mkfs.ext4", "-q", "-F", "-E",
		"lazy_itable_init=0,lazy_journal_init=0", "-J", "size=4"}, "e2fsprogs"},
	{"xfs", 320 << 20, []string{"mkfs.xfs", "-q", "-f", "-K"}, "xfsprogs"},
}

// From linux/fs.h: the file system stops writing at once, as in a power failure. With logFlush it
// writes its journal first, so that names and sizes survive and the data does not.
const (
	fsIocShutdown = 0x8004587d
	logFlush      = 1
	noLogFlush    = 2
)

// cuts cuts the power of file systems under writing processes, while more reports true.
func (r *run) cuts(ctx context.Context, name string, more func() bool) error {
	for i := range realFSs {
		if fs := &realFSs[i]; fs.name == name {
			if err := fs.available(); err != nil {
				return err
			}
			rng := rand.New(rand.NewPCG(r.o.Seed, 4))
			for more() {
				if err := r.cutDatabase(ctx, fs, rng, more); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return fmt.Errorf("%w on %s: not known", errNoCuts, name)
}

// available returns an error that names a missing requirement.
func (fs *realFS) available() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w on %s: they need root", errNoCuts, fs.name)
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		return fmt.Errorf("%w on %s: they need loop devices: %w", errNoCuts, fs.name, err)
	}
	for program, from := range map[string]string{fs.mkfs[0]: fs.from, "mount": "mount"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%w on %s: they need %s, which is in Debian's %s", errNoCuts, fs.name, program, from)
		}
	}
	kernel, err := os.ReadFile("/proc/filesystems")
	if err == nil && !strings.Contains(string(kernel), "\t"+fs.name+"\n") {
		return fmt.Errorf("%w on %s: the kernel has none", errNoCuts, fs.name)
	}
	return err
}

// cutDatabase creates a file system with a database, and cuts its power repeatedly.
func (r *run) cutDatabase(ctx context.Context, fs *realFS, rng *rand.Rand, more func() bool) (err error) {
	tmp, err := os.MkdirTemp(r.dir, "cut-")
	if err != nil {
		return err
	}
	image, at := filepath.Join(tmp, "image"), filepath.Join(tmp, "mnt")
	before := r.violations()
	defer func() {
		if e := detach(at); !errors.Is(e, unix.EINVAL) && !errors.Is(e, unix.ENOENT) { // it was mounted
			err = errors.Join(err, e)
		}
		if r.violations() == before {
			err = errors.Join(err, os.RemoveAll(tmp))
		}
	}()
	// Do not cancel these commands half-way: they are short, and would leave a mount behind.
	whole := context.WithoutCancel(ctx)
	if err := errors.Join(os.Mkdir(at, 0o700), os.WriteFile(image, nil, 0o600),
		os.Truncate(image, fs.size)); err != nil {
		return err
	}
	if err := system(whole, append(fs.mkfs, image)...); err != nil {
		return fmt.Errorf("%w on %s: %w", errNoCuts, fs.name, err)
	}
	mount := func() error { return system(whole, "mount", "-t", fs.name, "-o", "loop", image, at) }
	if err := mount(); err != nil {
		return fmt.Errorf("%w on %s: %w", errNoCuts, fs.name, err)
	}
	how := blow{
		dir: at, lost: true,
		strike: func() error { return shutdown(at, noLogFlush-rng.IntN(3)/2) },
		mend:   func() error { return errors.Join(detach(at), mount()) },
		count:  func(r *Report) { r.Cuts[fs.name]++ },
	}
	return r.killDatabase(ctx, rng, more, how)
}

// shutdown cuts a file system off from its device.
func shutdown(dir string, how int) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := unix.IoctlSetPointerInt(int(d.Fd()), fsIocShutdown, how); err != nil {
		return fmt.Errorf("torture: shut down %s: %w", dir, err)
	}
	return nil
}

// detach unmounts, which also releases the loop device.
func detach(dir string) (err error) {
	for range 200 {
		if err = unix.Unmount(dir, 0); !errors.Is(err, unix.EBUSY) {
			break
		}
		time.Sleep(10 * time.Millisecond) // the kernel keeps files of a killed process open for a moment
	}
	if err != nil {
		return fmt.Errorf("torture: unmount %s: %w", dir, err)
	}
	return nil
}

// system runs a system program.
func system(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("torture: %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
