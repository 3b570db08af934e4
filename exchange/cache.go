package exchange

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/docjson"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

const (
	sidecarSuffix = ".meta.json"
	maxCacheFile  = 64 << 20 // bytes; a vector of the largest dimension takes 2 MiB
)

// cacheSource reads an embedding cache as LangChain's file stores write it: below a directory, one
// file per text, named by a namespace and a hash of the text, that holds a JSON array of numbers.
// <name>.meta.json beside it is the metadata.
//
// The id of a document is the name of its file relative to the directory, with slashes.
type cacheSource struct {
	root  string
	texts texts
	procs int

	count   sync.Once
	entries int64
}

func openCache(root string, texts texts) *cacheSource {
	return &cacheSource{root: root, texts: texts, procs: runtime.GOMAXPROCS(0)}
}

// A cacheFile is a candidate: a file that may hold a vector.
type cacheFile struct {
	id      string
	sidecar bool
	err     error // of the walk
}

// files walks the cache in order of name.
func (s *cacheSource) files(ctx context.Context) iter.Seq[cacheFile] {
	return func(yield func(cacheFile) bool) { s.walk(ctx, "", yield) }
}

func (s *cacheSource) walk(ctx context.Context, dir string, yield func(cacheFile) bool) bool {
	entries, err := os.ReadDir(s.path(dir))
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return yield(cacheFile{err: err})
	}
	sidecars := map[string]bool{}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), sidecarSuffix); ok {
			sidecars[name] = true
		}
	}
	for _, e := range entries {
		name := e.Name()
		id := path.Join(dir, name)
		switch {
		case strings.HasPrefix(name, "."):
		case e.IsDir():
			if !s.walk(ctx, id, yield) {
				return false
			}
		case strings.HasSuffix(name, sidecarSuffix) && sidecars[strings.TrimSuffix(name, sidecarSuffix)]:
		case s.isFile(e, id):
			if !yield(cacheFile{id: id, sidecar: sidecars[name]}) {
				return false
			}
		}
	}
	return true
}

// isFile reports whether e is a file, or a link to a file. Links to directories are not
// followed: they may lead in circles.
func (s *cacheSource) isFile(e fs.DirEntry, id string) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.Type().IsRegular()
	}
	info, err := os.Stat(s.path(id))
	return err == nil && info.Mode().IsRegular()
}

func (s *cacheSource) path(id string) string { return filepath.Join(s.root, filepath.FromSlash(id)) }

// Total returns the number of files.
func (s *cacheSource) Total() int64 {
	s.count.Do(func() {
		for f := range s.files(context.Background()) {
			if f.err == nil {
				s.entries++
			}
		}
	})
	return s.entries
}

func (s *cacheSource) Documents(ctx context.Context) iter.Seq2[*ImportedDocument, error] {
	return func(yield func(*ImportedDocument, error) bool) {
		type result struct {
			doc *ImportedDocument
			err error
		}
		buffers := sync.Pool{New: func() any { return new([]byte) }}
		scratch := sync.Pool{New: func() any { return new([]float32) }}
		read := func(f cacheFile) result {
			if f.err != nil {
				return result{err: f.err}
			}
			buf, vec := buffers.Get().(*[]byte), scratch.Get().(*[]float32)
			defer buffers.Put(buf)
			defer scratch.Put(vec)
			doc, err := s.read(f, buf, vec)
			return result{doc, err}
		}
		done := int64(0)
		for r := range ordered(s.procs, s.files(ctx), read) {
			if r.err != nil {
				yield(nil, r.err)
				return
			}
			done++
			r.doc.Done = done
			if !yield(r.doc, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(nil, err)
		}
	}
}

// read reads one file. The error is an I/O error; other failures are the Skip of the document.
func (s *cacheSource) read(f cacheFile, buf *[]byte, scratch *[]float32) (*ImportedDocument, error) {
	name := s.path(f.id)
	doc := &ImportedDocument{Document: db.Document{ID: f.id}, Position: Position{File: name}, Carries: db.WithVector}
	b, err := readCacheFile(buf, name)
	if err != nil {
		if concernsFile(err) {
			doc.Skip = err
			return doc, nil
		}
		return nil, err
	}
	vec, err := docjson.ParseVector((*scratch)[:0], b)
	if err != nil {
		doc.Skip = err
		return doc, nil
	}
	*scratch = vec
	if len(vec) == 0 {
		doc.Skip = fmt.Errorf("%w: the vector is empty", ErrFormat)
		return doc, nil
	}
	doc.Document.Vector = append(make([]float32, 0, len(vec)), vec...)
	if f.sidecar {
		side, err := vfs.ReadFile(name + sidecarSuffix)
		if err != nil {
			if concernsFile(err) {
				doc.Skip = err
				return doc, nil
			}
			return nil, err
		}
		m, err := docjson.ReadMetadata(side)
		if err != nil {
			doc.Skip = fmt.Errorf("sidecar: %w", err)
			return doc, nil
		}
		doc.Document.Metadata = m
		doc.Carries |= db.WithMetadata
	}
	text, ok, err := s.texts.of(f.id)
	if err != nil {
		return nil, err
	}
	if ok {
		doc.Document.Text = text.text
		doc.Carries |= db.WithText
	}
	if text.metadata != nil && !f.sidecar {
		doc.Document.Metadata = text.metadata
		doc.Carries |= db.WithMetadata
	}
	return doc, nil
}

var errTooLarge = errors.New("too large for a vector")

// isNoText reports whether an error says that there is no text file of this name: nothing, or a
// directory, or a file where the name has a directory.
func isNoText(err error) bool {
	_, other := errors.AsType[*vfs.NotRegularError](err)
	return other || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// concernsFile reports whether an error of reading a cache file concerns this file only and not the
// disk. Files of a cache in use may change or disappear during the import.
func concernsFile(err error) bool {
	if _, ok := errors.AsType[*vfs.NotRegularError](err); ok {
		return true
	}
	return errors.Is(err, ErrIgnored) || errors.Is(err, errTooLarge) ||
		errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)
}

// readCacheFile reads a whole file into *buf, which grows as needed. If the first bytes show that
// the file does not belong to a cache, it stops and returns ErrIgnored.
func readCacheFile(buf *[]byte, name string) ([]byte, error) {
	f, err := vfs.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := (*buf)[:cap(*buf)]
	if len(b) == 0 {
		b = make([]byte, 64<<10)
	}
	known := false
	for n := 0; ; {
		if n == len(b) {
			if n > maxCacheFile {
				return nil, fmt.Errorf("%w: over %d bytes", errTooLarge, maxCacheFile)
			}
			b = append(b, make([]byte, len(b))...)
		}
		got, err := f.Read(b[n:])
		n += got
		*buf = b
		if err != nil && err != io.EOF {
			return nil, err
		}
		if !known && (n >= headSize || err == io.EOF) {
			if known = isEntry(filepath.Base(name), b[:n]); !known {
				return nil, ErrIgnored
			}
		}
		if err == io.EOF {
			return b[:n], nil
		}
	}
}

// headSize is the number of leading bytes that decide whether a file belongs to a cache.
const headSize = 512

// isEntry distinguishes cache files, broken ones included, from unrelated files in the same
// directory, such as a database or a README.
func isEntry(name string, head []byte) bool {
	first, _ := docjson.First(head)
	switch {
	case first == '[' || namedByHash(name):
		return true
	case bytes.IndexByte(head[:min(len(head), headSize)], 0) >= 0:
		return false
	}
	ext := path.Ext(name)
	return ext == "" || ext == ".txt" || ext == ".json"
}

// namedByHash reports whether a file name ends like a cache file: in a UUID or in the hexadecimal
// digits of a SHA-1, SHA-256, SHA-512 or BLAKE2b hash, with or without .txt.
func namedByHash(name string) bool {
	name = strings.TrimSuffix(name, ".txt")
	const uuidLen, sha1Len = 36, 40
	if n := len(name); n >= uuidLen {
		u := name[n-uuidLen:]
		if u[8] == '-' && u[13] == '-' && u[18] == '-' && u[23] == '-' && isHex(strings.ReplaceAll(u, "-", "")) {
			return true
		}
	}
	return len(name) >= sha1Len && isHex(name[len(name)-sha1Len:])
}

func isHex(s string) bool {
	return strings.Trim(s, "0123456789abcdefABCDEF") == ""
}

// texts finds the texts of cached vectors. The cache itself holds vectors only.
type texts struct {
	byKey map[string]cachedText
	dir   string
}

// A cachedText is the text of a cached vector. Its metadata is nil where none is known.
type cachedText struct {
	text     string
	metadata map[string]any
}

// openTexts reads a JSONL file of objects with a text, its key ("key", "id" or "name") and perhaps
// metadata, or opens a directory of text files that are named like the vectors, with or without
// .txt.
func openTexts(name string) (texts, error) {
	if name == "" {
		return texts{}, nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return texts{}, err
	}
	if info.IsDir() {
		return texts{dir: name}, nil
	}
	t := texts{byKey: map[string]cachedText{}}
	err = eachLine(name, func(n int64, line []byte) error {
		if isBlank(line) {
			return nil
		}
		m, err := docjson.ReadMetadata(line)
		if err != nil {
			return locate(err, name, n)
		}
		text, ok := m["text"].(string)
		about, isMap := m["metadata"].(map[string]any)
		if m["metadata"] != nil && !isMap {
			return &FormatError{Name: name, Line: n, Err: errors.New("metadata: want an object")}
		}
		for _, field := range []string{"key", "id", "name"} {
			if key, isKey := m[field].(string); ok && isKey {
				t.byKey[key] = cachedText{text, about}
				return nil
			}
		}
		return &FormatError{Name: name, Line: n, Err: errors.New(`want an object with the strings "text" and "key"`)}
	})
	return t, err
}

// of returns the text for the vector with an id.
func (t texts) of(id string) (text cachedText, ok bool, err error) {
	base := path.Base(id)
	if t.byKey != nil {
		for _, key := range []string{id, base, strings.TrimSuffix(base, ".txt")} {
			if text, ok := t.byKey[key]; ok {
				return text, true, nil
			}
		}
		return text, false, nil
	}
	if t.dir == "" {
		return text, false, nil
	}
	for _, name := range []string{id, id + ".txt", base, base + ".txt"} {
		b, err := vfs.ReadFile(filepath.Join(t.dir, filepath.FromSlash(name)))
		if err == nil {
			return cachedText{text: string(b)}, true, nil
		}
		if !isNoText(err) {
			return text, false, err
		}
	}
	return text, false, nil
}
