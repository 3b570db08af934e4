package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
)

const cacheFiles = 10_000

// embCache makes an embedding cache of cacheFiles files from the real cache beside the repository.
// It copies every file several times, under other names, with every value moved by up to a
// thousandth, written as Python's json module writes floats. It returns the directory and its size
// in bytes.
func (e *env) embCache() (dir string, size int64, err error) {
	src := filepath.Join(e.shared, "data", "emb-cache-ada002", "cache")
	names, err := os.ReadDir(src)
	if err != nil {
		return "", 0, err
	}
	if len(names) == 0 {
		return "", 0, errors.New("the embedding cache is empty")
	}
	dir = filepath.Join(e.cache, fmt.Sprintf("emb-cache-%d", cacheFiles))
	if stale(dir) {
		e.logf("generating an embedding cache of %d files", cacheFiles)
		tmp, err := freshDir(dir + ".tmp")
		if err != nil {
			return "", 0, err
		}
		errs := make([]error, len(names))
		parallel(len(names), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				errs[i] = perturb(filepath.Join(src, names[i].Name()), tmp, i, len(names))
			}
		})
		if err := errors.Join(errs...); err != nil {
			return "", 0, err
		}
		if err := os.Rename(tmp, dir); err != nil {
			return "", 0, err
		}
	}
	size, _, err = diskUse(dir)
	return dir, size, err
}

// perturb writes the copies of source file i: those whose number is i modulo sources.
func perturb(name, dir string, i, sources int) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var values []float64
	if err := json.Unmarshal(b, &values); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(name), err)
	}
	for n := i; n < cacheFiles; n += sources {
		rng := rand.New(rand.NewPCG(uint64(n), 1))
		b = append(b[:0], '[')
		for j, v := range values {
			if j > 0 {
				b = append(b, ", "...)
			}
			b = strconv.AppendFloat(b, v*(1+1e-3*(2*rng.Float64()-1)), 'g', -1, 64)
		}
		b = append(b, ']')
		// A namespace and 36 characters in the form of a UUID, as the cache names its files.
		file := fmt.Sprintf("text-embedding-ada-002%08x-%04x-5%03x-8%03x-%012x", rng.Uint32(), rng.Uint32()&0xffff, rng.Uint32()&0xfff, rng.Uint32()&0xfff, n)
		if err := os.WriteFile(filepath.Join(dir, file), b, 0o666); err != nil {
			return err
		}
	}
	return nil
}
