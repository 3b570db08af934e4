package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// outliers is the share of numbers that are cut to the largest byte.
const outliers = 1e-5

// quantise returns the rows as signed bytes of one step.
func quantise(rows [][]float64) []byte {
	var sizes []float64
	for _, r := range rows {
		for _, x := range r {
			sizes = append(sizes, math.Abs(x))
		}
	}
	slices.Sort(sizes)
	step := sizes[int(float64(len(sizes)-1)*(1-outliers))] / math.MaxInt8
	b := make([]byte, 0, len(sizes))
	for _, r := range rows {
		for _, x := range r {
			b = append(b, byte(int8(min(math.MaxInt8, max(-math.MaxInt8, math.RoundToEven(x/step))))))
		}
	}
	return b
}

// write writes the model in the format of Model2Vec, with a vocabulary instead of tokenizer.json.
// The rows of special tokens, the first ones, are zero.
func (m model) write(dir string, vocab []string) error {
	for i, token := range vocab {
		if len(token) > 2 && token[0] == '[' && token[len(token)-1] == ']' {
			clear(m.rows[i])
		}
	}
	header := fmt.Sprintf(
		`{"embeddings":{"dtype":"I8","shape":[%d,%d],"data_offsets":[0,%d]}}`,
		len(vocab),
		components,
		len(vocab)*components,
	)
	for len(header)%8 != 0 {
		header += " "
	}
	b := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	b = append(b, quantise(m.rows)...)
	var text []byte
	for _, token := range vocab {
		text = append(append(text, token...), '\n')
	}
	return errors.Join(
		os.MkdirAll(dir, 0o777),
		os.WriteFile(filepath.Join(dir, "model.safetensors"), b, 0o666),
		os.WriteFile(filepath.Join(dir, "vocab.txt"), text, 0o666),
	)
}
