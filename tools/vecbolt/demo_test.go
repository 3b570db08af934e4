package main

import (
	"bytes"
	"compress/gzip"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the files that tests generate")

// The demo carries the vectors of the most frequent words that are made of letters a to z.
func TestDemoData(t *testing.T) {
	const (
		source   = "../../../shared/data/glove100k"
		count    = 4000
		dim      = 100
		rowBytes = 4 + 4*dim
	)
	list, err := os.ReadFile(filepath.Join(source, "base.txt"))
	if err != nil {
		t.Skip("the word vectors from which the demo's are taken are not here:", err)
	}
	f, err := os.Open(filepath.Join(source, "base.fvecs"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var words, vectors bytes.Buffer
	letters := regexp.MustCompile(`^[a-z]+$`)
	taken := 0
	for i, word := range strings.Split(string(list), "\n") {
		if taken == count {
			break
		}
		if !letters.MatchString(word) {
			continue
		}
		row := make([]byte, rowBytes)
		if _, err := f.ReadAt(row, int64(i)*rowBytes); err != nil {
			t.Fatal(err)
		}
		words.WriteString(word + "\n")
		vectors.Write(row)
		taken++
	}
	if *update {
		var packed bytes.Buffer
		z, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		if _, err := z.Write(vectors.Bytes()); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		for name, b := range map[string][]byte{"words.txt": words.Bytes(), "words.fvecs.gz": packed.Bytes()} {
			if err := os.WriteFile(filepath.Join("demo", name), b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	if demoWords != words.String() {
		t.Error("demo/words.txt differs from its source")
	}
	unpacked, err := gunzip(demoVectors)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(unpacked, vectors.Bytes()) {
		t.Error("demo/words.fvecs.gz differs from its source")
	}
}
