package exchange

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/docjson"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// A Format names a file format, as flags of the command spell it.
type Format string

// The formats that Open reads.
const (
	Auto           Format = "auto"      // by name and content
	EmbeddingCache Format = "emb-cache" // a directory of JSON arrays
	JSONL          Format = "jsonl"     // see ParseDocument; or one array of such objects
	FVecs          Format = "fvecs"
	BVecs          Format = "bvecs"
	NPY            Format = "npy"
	CSV            Format = "csv"  // rows under a header of names, as in ParseDocument; TSV too
	BEIR           Format = "beir" // corpus.jsonl, or a directory that has one
)

var formats = []Format{Auto, EmbeddingCache, JSONL, FVecs, BVecs, NPY, CSV, BEIR}

// OpenOptions tune Open. nil is the default.
type OpenOptions struct {
	Format Format // empty is Auto
	// Texts, for an embedding cache, is a JSONL file of {"key", "text", "metadata"}, or a directory
	// of text files named like the vectors. Metadata are optional, and a sidecar takes their place.
	Texts string
	// Metadata, for a file of vectors, is a JSONL file whose line i is the metadata of row i.
	Metadata string
	// Documents, for a file of vectors, is a JSONL file whose line i is the document of row i,
	// as an export writes it: a vector in it is refused, since the row is one. Not with Metadata.
	Documents string
}

// Open opens a file or directory as a Source. A missing path is an error that matches
// fs.ErrNotExist, also one of the options, and a regular file of vectors is refused if its header
// cannot be read. A pipe is opened at once, which waits for its writer, and its Source can be read
// only one time; sockets and devices likewise. The loop over Source.Documents closes the pipe, and
// ends with its context even while it waits for more: a Source that is never read leaves the pipe
// open, until the garbage collector closes it.
func Open(path string, opts *OpenOptions) (Source, error) {
	var o OpenOptions
	if opts != nil {
		o = *opts
	}
	in, err := newInput(path)
	if err != nil {
		return nil, err
	}
	src, err := in.source(o)
	if err != nil {
		in.close()
	}
	return src, err
}

// source returns the source that reads the input.
func (in *input) source(o OpenOptions) (Source, error) {
	if o.Format == "" || o.Format == Auto {
		var err error
		if o.Format, err = in.format(); err != nil {
			return nil, err
		}
	}
	rows := o.Format == FVecs || o.Format == BVecs || o.Format == NPY
	switch {
	case !slices.Contains(formats, o.Format):
		return nil, fmt.Errorf("%w: unknown format %q", db.ErrInvalid, o.Format)
	case o.Texts != "" && o.Format != EmbeddingCache:
		return nil, fmt.Errorf("%w: texts go with an embedding cache, not with %s", db.ErrInvalid, o.Format)
	case (o.Metadata != "" || o.Documents != "") && !rows:
		return nil, fmt.Errorf("%w: files of metadata and documents go with rows of vectors, not with %s", db.ErrInvalid, o.Format)
	case o.Metadata != "" && o.Documents != "":
		return nil, fmt.Errorf("%w: either metadata or documents", db.ErrInvalid)
	}
	if beside := o.Metadata + o.Documents; beside != "" {
		if _, err := os.Stat(beside); err != nil { // now, before a caller makes something for the rows
			return nil, err
		}
	}
	if in.mode.IsDir() && o.Format == BEIR {
		path := filepath.Join(in.path, "corpus.jsonl")
		f, err := vfs.OpenFile(path) // refuses a pipe, which only a path given by the user may be
		if err != nil {
			return nil, err
		}
		f.Close()
		if in, err = newInput(path); err != nil {
			return nil, err
		}
	}
	if in.mode.IsDir() && o.Format != EmbeddingCache {
		return nil, fmt.Errorf("%w: %s is a directory, not %s", db.ErrInvalid, in.path, o.Format)
	}
	s := &rowSource{in: in, metadata: o.Metadata, documents: o.Documents}
	switch o.Format {
	case EmbeddingCache:
		t, err := openTexts(o.Texts)
		if err != nil {
			return nil, fmt.Errorf("texts: %w", err)
		}
		return openCache(in.path, t), nil
	case FVecs:
		s.rows = openVecs(4)
	case BVecs:
		s.rows = openVecs(1)
	case NPY:
		s.rows = openNPY
	case CSV:
		return &csvSource{in}, nil
	default:
		return newJSONL(in), nil
	}
	if in.mode.IsRegular() { // likewise
		f, _, err := s.reader(context.Background())
		if err != nil {
			return nil, err
		}
		f.Close()
	}
	return s, nil
}

// Detect returns the format of a file or directory, by its name or, if the name is not conclusive,
// by its first bytes. It refuses to read the first bytes of a pipe, a socket or a device, which the
// Source would miss, with db.ErrInvalid.
func Detect(path string) (Format, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	in := &input{path: path, mode: info.Mode()}
	if _, ok := in.formatByName(); !ok && !in.mode.IsRegular() {
		return "", fmt.Errorf("%w: %s is not a regular file, and its name does not tell its format; copy it to a file",
			db.ErrInvalid, path)
	}
	return in.format()
}

// format returns the format of the input, by its name or its first bytes.
func (in *input) format() (Format, error) {
	if f, ok := in.formatByName(); ok {
		return f, nil
	}
	head, err := in.head(64) // white space may come first
	if err != nil {
		return "", err
	}
	switch first, _ := docjson.First(bytes.TrimPrefix(head, []byte(byteOrderMark))); {
	case bytes.HasPrefix(head, []byte(npyMagic)):
		return NPY, nil
	case first == '{' || first == '[':
		return JSONL, nil
	case compressed(head):
		return "", fmt.Errorf("%w: %q is compressed, and has to be decompressed first", db.ErrInvalid, in.path)
	}
	return "", fmt.Errorf("%w: the format of %q cannot be told by its name or first bytes", db.ErrInvalid, in.path)
}

// compressed reports whether a file that begins with head is of gzip, Zstandard, zip, bzip2 or xz.
func compressed(head []byte) bool {
	magics := []string{"\x1f\x8b", "\x28\xb5\x2f\xfd", "PK\x03\x04", "BZh", "\xfd7zXZ"}
	return slices.ContainsFunc(magics, func(magic string) bool { return strings.HasPrefix(string(head), magic) })
}

// formatByName returns the format that the name, or the content of the directory, tells.
func (in *input) formatByName() (Format, bool) {
	if in.mode.IsDir() {
		if _, err := os.Stat(filepath.Join(in.path, "corpus.jsonl")); err == nil {
			return BEIR, true
		}
		return EmbeddingCache, true
	}
	switch strings.ToLower(filepath.Ext(in.path)) {
	case ".fvecs":
		return FVecs, true
	case ".bvecs":
		return BVecs, true
	case ".npy":
		return NPY, true
	case ".jsonl", ".ndjson", ".json":
		return JSONL, true
	case ".csv", ".tsv":
		return CSV, true
	}
	return "", false
}
