package vfs

import (
	"io/fs"
	"os"
	"path"
	"sync"
	"syscall"
)

// NewMemory returns an empty FS whose files have no names in the system and vanish with the last
// handle, however the process ends. On Linux they are memory (memfd_create); elsewhere they are
// temporary files that were unlinked when they were made, or that Windows deletes with the last
// handle and keeps in its cache while there is room. Nothing is made durable. hook may be nil.
func NewMemory(hook Hook) *FS {
	return newFS(&memory{files: map[string]*os.File{}, dirs: map[string]bool{".": true}}, hook)
}

// memory is a directory of files without names in the system.
type memory struct {
	mu    sync.Mutex
	files map[string]*os.File
	dirs  map[string]bool
}

func pathError(op Kind, name string, err error) error {
	return &fs.PathError{Op: op.String(), Path: name, Err: err}
}

// open returns a handle of its own: the caller closes it.
func (m *memory) open(name string, flag int, _ fs.FileMode) (*os.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = path.Clean(name)
	f, ok := m.files[name]
	switch {
	case m.dirs[name] && flag&os.O_EXCL != 0:
		return nil, &NotRegularError{name, fs.ModeDir, fs.ErrExist}
	case m.dirs[name]:
		return nil, &NotRegularError{Name: name, Mode: fs.ModeDir}
	case ok && flag&os.O_EXCL != 0:
		return nil, pathError(OpCreate, name, fs.ErrExist)
	case !ok && flag&os.O_CREATE == 0 || !m.dirs[path.Dir(name)]:
		return nil, pathError(OpOpen, name, fs.ErrNotExist)
	case !ok:
		var err error
		if f, err = nameless(name); err != nil {
			return nil, pathError(OpCreate, name, err)
		}
		m.files[name] = f
	}
	own, err := duplicate(f, name)
	if err != nil {
		return nil, pathError(OpOpen, name, err)
	}
	return own, nil
}

func (m *memory) Stat(name string) (fs.FileInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, ok := m.files[path.Clean(name)]
	switch {
	case ok:
		return f.Stat()
	case m.dirs[path.Clean(name)]:
		return os.Stat(os.TempDir()) // a directory, like this one
	}
	return nil, pathError(OpStat, name, fs.ErrNotExist)
}

// Lstat is Stat: there are no links.
func (m *memory) Lstat(name string) (fs.FileInfo, error) { return m.Stat(name) }

func (m *memory) Rename(oldname, newname string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	oldname, newname = path.Clean(oldname), path.Clean(newname)
	f, ok := m.files[oldname]
	if !ok || !m.dirs[path.Dir(newname)] {
		return pathError(OpRename, oldname, fs.ErrNotExist)
	}
	if replaced, ok := m.files[newname]; ok && newname != oldname {
		replaced.Close()
	}
	delete(m.files, oldname)
	m.files[newname] = f
	return nil
}

func (m *memory) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = path.Clean(name)
	if f, ok := m.files[name]; ok {
		delete(m.files, name)
		return f.Close()
	}
	if !m.dirs[name] {
		return pathError(OpRemove, name, fs.ErrNotExist)
	}
	if len(m.entries(name)) > 0 {
		return pathError(OpRemove, name, syscall.ENOTEMPTY)
	}
	delete(m.dirs, name)
	return nil
}

func (m *memory) Mkdir(name string, _ fs.FileMode) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = path.Clean(name)
	if _, ok := m.files[name]; ok || m.dirs[name] {
		return pathError(OpMkdir, name, fs.ErrExist)
	}
	if !m.dirs[path.Dir(name)] {
		return pathError(OpMkdir, name, fs.ErrNotExist)
	}
	m.dirs[name] = true
	return nil
}

func (m *memory) list(name string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = path.Clean(name)
	if f, ok := m.files[name]; ok {
		st, err := f.Stat()
		if err == nil {
			err = &NotRegularError{name, st.Mode(), errNotDir}
		}
		return nil, err
	}
	if !m.dirs[name] {
		return nil, pathError(OpReadDir, name, fs.ErrNotExist)
	}
	return m.entries(name), nil
}

// entries returns the base names of the entries of a directory.
func (m *memory) entries(dir string) (names []string) {
	for name := range m.files {
		if path.Dir(name) == dir {
			names = append(names, path.Base(name))
		}
	}
	for name := range m.dirs {
		if name != "." && path.Dir(name) == dir {
			names = append(names, path.Base(name))
		}
	}
	return names
}

func (m *memory) sync(string) (tried bool, err error) { return true, nil }

func (m *memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.files {
		f.Close()
	}
	clear(m.files)
	return nil
}
