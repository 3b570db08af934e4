package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/vecbolt/vecbolt/db"
)

// The rows of the write figures: a vector, a text of 200 bytes and four metadata keys, all computed
// from the row number, by the same formulas in every driver (peers/driver.mjs, peers/sqlitevec.cc).
const (
	textBytes = 200
	langCount = 8
)

var langs = [langCount]string{"c", "go", "java", "js", "ml", "py", "rs", "zig"}

// mix spreads row numbers over 32 bits (Knuth's multiplicative hash).
func mix(i int) uint32 { return uint32(i) * 2654435761 }

func rowMetadata(i int) db.Metadata {
	h := mix(i)
	return db.Metadata{
		"lang":  langs[h>>3&7],
		"year":  int64(1990 + (h>>8)%35),
		"score": float64((h>>4)%100000) / 1e5,
		"draft": h>>16&1 == 1,
	}
}

// rowText returns words of the row number, cut or filled to textBytes.
func rowText(i int) string {
	b := make([]byte, 0, textBytes+16)
	for j := 0; len(b) < textBytes; j++ {
		b = fmt.Appendf(b, "w%x ", mix(i*31+j)>>12)
	}
	return string(b[:textBytes])
}

// rowDocuments returns rows from, from+step, ... as documents. Row i has vector i.
func rowDocuments(base matrix, from, n, step int) []db.Document {
	docs := make([]db.Document, n)
	for j := range docs {
		i := from + j*step
		docs[j] = db.Document{ID: fmt.Sprintf("%08d", i), Vector: base.row(i % base.rows()), Text: rowText(i % base.rows()), Metadata: rowMetadata(i)}
	}
	return docs
}

// textFile writes the texts of n rows without separators, for the drivers.
func (e *env) textFile(n int) (string, error) {
	name := filepath.Join(e.cache, fmt.Sprintf("texts-%d", n))
	if !stale(name) {
		return name, nil
	}
	b := make([]byte, 0, n*textBytes)
	for i := range n {
		b = append(b, rowText(i)...)
	}
	if err := os.WriteFile(name+".tmp", b, 0o666); err != nil {
		return "", err
	}
	return name, os.Rename(name+".tmp", name)
}
