package static

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode"

	"github.com/vecbolt/vecbolt/internal/vfs"
)

// WordsOptions tune OpenWords. The zero value, like nil, is the default.
type WordsOptions struct {
	// Most is the maximum number of words read, from the beginning of the file, where the frequent
	// words are; 0 means all.
	Most int

	// Mean gives all words the same weight. Otherwise frequent words have less weight.
	Mean bool
}

// Words are vectors of words. They are safe for concurrent use.
type Words struct {
	dim    int
	index  map[string]int32
	rows   []float32
	weight []float32
}

const (
	maxLine = 4 << 20 // bytes
	maxDim  = 1 << 16
)

// OpenWords reads a file of word vectors.
func OpenWords(name string, opts *WordsOptions) (*Words, error) {
	f, err := vfs.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	w, err := ReadWords(f, opts)
	if err != nil {
		return nil, fmt.Errorf("static: %s: %w", name, err)
	}
	return w, nil
}

// ReadWords reads word vectors as text.
func ReadWords(r io.Reader, opts *WordsOptions) (*Words, error) {
	if opts == nil {
		opts = &WordsOptions{}
	}
	w := &Words{index: map[string]int32{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	n := 0
	for (opts.Most == 0 || len(w.index) < opts.Most) && lines.Scan() {
		n++
		line := bytes.TrimRight(lines.Bytes(), " \r")
		if len(line) == 0 || n == 1 && isHeader(line) {
			continue
		}
		if err := w.add(line); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", n+1, err)
	}
	if len(w.index) == 0 {
		return nil, errors.New("no words")
	}
	if !opts.Mean {
		w.weight = sif(len(w.index))
	}
	return w, nil
}

// isHeader recognizes a first line of two counts.
func isHeader(line []byte) bool {
	count, dim, ok := bytes.Cut(line, []byte(" "))
	return ok && isCount(count) && isCount(dim)
}

func isCount(b []byte) bool { return len(b) > 0 && len(bytes.Trim(b, "0123456789")) == 0 }

// add reads a word and its numbers. The word may contain spaces: the number of numbers is known
// from the first line, and they are counted from the end.
func (w *Words) add(line []byte) error {
	if w.dim == 0 {
		w.dim = bytes.Count(line, []byte(" "))
		if w.dim == 0 || w.dim > maxDim {
			return fmt.Errorf("%d numbers after the word", w.dim)
		}
	}
	row := len(w.rows)
	w.rows = append(w.rows, make([]float32, w.dim)...)
	for i := w.dim - 1; i >= 0; i-- {
		space := bytes.LastIndexByte(line, ' ')
		if space < 0 {
			return fmt.Errorf("%d numbers are missing", i+1)
		}
		x, err := strconv.ParseFloat(string(line[space+1:]), 32)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("number %d is %.20q", i+1, line[space+1:])
		}
		w.rows[row+i] = float32(x)
		line = line[:space]
	}
	if _, twice := w.index[string(line)]; twice || len(line) == 0 {
		w.rows = w.rows[:row]
		return nil
	}
	w.index[string(line)] = int32(len(w.index))
	return nil
}

// sif returns weights for n words in order of frequency: a/(a+p), where p is the frequency by
// Zipf's law. Arora, Liang and Ma, A Simple but Tough-to-Beat Baseline for Sentence Embeddings,
// 2017; without the removal of the first principal component.
func sif(n int) []float32 {
	const a, euler = 1e-3, 0.5772156649015329
	harmonic := math.Log(float64(n)) + euler
	w := make([]float32, n)
	for i := range w {
		p := 1 / (float64(i+1) * harmonic)
		w[i] = float32(a / (a + p))
	}
	return w
}

// Dim returns the number of components of a vector.
func (w *Words) Dim() int { return w.dim }

// Len returns the number of words.
func (w *Words) Len() int { return len(w.index) }

// Vector returns the vector of a word, or nil if the word is unknown.
func (w *Words) Vector(word string) []float32 {
	i, ok := w.index[word]
	if !ok {
		return nil
	}
	return append([]float32(nil), w.row(i)...)
}

func (w *Words) row(i int32) []float32 { return w.rows[int(i)*w.dim:][:w.dim] }

// Embed returns the vector of a text: the weighted mean of the vectors of its words, scaled to the
// length 1, or zero if no word is known. Words are runs of letters and digits, looked up as written
// and then in lower case.
func (w *Words) Embed(text string) []float32 {
	sum := make([]float64, w.dim)
	for word := range strings.FieldsFuncSeq(text, func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !unicode.IsMark(c)
	}) {
		i, ok := w.index[word]
		if !ok {
			if i, ok = w.index[strings.ToLower(word)]; !ok {
				continue
			}
		}
		f := 1.0
		if w.weight != nil {
			f = float64(w.weight[i])
		}
		for j, x := range w.row(i) {
			sum[j] += f * float64(x)
		}
	}
	return mean(sum, 1, true)
}
