package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// vectorSet is a set of base vectors and held-out queries, as .fvecs files that every contestant
// reads, with the exact answers of the first queries.
type vectorSet struct {
	name                string
	basePath, queryPath string
	base, queries       matrix
	truth               [][]int // of the first truthQueries queries: truthK rows each
}

const (
	truthQueries = 100
	truthK       = 10
	synthRows    = 100_000
	synthQueries = 1_000
	synthDim     = 768
	wideRows     = 50_000
	wideDim      = 1536
	millionRows  = 1_000_000
	millionDim   = 384
)

// Names of the sets.
const (
	glove     = "glove100k"
	sentences = "sentences384"
	synth768  = "synth768"
	synth1536 = "synth1536"
	synth384m = "synth384m" // a million rows
)

// eachSet runs a figure on the named sets that were chosen and are available, and on the chosen
// directories.
func (e *env) eachSet(r *report, run func(*vectorSet, *report) error, names ...string) error {
	for _, name := range e.sets {
		if isDirectory(name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if len(e.sets) > 0 && !slices.Contains(e.sets, name) {
			continue
		}
		set, err := e.set(name)
		if err != nil {
			r.note("left out: %v", err)
			continue
		}
		if err := run(set, r); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// isDirectory reports whether the name of a set is the path of a directory with base.fvecs and
// query.fvecs, such as tools/promise/sets.py makes.
func isDirectory(name string) bool { return filepath.Base(name) != name }

// directorySet reads a set from a directory. Contestants read copies of unit length: some compare
// inner products, and others cosines.
func (e *env) directorySet(dir string) (*vectorSet, error) {
	name := filepath.Base(dir)
	cached := filepath.Join(e.cache, name)
	if err := os.MkdirAll(cached, 0o777); err != nil {
		return nil, err
	}
	var paths []string
	for _, file := range []string{"base.fvecs", "query.fvecs"} {
		from, to := filepath.Join(dir, file), filepath.Join(cached, file)
		paths = append(paths, to)
		if !stale(to, from) {
			continue
		}
		m, err := readFvecs(from)
		if err != nil {
			return nil, err
		}
		for i := range m.rows() {
			row := m.row(i)
			length := math.Sqrt(dot(row, row))
			if length == 0 {
				return nil, fmt.Errorf("%s: row %d has length 0", from, i)
			}
			for j := range row {
				row[j] = float32(float64(row[j]) / length)
			}
		}
		if err := writeFvecs(to, m); err != nil {
			return nil, err
		}
	}
	return e.readSet(name, paths[0], paths[1])
}

func (e *env) set(name string) (*vectorSet, error) {
	if isDirectory(name) {
		return e.directorySet(name)
	}
	switch name {
	case glove: // 100,000 word vectors
		return e.readShared(glove, "glove100k")
	case sentences: // 26,000 embeddings of texts, of 384 dimensions
		return e.readShared(sentences, "bgemicro_ml_384")
	case synth768:
		return e.made(name, synthRows, synthDim)
	case synth384m:
		return e.made(name, millionRows, millionDim)
	default:
		return e.made(name, wideRows, wideDim)
	}
}

// readShared reads a set that lies beside the repository.
func (e *env) readShared(name, folder string) (*vectorSet, error) {
	dir := filepath.Join(e.shared, "data", folder)
	return e.readSet(name, filepath.Join(dir, "base.fvecs"), filepath.Join(dir, "query.fvecs"))
}

// made returns a generated set, from the cache if possible.
func (e *env) made(set string, rows, dim int) (*vectorSet, error) {
	dir := filepath.Join(e.cache, set)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	base, queries := filepath.Join(dir, "base.fvecs"), filepath.Join(dir, "query.fvecs")
	if stale(base) || stale(queries) {
		e.logf("generating %s", set)
		if err := writeSynth(base, dim, 0, rows); err != nil {
			return nil, err
		}
		if err := writeSynth(queries, dim, rows, synthQueries); err != nil {
			return nil, err
		}
	}
	return e.readSet(set, base, queries)
}

func (e *env) readSet(name, base, queries string) (*vectorSet, error) {
	s := &vectorSet{name: name, basePath: base, queryPath: queries}
	var err error
	if s.base, err = readFvecs(base); err != nil {
		return nil, err
	}
	if s.queries, err = readFvecs(queries); err != nil {
		return nil, err
	}
	if s.base.dim != s.queries.dim {
		return nil, fmt.Errorf("%s: base of %d dimensions, queries of %d", name, s.base.dim, s.queries.dim)
	}
	s.truth, err = e.truthOf(s, truthQueries, truthK, name+"-truth.ivecs")
	return s, err
}

// truthOf returns the k exact answers of each of the first n queries, from the cache if possible.
func (e *env) truthOf(s *vectorSet, n, k int, file string) ([][]int, error) {
	truth := filepath.Join(e.cache, file)
	if stale(truth, s.basePath, s.queryPath) {
		e.logf("computing the exact answers of %s", s.name)
		if err := writeIvecs(truth, exactTop(s.base, s.queries.head(n), k)); err != nil {
			return nil, err
		}
	}
	return readIvecs(truth)
}
