package exchange

import (
	"bufio"
	"errors"
	"fmt"
	"io"
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
	// Texts, for an embedding cache, is a JSONL file of {"key", "text"}, or a directory of text
	// files named like the vectors.
	Texts string
	// Metadata, for a file of vectors, is a JSONL file whose line i is the metadata of row i.
	Metadata string
	// Documents, for a file of vectors, is a JSONL file whose line i is the document of row i,
	// without its vector, as an export writes it. Not with Metadata.
	Documents string
}

// Open opens a file or directory as a Source. A missing path is an error that matches
// fs.ErrNotExist.
func Open(path string, opts *OpenOptions) (Source, error) {
	var o OpenOptions
	if opts != nil {
		o = *opts
	}
	if o.Format == "" || o.Format == Auto {
		var err error
		if o.Format, err = Detect(path); err != nil {
			return nil, err
		}
	}
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	rows := o.Format == FVecs || o.Format == BVecs || o.Format == NPY
	switch {
	case !slices.Contains(formats, o.Format):
		return nil, fmt.Errorf("%w: unknown format %q", db.ErrInvalid, o.Format)
	case o.Texts != "" && o.Format != EmbeddingCache:
		return nil, fmt.Errorf("%w: texts go with an embedding cache, not with %s", db.ErrInvalid, o.Format)
	case (o.Metadata != "" || o.Documents != "") && !rows:
		return nil, fmt.Errorf("%w: a file of metadata goes with rows of vectors, not with %s", db.ErrInvalid, o.Format)
	case o.Metadata != "" && o.Documents != "":
		return nil, fmt.Errorf("%w: either metadata or documents", db.ErrInvalid)
	}
	s := &rowSource{path: path, metadata: o.Metadata, documents: o.Documents}
	switch o.Format {
	case EmbeddingCache:
		t, err := openTexts(o.Texts)
		if err != nil {
			return nil, fmt.Errorf("texts: %w", err)
		}
		return openCache(path, t), nil
	case FVecs:
		s.open = openVecs(4)
	case BVecs:
		s.open = openVecs(1)
	case NPY:
		s.open = openNPY
	case CSV:
		return openCSV(path)
	case BEIR:
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			path = filepath.Join(path, "corpus.jsonl")
			f, err := vfs.OpenFile(path) // refuses a pipe, which only a path given by the user may be
			if err != nil {
				return nil, err
			}
			f.Close()
		}
		return openJSONL(path)
	default:
		return openJSONL(path)
	}
	return s, nil
}

// Detect returns the format of a file or directory, by its name or, if the name is not conclusive,
// by its first bytes.
func Detect(path string) (Format, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.IsDir() {
		if _, err := os.Stat(filepath.Join(path, "corpus.jsonl")); err == nil {
			return BEIR, nil
		}
		return EmbeddingCache, nil
	}
	switch strings.ToLower(filepath.Ext(path)) {
	case ".fvecs":
		return FVecs, nil
	case ".bvecs":
		return BVecs, nil
	case ".npy":
		return NPY, nil
	case ".jsonl", ".ndjson", ".json":
		return JSONL, nil
	case ".csv", ".tsv":
		return CSV, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	head, err := bufio.NewReader(f).Peek(len(npyMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	switch first, _ := docjson.First(head); {
	case string(head) == npyMagic:
		return NPY, nil
	case first == '{' || first == '[':
		return JSONL, nil
	}
	return "", fmt.Errorf("%w: the format of %q cannot be told by its name or first bytes", db.ErrInvalid, path)
}
