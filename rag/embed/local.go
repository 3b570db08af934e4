package embed

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/rag/embed/bert"
	"github.com/vecbolt/vecbolt/rag/embed/models"
	"github.com/vecbolt/vecbolt/rag/embed/static"
)

// Providers of models on disk.
const (
	bertProvider      = "bert"      // sentence encoders: a directory or a GGUF file; see package bert
	ggufProvider      = "gguf"      // the same
	model2vecProvider = "model2vec" // a directory; see package static
	wordsProvider     = "words"     // a file of word vectors; see package static
)

// LocalOptions tune Local. The zero value, like nil, is the default.
type LocalOptions struct {
	// Model names the model; empty means the last element of its path.
	Model string

	// Threads is the number of threads that embed; 0 means the number of cores.
	Threads int

	// Int8 makes sentence encoders multiply with weights of one byte: faster, in less memory, and
	// slightly less exact; see bert.Model.Quantize. Other models ignore it.
	Int8 bool
	// QueryPrompt and PassagePrompt are put before questions and passages, such as "query: ". nil
	// means the prompts of the model, if it is a directory that has them, and no prompt otherwise.
	QueryPrompt, PassagePrompt *string
}

// Local reads a model of the given provider from disk.
func Local(provider, path string, opts *LocalOptions) (Embedder, error) {
	var o LocalOptions
	if opts != nil {
		o = *opts
	}
	l := &local{provider: provider, path: path, threads: cmp.Or(o.Threads, runtime.GOMAXPROCS(0))}
	l.model = cmp.Or(o.Model, strings.TrimSuffix(filepath.Base(path), ".gguf"))
	var model interface {
		Dim() int
		Embed(string) []float32
	}
	var err error
	switch provider {
	case bertProvider, ggufProvider:
		model, err = bert.Open(path)
	case model2vecProvider:
		model, err = static.Open(path)
	case wordsProvider:
		model, err = static.OpenWords(path, nil)
	default:
		return nil, l.fail(ErrProviderNotFound, errors.New("no provider of local models"))
	}
	if err != nil {
		return nil, l.fail(ErrConfig, err)
	}
	l.dim, l.embed = model.Dim(), model.Embed
	if b, ok := model.(*bert.Model); ok && o.Int8 {
		if err := b.Quantize(); err != nil {
			return nil, l.fail(ErrConfig, err)
		}
		l.precision = "int8"
	}
	if b, ok := model.(batcher); ok {
		l.batch = b.EmbedBatch
	}
	if l.queries, l.prompt, err = prompts(path); err != nil {
		return nil, l.fail(ErrConfig, err)
	}
	if o.QueryPrompt != nil {
		l.queries = *o.QueryPrompt
	}
	if o.PassagePrompt != nil {
		l.prompt = *o.PassagePrompt
	}
	l.hash = sync.OnceValue(func() string { // it reads the weights again, which only caches need
		hash, err := fingerprint(path, l.precision, l.queries, l.prompt)
		if err != nil {
			return rand.Text() // a model that cannot be told from others shares no cache with them
		}
		return hash
	})
	return l, nil
}

// A batcher is a model that embeds texts together.
type batcher interface {
	EmbedBatch(ctx context.Context, texts []string, threads int) ([][]float32, error)
}

type local struct {
	provider, model, path string
	precision             string // empty: float32
	dim, threads          int
	embed                 func(string) []float32
	batch                 func(ctx context.Context, texts []string, threads int) ([][]float32, error) // nil: text by text
	prompt, queries       string                                                                      // before each text, and before questions

	hash func() string // nil: there is no file to tell models with the same name apart
}

// fingerprint is a hash of what makes the vectors. It keeps models with the same name from sharing
// a cache.
func (l *local) fingerprint() string {
	if l.hash == nil {
		return ""
	}
	return l.hash()
}

// Queries returns an embedder with the prompt for questions.
func (l *local) Queries() Embedder {
	if l.queries == l.prompt {
		return nil
	}
	q := *l
	q.prompt = l.queries
	return &q
}

// prompts reads the prompts of a directory of Sentence Transformers. The names come from its
// encode_query and encode_document.
func prompts(dir string) (query, passage string, err error) {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", "", err
	}
	b, err := vfs.ReadFile(filepath.Join(dir, "config_sentence_transformers.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", nil
	}
	if err != nil {
		return "", "", err
	}
	var c struct {
		Prompts map[string]string `json:"prompts"`
		Default string            `json:"default_prompt_name"`
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return "", "", fmt.Errorf("config_sentence_transformers.json: %w", err)
	}
	first := func(names ...string) string {
		for _, name := range names {
			if p, ok := c.Prompts[name]; ok {
				return p
			}
		}
		return ""
	}
	return first("query", c.Default), first("document", "passage", "corpus", c.Default), nil
}

func (l *local) Provider() string { return l.provider }
func (l *local) Model() string    { return l.model }
func (l *local) Dimensions() int  { return l.dim }

func (l *local) fail(kind, err error) error {
	return &Error{Kind: kind, Provider: l.provider, Model: l.model, Err: err}
}

func (l *local) Embed(ctx context.Context, text string) ([]float32, error) {
	return one(ctx, l.EmbedBatch, text)
}

func (l *local) EmbedBatch(ctx context.Context, texts []string) ([][]float32, error) {
	if l.prompt != "" {
		texts = withPrompt(l.prompt, texts)
	}
	batch := l.batch
	if batch == nil {
		batch = l.each
	}
	vecs, err := batch(ctx, texts, l.threads)
	if err != nil {
		return nil, l.fail(contextKind(err), err)
	}
	if err := checkReply(vecs, len(texts), l.dim); err != nil {
		return nil, l.fail(ErrInvalidResponse, err) // the weights are not finite
	}
	return vecs, nil
}

// each embeds text by text, several at the same time.
func (l *local) each(ctx context.Context, texts []string, threads int) ([][]float32, error) {
	vecs := make([][]float32, len(texts))
	var next atomic.Int64
	work := func() {
		for ctx.Err() == nil {
			i := int(next.Add(1)) - 1
			if i >= len(texts) {
				return
			}
			vecs[i] = l.embed(texts[i])
		}
	}
	var wg sync.WaitGroup
	for range min(threads, len(texts)) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
	return vecs, ctx.Err()
}

// Files of a directory that change the vectors. Of the weights, a model reads the first that are
// there.
var (
	weightFiles = []string{"model.safetensors", "0_StaticEmbedding/model.safetensors", "model.onnx", "onnx/model.onnx"}
	otherFiles  = []string{"0_StaticEmbedding/tokenizer.json", "1_Pooling/config.json", "config.json",
		"config_sentence_transformers.json", "modules.json", "sentence_bert_config.json", "tokenizer.json",
		"tokenizer_config.json", "vocab.txt"}
)

// fingerprint hashes the files of a model, its precision, and its prompts if it has any.
func fingerprint(path, precision, query, passage string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	if !info.IsDir() {
		err = hashFile(h, path, "")
	} else {
		for _, name := range weightFiles {
			if err = hashFile(h, path, name); !errors.Is(err, fs.ErrNotExist) {
				break
			}
		}
		for _, name := range otherFiles {
			if err == nil {
				if err = hashFile(h, path, name); errors.Is(err, fs.ErrNotExist) {
					err = nil
				}
			}
		}
	}
	if err != nil {
		return "", err
	}
	if query != "" || passage != "" {
		fmt.Fprintf(h, "\x00%q %q", query, passage)
	}
	return hex.EncodeToString(h.Sum(nil)) + precision, nil
}

// hashFile writes the name, the length and the content of a file to h, and nothing if it is not
// there.
func hashFile(h io.Writer, dir, name string) error {
	f, err := vfs.OpenFile(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	fmt.Fprintf(h, "\x00%q %d\x00", name, info.Size())
	_, err = io.Copy(h, f)
	return err
}

// stored returns a model of the default store.
func stored(name string) (*models.Model, error) {
	if name == "" {
		return nil, errors.New("neither model_path nor a model is given")
	}
	store, err := models.Default()
	if err != nil {
		return nil, err
	}
	m, err := store.Get(name)
	if err != nil {
		return nil, fmt.Errorf("model_path is empty, and %w", err)
	}
	return m, nil
}

func localBuiltin(name, description string) Provider {
	return Provider{
		Name:         name,
		Description:  description,
		Capabilities: Capabilities{Files: true},
		Settings: &Schema{Type: "object", Closed: true, Properties: map[string]*Schema{
			"model_path": {Type: "string", Description: "directory or file of the model; empty: the stored model with the name"},
			"threads":    {Type: "integer", Description: "threads that embed; 0: the number of cores", Minimum: limit(0), Maximum: limit(1024)},
			"int8":       {Type: "boolean", Description: "sentence encoders: weights of one byte, faster and slightly less exact"},

			"query_prompt":   {Type: "string", Description: "put before questions, instead of the model's own prompt"},
			"passage_prompt": {Type: "string", Description: "put before passages, instead of the model's own prompt"},
		}},
		Open: func(_ context.Context, c Config, _ *Options) (Embedder, error) {
			var s struct {
				Path    string `json:"model_path"`
				Threads int    `json:"threads"`
				Int8    bool   `json:"int8"`

				QueryPrompt   *string `json:"query_prompt"`
				PassagePrompt *string `json:"passage_prompt"`
			}
			if err := decode(c, &s); err != nil {
				return nil, err
			}
			if s.Path == "" {
				m, err := stored(c.Model)
				if err == nil && m.Provider != name && !(m.Provider == ggufProvider && name == bertProvider) {
					err = fmt.Errorf("the stored model %q is for the provider %q", m.Name, m.Provider)
				}
				if err != nil {
					return nil, &Error{Kind: ErrConfig, Provider: name, Model: c.Model, Err: err}
				}
				s.Path = m.Path()
			}
			return Local(name, s.Path, &LocalOptions{Model: c.Model, Threads: s.Threads, Int8: s.Int8,
				QueryPrompt: s.QueryPrompt, PassagePrompt: s.PassagePrompt})
		},
	}
}
