package torture

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// unmount detaches the mount at dir, if any.
func unmount(dir string) { _ = syscall.Unmount(dir, syscall.MNT_DETACH) }

// serve mounts the recording file system at dir and executes the commands on in until it ends.
func serve(dir string, in io.Reader, out io.Writer) {
	s := &server{next: rootIno}
	s.changed = sync.NewCond(&s.mu)
	forever := time.Hour
	mounted, err := fs.Mount(dir, &fuseDir{s: s, ino: rootIno}, &fs.Options{
		AttrTimeout: &forever, EntryTimeout: &forever,
		MountOptions: fuse.MountOptions{FsName: "vecbolt-torture", Name: "vecbolt", DirectMount: true,
			MaxWrite: 1 << 20, DisableXAttrs: true},
	})
	if err != nil {
		fmt.Fprintln(out, err)
		return
	}
	// An interrupt goes to the whole process group. This process must outlive the process that uses
	// its files.
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	fmt.Fprintln(out, "ok")
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if err := s.obey(lines.Text()); err != nil {
			fmt.Fprintln(out, strings.ReplaceAll(err.Error(), "\n", " "))
			continue
		}
		fmt.Fprintln(out, "ok")
	}
	if mounted.Unmount() != nil {
		unmount(dir)
	}
}

// A server records changes of its files and injects failures.
type server struct {
	mu   sync.Mutex
	log  []Op
	next uint64 // last assigned file number

	kind   Kind // kind of operation that fails; 0: any
	left   int  // matching operations until the failure; 0: no failure
	errno  syscall.Errno
	sticky bool

	changed *sync.Cond // signals changes of the fields below
	stalled bool       // syncs block while it is set
	waiting int        // number of blocked syncs
	lost    bool       // blocked syncs do nothing: their process was killed

	dies bool // the next sync of the root does nothing
}

func (s *server) obey(line string) error {
	verb, rest, _ := strings.Cut(line, " ")
	s.mu.Lock()
	defer s.mu.Unlock()
	switch verb {
	case "mark":
		s.log = append(s.log, Op{Kind: Mark, Note: rest})
		s.dies = s.dies || rest == dies
	case "forget":
		s.log = nil
	case "stall": // until "resume" or "lose"
		s.stalled = true
	case "await": // waits for a blocked sync
		late := false
		timer := time.AfterFunc(answerTime/2, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			late = true
			s.changed.Broadcast()
		})
		defer timer.Stop()
		for s.waiting == 0 && !late {
			s.changed.Wait()
		}
		if s.waiting == 0 {
			s.stalled = false
			return errors.New("nothing is synced")
		}
	case "resume":
		s.stalled = false
		s.changed.Broadcast()
	case "lose":
		s.stalled, s.lost = false, s.waiting > 0
		s.changed.Broadcast()
	case "take":
		log := s.log
		s.log = nil
		return save(rest, log)
	case "fault":
		var errno int
		_, err := fmt.Sscan(rest, &s.kind, &s.left, &errno, &s.sticky)
		s.errno = syscall.Errno(errno)
		return err
	default:
		return fmt.Errorf("unknown command %q", line)
	}
	return nil
}

func save(name string, log []Op) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	b := bufio.NewWriterSize(f, 1<<20)
	return errors.Join(gob.NewEncoder(b).Encode(log), b.Flush(), f.Close())
}

// record records an operation and returns the error to inject. mu is held.
func (s *server) record(op Op) syscall.Errno {
	op.Failed = s.fails(op.Kind)
	op.Interrupted = op.Failed && s.errno == syscall.EINTR
	op.Full = op.Failed && (s.errno == syscall.ENOSPC || s.errno == syscall.EDQUOT)
	s.log = append(s.log, op)
	if op.Failed {
		return s.errno
	}
	return 0
}

// fails counts an operation and reports whether to fail it. mu is held.
func (s *server) fails(kind Kind) bool {
	if s.left == 0 || s.kind != 0 && s.kind != kind {
		return false
	}
	s.left--
	if s.left == 0 && s.sticky {
		s.left = 1
		return true
	}
	return s.left == 0
}

// look records an operation that changes nothing, if such operations are requested, and returns the
// error to inject.
func (s *server) look(op Op) syscall.Errno {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kind != op.Kind {
		return 0
	}
	return s.record(op)
}

// cache tells the kernel whether to keep its cache of a file that is opened.
func (s *server) cache() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kind == Read {
		return 0
	}
	return fuse.FOPEN_KEEP_CACHE // keeps mapped and written content consistent
}

type fuseDir struct {
	fs.Inode
	s   *server
	ino uint64
}

type fuseFile struct {
	fs.Inode
	s     *server
	ino   uint64
	data  file // guarded by s.mu
	names int  // guarded by s.mu
}

// A fuseSocket is the name of a socket. The kernel finds the socket by the number of the file, so
// each answer repeats it.
type fuseSocket struct {
	fs.Inode
	ino uint64
}

var (
	_ fs.NodeCreater   = (*fuseDir)(nil)
	_ fs.NodeMkdirer   = (*fuseDir)(nil)
	_ fs.NodeUnlinker  = (*fuseDir)(nil)
	_ fs.NodeRmdirer   = (*fuseDir)(nil)
	_ fs.NodeRenamer   = (*fuseDir)(nil)
	_ fs.NodeFsyncer   = (*fuseDir)(nil)
	_ fs.NodeGetattrer = (*fuseDir)(nil)
	_ fs.NodeLinker    = (*fuseDir)(nil)
	_ fs.NodeMknoder   = (*fuseDir)(nil)
	_ fs.NodeSetattrer = (*fuseDir)(nil)
	_ fs.NodeGetattrer = (*fuseSocket)(nil)
	_ fs.NodeSetattrer = (*fuseSocket)(nil)
	_ fs.NodeOpener    = (*fuseFile)(nil)
	_ fs.NodeReader    = (*fuseFile)(nil)
	_ fs.NodeWriter    = (*fuseFile)(nil)
	_ fs.NodeFsyncer   = (*fuseFile)(nil)
	_ fs.NodeFlusher   = (*fuseFile)(nil)
	_ fs.NodeGetattrer = (*fuseFile)(nil)
	_ fs.NodeSetattrer = (*fuseFile)(nil)
)

func (d *fuseDir) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode = 0o700
	return 0
}

func (d *fuseDir) Create(ctx context.Context, name string, _, mode uint32,
	out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	d.s.next++
	n := &fuseFile{s: d.s, ino: d.s.next, names: 1}
	if errno := d.s.record(Op{Kind: Create, Ino: n.ino, Dir: d.ino, Name: name}); errno != 0 {
		return nil, nil, 0, errno
	}
	out.Mode, out.Nlink = fuse.S_IFREG|mode&0o777, 1
	return d.NewPersistentInode(ctx, n, fs.StableAttr{Mode: fuse.S_IFREG, Ino: n.ino}), nil, fuse.FOPEN_KEEP_CACHE, 0
}

func (d *fuseDir) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	d.s.next++
	n := &fuseDir{s: d.s, ino: d.s.next}
	if errno := d.s.record(Op{Kind: Mkdir, Ino: n.ino, Dir: d.ino, Name: name}); errno != 0 {
		return nil, errno
	}
	out.Mode = fuse.S_IFDIR | mode&0o777
	return d.NewPersistentInode(ctx, n, fs.StableAttr{Mode: fuse.S_IFDIR, Ino: n.ino}), 0
}

func (d *fuseDir) Unlink(_ context.Context, name string) syscall.Errno {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	errno := d.s.record(Op{Kind: Remove, Dir: d.ino, Name: name})
	if child := d.GetChild(name); errno == 0 && child != nil {
		if f, ok := child.Operations().(*fuseFile); ok {
			if f.names--; f.names > 0 {
				return 0
			}
		}
		child.ForgetPersistent() // freed with its last user
	}
	return errno
}

func (d *fuseDir) Link(_ context.Context, target fs.InodeEmbedder, name string,
	out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	f, ok := target.(*fuseFile)
	if !ok {
		return nil, syscall.EPERM
	}
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	if errno := d.s.record(Op{Kind: Link, Ino: f.ino, Dir: d.ino, Name: name}); errno != 0 {
		return nil, errno
	}
	f.names++
	out.Mode, out.Size, out.Nlink = fuse.S_IFREG|0o600, uint64(f.data.size), uint32(f.names)
	return f.EmbeddedInode(), 0
}

// Mknod makes the name of a socket. A crash leaves it as an empty file.
func (d *fuseDir) Mknod(ctx context.Context, name string, mode, _ uint32,
	out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if mode&syscall.S_IFMT != syscall.S_IFSOCK {
		return nil, syscall.EPERM
	}
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	d.s.next++
	if errno := d.s.record(Op{Kind: Create, Ino: d.s.next, Dir: d.ino, Name: name}); errno != 0 {
		return nil, errno
	}
	out.Mode, out.Nlink, out.Ino = mode, 1, d.s.next
	attr := fs.StableAttr{Mode: syscall.S_IFSOCK, Ino: d.s.next}
	return d.NewPersistentInode(ctx, &fuseSocket{ino: d.s.next}, attr), 0
}

// Setattr does not record permissions.
func (d *fuseDir) Setattr(_ context.Context, _ fs.FileHandle, _ *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	out.Mode = fuse.S_IFDIR | 0o700
	return 0
}

func (n *fuseSocket) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Nlink, out.Ino = syscall.S_IFSOCK|0o600, 1, n.ino
	return 0
}

func (n *fuseSocket) Setattr(_ context.Context, _ fs.FileHandle, _ *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Nlink, out.Ino = syscall.S_IFSOCK|0o600, 1, n.ino
	return 0
}

func (d *fuseDir) Rmdir(ctx context.Context, name string) syscall.Errno { return d.Unlink(ctx, name) }

func (d *fuseDir) Rename(_ context.Context, name string, to fs.InodeEmbedder, toName string,
	flags uint32) syscall.Errno {
	target, ok := to.(*fuseDir)
	kind := Rename
	if flags == unix.RENAME_EXCHANGE {
		kind = Exchange
	}
	if !ok || flags != 0 && kind == Rename {
		return syscall.EINVAL
	}
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	return d.s.record(Op{Kind: kind, Dir: d.ino, Name: name, Dir2: target.ino, Name2: toName})
}

func (d *fuseDir) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	if d.s.dies && d.ino == rootIno {
		d.s.dies = false
		return 0
	}
	return d.s.record(Op{Kind: SyncDir, Dir: d.ino})
}

func (f *fuseFile) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, f.s.cache(), f.s.look(Op{Kind: Open, Ino: f.ino})
}

func (f *fuseFile) Flush(context.Context, fs.FileHandle) syscall.Errno { return 0 }

func (f *fuseFile) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	out.Mode, out.Size, out.Nlink = fuse.S_IFREG|0o600, uint64(f.data.size), uint32(f.names)
	return 0
}

func (f *fuseFile) Setattr(_ context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	if size, ok := in.GetSize(); ok {
		if errno := f.s.record(Op{Kind: Truncate, Ino: f.ino, Off: int64(size)}); errno != 0 {
			return errno
		}
		f.data.truncate(int64(size))
	}
	out.Mode, out.Size, out.Nlink = fuse.S_IFREG|0o600, uint64(f.data.size), uint32(f.names)
	return 0
}

func (f *fuseFile) Read(_ context.Context, _ fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	if errno := f.s.look(Op{Kind: Read, Ino: f.ino}); errno != 0 {
		return nil, errno
	}
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	return fuse.ReadResultData(dest[:f.data.readAt(dest, off)]), 0
}

func (f *fuseFile) Write(_ context.Context, _ fs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	short := f.s.errno == shortWrite && len(data) > 1 && f.s.fails(Write)
	if short {
		data = data[:len(data)/2]
	}
	op := Op{Kind: Write, Short: short, Ino: f.ino, Off: off, Len: int64(len(data))}
	if !allZero(data) {
		op.Data = append([]byte(nil), data...)
	}
	if f.s.errno == shortWrite {
		f.s.log = append(f.s.log, op)
	} else if errno := f.s.record(op); errno != 0 {
		return 0, errno
	}
	f.data.write(off, op.Len, op.Data)
	return uint32(len(data)), 0
}

// Allocate reserves space. It has no effect that a crash could reveal.
func (f *fuseFile) Allocate(_ context.Context, _ fs.FileHandle, _, _ uint64, mode uint32) syscall.Errno {
	if mode != unix.FALLOC_FL_KEEP_SIZE {
		return syscall.EOPNOTSUPP
	}
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	return f.s.record(Op{Kind: Allocate, Ino: f.ino})
}

func (f *fuseFile) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	f.s.waiting++
	blocked := f.s.stalled
	for f.s.stalled {
		f.s.changed.Broadcast()
		f.s.changed.Wait()
	}
	f.s.waiting--
	if blocked && f.s.lost {
		f.s.lost = f.s.waiting > 0
		return syscall.EIO
	}
	return f.s.record(Op{Kind: Sync, Ino: f.ino})
}
