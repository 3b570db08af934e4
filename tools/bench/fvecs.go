package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
)

// matrix is a set of vectors of one dimension, row after row.
type matrix struct {
	dim  int
	data []float32
}

func (m matrix) rows() int           { return len(m.data) / m.dim }
func (m matrix) row(i int) []float32 { return m.data[i*m.dim : (i+1)*m.dim : (i+1)*m.dim] }

// head returns the first n rows, or all when there are fewer.
func (m matrix) head(n int) matrix {
	return matrix{m.dim, m.data[:min(n, m.rows())*m.dim]}
}

// readVecs reads an .fvecs or .ivecs file (per row an int32 dimension, then that many 4-byte
// little-endian values) and hands each row's values to add. All rows must have the dimension of the
// first.
func readVecs(name string, add func(values []byte)) (dim int, err error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<20)
	var head [4]byte
	var row []byte
	for {
		if _, err := io.ReadFull(r, head[:]); err == io.EOF {
			return dim, nil
		} else if err != nil {
			return 0, fmt.Errorf("read %s: %w", filepath.Base(name), err)
		}
		d := int(int32(binary.LittleEndian.Uint32(head[:])))
		if dim == 0 && d > 0 && d <= 1<<16 {
			dim, row = d, make([]byte, 4*d)
		}
		if d != dim || dim == 0 {
			return 0, fmt.Errorf("read %s: row of dimension %d, expected %d", filepath.Base(name), d, dim)
		}
		if _, err := io.ReadFull(r, row); err != nil {
			return 0, fmt.Errorf("read %s: %w", filepath.Base(name), err)
		}
		add(row)
	}
}

func readFvecs(name string) (matrix, error) {
	var m matrix
	if info, err := os.Stat(name); err == nil {
		m.data = make([]float32, 0, info.Size()/4) // a little too large: grown by append, it takes twice as much
	}
	dim, err := readVecs(name, func(b []byte) {
		for i := 0; i < len(b); i += 4 {
			m.data = append(m.data, math.Float32frombits(binary.LittleEndian.Uint32(b[i:])))
		}
	})
	if err == nil && dim == 0 {
		err = fmt.Errorf("read %s: no rows", filepath.Base(name))
	}
	m.dim = dim
	return m, err
}

func readIvecs(name string) ([][]int, error) {
	var rows [][]int
	_, err := readVecs(name, func(b []byte) {
		row := make([]int, len(b)/4)
		for i := range row {
			row[i] = int(int32(binary.LittleEndian.Uint32(b[4*i:])))
		}
		rows = append(rows, row)
	})
	return rows, err
}

// writeVecs writes rows as 4-byte values after their dimension. It renames a temporary file, so
// that an existing file is complete.
func writeVecs(name string, rows, dim int, value func(row, col int) uint32) error {
	f, err := os.Create(name + ".tmp")
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	var b [4]byte
	put := func(v uint32) {
		binary.LittleEndian.PutUint32(b[:], v)
		w.Write(b[:]) // the error sticks: Flush reports it
	}
	for i := range rows {
		put(uint32(dim))
		for j := range dim {
			put(value(i, j))
		}
	}
	if err := errors.Join(w.Flush(), f.Close()); err != nil {
		return err
	}
	return os.Rename(name+".tmp", name)
}

func writeFvecs(name string, m matrix) error {
	return writeVecs(name, m.rows(), m.dim, func(i, j int) uint32 { return math.Float32bits(m.data[i*m.dim+j]) })
}

func writeIvecs(name string, rows [][]int) error {
	return writeVecs(name, len(rows), len(rows[0]), func(i, j int) uint32 { return uint32(rows[i][j]) })
}
