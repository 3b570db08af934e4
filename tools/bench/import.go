package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/vecbolt/vecbolt/internal/docjson"
)

// importGoal is the target speed of an import relative to reading and parsing.
const importGoal = 0.8

// importFigure compares the import of an embedding cache with the tool, as a user runs it, with
// only reading the same files and parsing their numbers on all processors.
func importFigure(e *env, r *report) error {
	r.Title = "Import of cached embeddings"
	r.note("An embedding cache of %s JSON files of 1536 numbers each, in the page cache. The yardsticks read every file and parse every number on all processors and keep nothing. The goal is set against the faster way of the standard library; Vecbolt's own parser is beside it to show what is left to the disk and to the other work. Vecbolt's import also writes the database durably. Its time is that of the whole command.", number(cacheFiles))
	dir, size, err := e.embCache()
	if err != nil {
		r.note("left out: %v", err)
		return nil
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return err
	}
	tool := filepath.Join(e.scratch, "vecbolt-tool")
	build := exec.Command("go", "build", "-o", tool, "./tools/vecbolt")
	build.Dir, build.Env = e.root, append(os.Environ(), "GOWORK=") // use go.work, which does not contain this module
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the tool: %w: %.300s", err, out)
	}
	parsers := []struct {
		name  string
		parse parser
	}{
		{"read + Vecbolt's parser", docjson.ParseVector},
		{"read + strconv.ParseFloat, 32 bits", func(dst []float32, b []byte) ([]float32, error) { return parseFloats(dst, b, 32) }},
		{"read + strconv.ParseFloat, 64 bits", func(dst []float32, b []byte) ([]float32, error) { return parseFloats(dst, b, 64) }},
		{"read + encoding/json", parseJSON},
	}
	seconds := map[string][]float64{}
	const ours = "vecbolt import"
	for round := range e.rounds {
		e.logf("import: round %d of %d", round+1, e.rounds)
		for _, p := range parsers {
			t := time.Now()
			if err := parseAll(files, p.parse); err != nil {
				return err
			}
			seconds[p.name] = append(seconds[p.name], time.Since(t).Seconds())
		}
		s, err := runImport(tool, filepath.Join(e.scratch, "import"), dir, len(files))
		if err != nil {
			return err
		}
		seconds[ours] = append(seconds[ours], s)
	}
	add := func(who, how string) {
		s := median(seconds[how])
		m := measurement{Set: "embedding cache", Who: who, How: how, Value: float64(size) / s / 1e6, Unit: "MB/s",
			Detail: map[string]float64{"seconds": s, "files/s": float64(len(files)) / s}}
		if who != "vecbolt" {
			m.Ratio = s / median(seconds[ours])
		}
		r.add(m)
	}
	add("vecbolt", ours)
	for _, p := range parsers {
		add("yardstick", p.name)
	}
	strconv32 := parsers[1].name
	r.atLeast("share of the speed of "+strconv32+", both cores", importGoal, median(seconds[strconv32])/median(seconds[ours]))
	return nil
}

// runImport runs the tool on a new database and returns the seconds it took.
func runImport(tool, dbDir, source string, want int) (float64, error) {
	if err := os.RemoveAll(dbDir); err != nil {
		return 0, err
	}
	cmd := exec.Command(tool, "import", dbDir, "cache", source, "--format", "emb-cache", "--json")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	t := time.Now()
	out, err := cmd.Output()
	s := time.Since(t).Seconds()
	if err != nil {
		return 0, fmt.Errorf("vecbolt import: %w: %.300s", err, stderr.Bytes())
	}
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	var end struct{ Added int }
	if err := json.Unmarshal(lines[len(lines)-1], &end); err != nil {
		return 0, fmt.Errorf("vecbolt import: last line: %w", err)
	}
	if end.Added != want {
		return 0, fmt.Errorf("vecbolt import: added %d of %d", end.Added, want)
	}
	return s, os.RemoveAll(dbDir)
}

// parser appends the numbers of a JSON array to dst.
type parser func(dst []float32, b []byte) ([]float32, error)

// parseAll reads and parses all files on all processors, reusing memory for every file.
func parseAll(files []string, parse parser) error {
	var next atomic.Int64
	errs := make([]error, runtime.NumCPU())
	parallel(len(errs), func(lo, _ int) {
		var text bytes.Buffer
		var numbers []float32
		for {
			i := int(next.Add(1)) - 1
			if i >= len(files) {
				return
			}
			err := readInto(&text, files[i])
			if err == nil {
				numbers, err = parse(numbers[:0], text.Bytes())
			}
			if err != nil {
				errs[lo] = fmt.Errorf("%s: %w", filepath.Base(files[i]), err)
				return
			}
		}
	})
	return errors.Join(errs...)
}

func readInto(b *bytes.Buffer, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	b.Reset()
	_, err = b.ReadFrom(f)
	return err
}

// parseFloats parses with strconv, without copying the numbers. It assumes that the input is an
// array of numbers: as a yardstick it does the minimum of work.
func parseFloats(dst []float32, b []byte, bits int) ([]float32, error) {
	for i := bytes.IndexByte(b, '[') + 1; i < len(b); {
		for i < len(b) && (isSpace(b[i]) || b[i] == ',') {
			i++
		}
		j := i
		for j < len(b) && b[j] != ',' && b[j] != ']' && !isSpace(b[j]) {
			j++
		}
		if j == i {
			break
		}
		v, err := strconv.ParseFloat(unsafe.String(&b[i], j-i), bits)
		if err != nil {
			return dst, err
		}
		dst = append(dst, float32(v))
		i = j + 1
	}
	return dst, nil
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

func parseJSON(dst []float32, b []byte) ([]float32, error) {
	err := json.Unmarshal(b, &dst)
	return dst, err
}
