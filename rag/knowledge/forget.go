package knowledge

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag/load"
)

// forget removes files at or below a path from the base: those that are gone, and those that rules
// in the directories exclude by now. What exists but was not read, because of options of this run
// or because it cannot be read, stays.
func (l *learner) forget(path string) error {
	id := l.root.id(path)
	var gone, unsure []*db.Document
	known := listings{}
	for d, err := range l.files.All(l.ctx, nil, db.WithMetadata) {
		if err != nil {
			return err
		}
		switch {
		case !l.root.has(id, d.ID) || l.seen[d.ID]:
		case known.gone(l.root.file(d.ID)), l.seen[l.root.id(l.root.file(d.ID))]: // or now under another id
			gone = append(gone, d)
		default:
			unsure = append(unsure, d)
		}
	}
	if len(unsure) > 0 {
		ignored, err := l.ignored(path, id)
		if err != nil {
			return err
		}
		for _, d := range unsure {
			if ignored[d.ID] {
				gone = append(gone, d)
			}
		}
	}
	l.report.Removed += len(gone)
	return l.drop(gone)
}

// ignored returns the ids of the files below a path that its rules exclude, or that are part of a
// base.
func (l *learner) ignored(path, id string) (map[string]bool, error) {
	o := load.Options{Hidden: true, Ignored: true}
	all, _, err := l.below(path, id, o)
	if err != nil {
		return nil, err
	}
	o.Ignored, o.Skip = l.o.Load.Ignored, l.isPart
	kept, unread, err := l.below(path, id, o)
	for file := range all {
		if kept[file] {
			delete(all, file)
		}
		for dir := range unread { // its rules are not known
			if l.root.has(dir, file) {
				delete(all, file)
			}
		}
	}
	return all, err
}

// below returns the ids of the files below a path, and of what cannot be read.
func (l *learner) below(path, id string, o load.Options) (files, unread map[string]bool, err error) {
	files, unread = map[string]bool{}, map[string]bool{}
	for name, err := range load.Files(l.ctx, path, &o) {
		list := files
		var skip *load.SkipError
		if errors.As(err, &skip) {
			list, name, err = unread, skip.Source, nil
		}
		if errors.Is(err, fs.ErrNotExist) {
			break // the path itself
		}
		if err == nil {
			name, err = idBelow(id, path, name)
		}
		if err != nil {
			return nil, nil, err
		}
		list[name] = true
	}
	return files, unread, nil
}

// listings are the entries of directories by name; nil for a directory that is gone.
type listings map[string]map[string]fs.DirEntry

// gone reports whether there certainly is no file at a path. The name must be spelt as in its
// directory, also where the system takes other spellings for it.
func (l listings) gone(path string) bool {
	dir := filepath.Dir(path)
	entries, known := l[dir]
	if !known {
		list, err := os.ReadDir(dir)
		if err != nil && !absent(err) {
			return false
		}
		if err == nil {
			entries = map[string]fs.DirEntry{}
		}
		for _, e := range list {
			entries[e.Name()] = e
		}
		l[dir] = entries
	}
	e := entries[filepath.Base(path)]
	if e == nil || e.IsDir() {
		return true
	}
	_, err := os.Stat(path) // follows a link
	return absent(err)
}

// absent reports whether an error says that nothing is at a path.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// drop removes files and their chunks.
func (l *learner) drop(files []*db.Document) error {
	const full = 16 << 20 // bytes
	var b db.Batch
	for i, d := range files {
		b.Delete(l.current, chunkIDs(d)...)
		b.Delete(filesName, d.ID)
		if i < len(files)-1 && b.Size() < full {
			continue
		}
		if err := l.vdb.Apply(l.ctx, &b); err != nil {
			return err
		}
		b.Reset()
	}
	return nil
}
