package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// vectorSet is a set of base vectors and held-out queries, as .fvecs files that every contestant reads, with the exact
// answers of the first queries.
type vectorSet struct {
	name                string
	basePath, queryPath string
	base, queries       matrix
	truth               [][]int // of the first truthQueries queries, truthK rows each
}

const (
	truthQueries = 100
	truthK       = 10
	synthRows    = 100_000
	synthQueries = 1_000
	synthDim     = 768
	wideRows     = 50_000
	wideDim      = 1536
)

// synthSet returns 100,000 vectors of 768 dimensions, and wideSet 50,000 of 1536.
func (e *env) synthSet() (*vectorSet, error) { return e.made(synthRows, synthDim) }
func (e *env) wideSet() (*vectorSet, error)  { return e.made(wideRows, wideDim) }

// made generates a set into the cache, or finds it there.
func (e *env) made(rows, dim int) (*vectorSet, error) {
	set := fmt.Sprintf("synth%d", dim)
	dir := filepath.Join(e.cache, set)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	base, queries := filepath.Join(dir, "base.fvecs"), filepath.Join(dir, "query.fvecs")
	if stale(base) || stale(queries) {
		e.logf("generating %s", set)
		m := synth(rows+synthQueries, dim)
		if err := writeFvecs(base, m.head(rows)); err != nil {
			return nil, err
		}
		if err := writeFvecs(queries, matrix{m.dim, m.data[rows*dim:]}); err != nil {
			return nil, err
		}
	}
	return e.readSet(set, base, queries)
}

// sentenceSet reads the 26,000 embeddings of texts of 384 dimensions that lie beside the repository.
func (e *env) sentenceSet() (*vectorSet, error) {
	dir := filepath.Join(e.shared, "data", "bgemicro_ml_384")
	return e.readSet("sentences384", filepath.Join(dir, "base.fvecs"), filepath.Join(dir, "query.fvecs"))
}

// gloveSet reads the 100,000 word vectors that lie beside the repository.
func (e *env) gloveSet() (*vectorSet, error) {
	dir := filepath.Join(e.shared, "data", "glove100k")
	return e.readSet("glove100k", filepath.Join(dir, "base.fvecs"), filepath.Join(dir, "query.fvecs"))
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
	s.truth, err = e.truthOf(s, truthQueries, name+"-truth.ivecs")
	return s, err
}

// truthOf computes the exact answers of the first n queries, or finds them in the cache.
func (e *env) truthOf(s *vectorSet, n int, file string) ([][]int, error) {
	truth := filepath.Join(e.cache, file)
	if stale(truth, s.basePath, s.queryPath) {
		e.logf("computing the exact answers of %s", s.name)
		if err := writeIvecs(truth, exactTop(s.base, s.queries.head(n), truthK)); err != nil {
			return nil, err
		}
	}
	return readIvecs(truth)
}
