package knowledge

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/errtext"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/load"
	"github.com/vecbolt/vecbolt/rag/split"
	"github.com/vecbolt/vecbolt/text"
)

// A Config is the configuration of a base, stored in config.yaml. The zero value of a field means
// its default; Keys lists the defaults and the allowed values of all fields by their names in the
// file.
type Config struct {
	Name      string    `yaml:"name" json:"name"`
	Provider  string    `yaml:"provider" json:"provider"`
	Model     string    `yaml:"model" json:"model"`
	Embedding Embedding `yaml:"embedding" json:"embedding"`

	ChunkSize        int `yaml:"chunk_size" json:"chunk_size"`       // maximum number of tokens in a chunk
	ChunkOverlap     int `yaml:"chunk_overlap" json:"chunk_overlap"` // tokens that neighbours share; negative, or 0 in the file: none
	MaxContextTokens int `yaml:"max_context_tokens" json:"max_context_tokens"`

	Splitter       string   `yaml:"splitter,omitempty" json:"splitter,omitempty"`
	MaxSentences   int      `yaml:"max_sentences,omitempty" json:"max_sentences,omitempty"`
	Separators     []string `yaml:"separators,omitempty" json:"separators,omitempty"`
	TopicThreshold *float64 `yaml:"topic_threshold,omitempty" json:"topic_threshold,omitempty"`

	// Language is the language of the texts, for the text index, as in db.TextIndex. A changed
	// language changes the index; an index that was changed by other means stays as it is.
	Language string `yaml:"language,omitempty" json:"language,omitempty"`

	TopK         int      `yaml:"top_k,omitempty" json:"top_k,omitempty"`
	Threshold    *float64 `yaml:"threshold,omitempty" json:"threshold,omitempty"`
	Strategy     string   `yaml:"strategy,omitempty" json:"strategy,omitempty"`
	Fusion       string   `yaml:"fusion,omitempty" json:"fusion,omitempty"`
	VectorWeight float64  `yaml:"vector_weight,omitempty" json:"vector_weight,omitempty"`
	TextWeight   float64  `yaml:"text_weight,omitempty" json:"text_weight,omitempty"`
	FusionDepth  int      `yaml:"fusion_depth,omitempty" json:"fusion_depth,omitempty"`
	Diversity    *float64 `yaml:"diversity,omitempty" json:"diversity,omitempty"`
	Rewrites     int      `yaml:"rewrites,omitempty" json:"rewrites,omitempty"`

	Reranker     string   `yaml:"reranker,omitempty" json:"reranker,omitempty"`
	Candidates   int      `yaml:"candidates,omitempty" json:"candidates,omitempty"`
	RerankWeight *float64 `yaml:"rerank_weight,omitempty" json:"rerank_weight,omitempty"`
	RerankModel  string   `yaml:"rerank_model,omitempty" json:"rerank_model,omitempty"`
	RerankURL    string   `yaml:"rerank_url,omitempty" json:"rerank_url,omitempty"`
	RerankKeyEnv string   `yaml:"rerank_key_env,omitempty" json:"rerank_key_env,omitempty"`

	Siblings      string `yaml:"siblings,omitempty" json:"siblings,omitempty"`
	SiblingsOrder string `yaml:"siblings_order,omitempty" json:"siblings_order,omitempty"`
	MaxSiblings   int    `yaml:"max_siblings,omitempty" json:"max_siblings,omitempty"`

	CacheSize       int      `yaml:"cache_size,omitempty" json:"cache_size,omitempty"`
	CacheSimilarity *float64 `yaml:"cache_similarity,omitempty" json:"cache_similarity,omitempty"`
	CacheTTL        string   `yaml:"cache_ttl,omitempty" json:"cache_ttl,omitempty"`

	Chat        string  `yaml:"chat,omitempty" json:"chat,omitempty"`
	ChatURL     string  `yaml:"chat_url,omitempty" json:"chat_url,omitempty"`
	ChatModel   string  `yaml:"chat_model,omitempty" json:"chat_model,omitempty"`
	ChatKeyEnv  string  `yaml:"chat_key_env,omitempty" json:"chat_key_env,omitempty"`
	PromptPrice float64 `yaml:"prompt_price,omitempty" json:"prompt_price,omitempty"`
	AnswerPrice float64 `yaml:"answer_price,omitempty" json:"answer_price,omitempty"`

	Conversations int `yaml:"conversations,omitempty" json:"conversations,omitempty"`
	TopicWords    int `yaml:"topic_words,omitempty" json:"topic_words,omitempty"`

	// Index is the directory of the database, beside the file; empty means index.vdb. Reembed sets
	// it.
	Index string `yaml:"index,omitempty" json:"index,omitempty"`
}

// Embedding is the part of a Config for the embedding provider.
type Embedding struct {
	Dimensions     int            `yaml:"dimensions" json:"dimensions"`
	Normalize      bool           `yaml:"normalize" json:"normalize"`
	BatchSize      int            `yaml:"batch_size" json:"batch_size"`
	ProviderConfig map[string]any `yaml:"provider_config,omitempty" json:"provider_config,omitempty"`

	RequestsPerSecond float64 `yaml:"requests_per_second,omitempty" json:"requests_per_second,omitempty"`
	Attempts          int     `yaml:"attempts,omitempty" json:"attempts,omitempty"`
	Price             float64 `yaml:"price,omitempty" json:"price,omitempty"`
}

// Defaults returns the configuration of a new base: the embedder embed.DefaultConfig, which needs
// neither key nor network, chunks of 512 tokens that overlap by 64, contexts of 2048.
func Defaults(name string) Config { return defaults(name, embed.DefaultConfig()) }

// Defaults returns the configuration of a new base of this engine: as the function, but with the
// embedder of Options.Default.
func (e *Engine) Defaults(name string) Config { return defaults(name, *e.opts.Default) }

func defaults(name string, e embed.Config) Config {
	return Config{
		Name: name, Provider: e.Provider, Model: e.Model,
		Embedding: Embedding{Dimensions: e.Dimensions, Normalize: e.Normalize, BatchSize: e.BatchSize, ProviderConfig: e.Settings},
		ChunkSize: split.DefaultMaxTokens, ChunkOverlap: split.DefaultOverlap, MaxContextTokens: rag.DefaultMaxContextTokens,
	}
}

// embedding returns the configuration of the embedder.
func (c *Config) embedding() embed.Config {
	return embed.Config{Provider: c.Provider, Model: c.Model, Dimensions: c.Embedding.Dimensions, Normalize: c.Embedding.Normalize,
		BatchSize: c.Embedding.BatchSize, Settings: c.Embedding.ProviderConfig}
}

// fill sets missing values to defaults.
func (c *Config) fill(d Config) {
	c.fillEmbedder(d)
	c.Embedding.BatchSize = cmp.Or(c.Embedding.BatchSize, d.Embedding.BatchSize)
	c.ChunkSize = cmp.Or(c.ChunkSize, d.ChunkSize)
	c.ChunkOverlap = cmp.Or(c.ChunkOverlap, min(d.ChunkOverlap, c.ChunkSize/8))
	c.MaxContextTokens = cmp.Or(c.MaxContextTokens, d.MaxContextTokens)
}

// fillEmbedder sets the default embedder if none is named.
func (c *Config) fillEmbedder(d Config) {
	if c.Provider == "" {
		c.Provider, c.Model, c.Embedding = d.Provider, cmp.Or(c.Model, d.Model), d.Embedding
	}
}

var baseName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// validName keeps bases within the workspace.
func validName(name string) error {
	if !baseName.MatchString(name) {
		return fmt.Errorf("%w: base name %q: want letters, digits and ._-, at most 100", ErrConfig, name)
	}
	return nil
}

func (e *Engine) dir(name string) string { return filepath.Join(e.workspace, name) }

// database returns the directory of the database of a configuration.
func (e *Engine) database(c Config) string {
	return filepath.Join(e.dir(c.Name), cmp.Or(c.Index, firstIndex))
}

// ConfigPath returns the path of the configuration file of a base.
func (e *Engine) ConfigPath(name string) string { return filepath.Join(e.dir(name), configFile) }

// missing is the error for a base that does not exist. It lists the bases that do.
func (e *Engine) missing(name string) error {
	names, err := e.Bases()
	if err != nil {
		return fmt.Errorf("%w: base %q in %s", ErrNotFound, name, e.workspace)
	}
	return fmt.Errorf("%w: base %q in %s%s", ErrNotFound, name, e.workspace, errtext.Instead(name, names))
}

// Config reads the configuration of a base. It returns ErrNotFound if the base does not exist.
func (e *Engine) Config(name string) (Config, error) {
	if err := validName(name); err != nil {
		return Config{}, err
	}
	c, err := e.readConfig(name)
	if errors.Is(err, fs.ErrNotExist) {
		return c, e.missing(name)
	}
	if err == nil && c.Name != name {
		err = fmt.Errorf("%w: %s is named %q", ErrConfig, e.ConfigPath(name), c.Name)
	}
	return c, err
}

// readConfig reads the configuration of a base, and parses it if the file has changed. Then it
// drops the embedders and pipelines of the previous one.
func (e *Engine) readConfig(name string) (Config, error) {
	path := e.ConfigPath(name)
	b, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("knowledge: %w", err)
	}
	s := e.state(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil || !bytes.Equal(s.file, b) {
		c, err := parseConfig(path, b)
		if err != nil {
			return c, err
		}
		e.dropEmbedders(c)
		if same, err := equal(s.config, c); err != nil || !same {
			s.pipelines = newLRU[*rag.Pipeline]() // they have embedders, too
		}
		s.file, s.config = b, c
	}
	return s.config.clone(), nil
}

// clone returns a copy that shares nothing that callers may change.
func (c Config) clone() Config {
	c.Separators = slices.Clone(c.Separators)
	c.Embedding.ProviderConfig = maps.Clone(c.Embedding.ProviderConfig)
	return c
}

func readConfig(path string) (Config, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("knowledge: %w", err)
	}
	return parseConfig(path, b)
}

func parseConfig(path string, b []byte) (c Config, err error) {
	var object map[string]any
	if err = yaml.Unmarshal(b, &object); err == nil {
		err = checkKeys(object)
	}
	if errors.Is(err, ErrConfig) {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	if err != nil {
		return c, fmt.Errorf("%w: %s: %w", ErrConfig, path, err)
	}
	c.ChunkOverlap = math.MinInt
	if err = yaml.UnmarshalWithOptions(b, &c, yaml.Strict()); err != nil {
		return c, fmt.Errorf("%w: %s: %w", ErrConfig, path, err)
	}
	switch c.ChunkOverlap {
	case math.MinInt: // the key is not in the file
		c.ChunkOverlap = 0
	case 0:
		c.ChunkOverlap = -1
	}
	if _, ok := generation(cmp.Or(c.Index, firstIndex)); !ok {
		return c, fmt.Errorf("%w: %s: index %q: want index.vdb or index-NUMBER.vdb", ErrConfig, path, c.Index)
	}
	c.Name = cmp.Or(c.Name, filepath.Base(filepath.Dir(path)))
	c.fill(Defaults(c.Name)) // a file keeps its meaning whatever Options.Default is
	return c, nil
}

// save writes the configuration beside the database. The lock toConfigure is held.
func (e *Engine) save(c Config) error { return writeConfig(e.ConfigPath(c.Name), c, e.hook) }

// change returns c with the settings of asked that are not zero and with set, and whether that
// differs from c. It returns an error if they require other vectors.
func (e *Engine) change(ctx context.Context, c, asked Config, set map[string]any) (Config, bool, error) {
	before := c
	own := map[string]any{}
	for name, value := range set {
		k, err := lookup(name)
		if err != nil {
			return c, false, err
		}
		switch k.Changes {
		case notByUsers:
			return c, false, fmt.Errorf("%w: %s: it cannot be changed", ErrConfig, name)
		case byReembed:
			if err := asked.Set(name, value); err != nil {
				return c, false, err
			}
			if name == "embedding.normalize" && asked.Embedding.Normalize != c.Embedding.Normalize {
				return c, false, otherLengths(c.Name, c.Embedding.Normalize)
			}
		default:
			own[name] = value
		}
	}
	if err := e.sameVectors(ctx, c, asked); err != nil {
		return c, false, err
	}
	c.Model = cmp.Or(c.Model, asked.Model)
	c.Embedding.Dimensions = cmp.Or(c.Embedding.Dimensions, asked.Embedding.Dimensions)
	before.Model, before.Embedding.Dimensions = c.Model, c.Embedding.Dimensions // found by the embedder, not changed
	for _, k := range keys {
		if k.Changes == atOnce || k.Changes == nextLearn {
			if v := asked.field(k.Name); !v.IsZero() {
				c.field(k.Name).Set(v)
			}
		}
	}
	if err := c.apply(own); err != nil {
		return c, false, err
	}
	c.fill(Defaults(c.Name)) // zero means the default, as in a file without the key
	if _, named := own["chunk_overlap"]; !named && asked.ChunkOverlap == 0 && c.ChunkSize < before.ChunkSize && c.ChunkOverlap >= c.ChunkSize {
		c.ChunkOverlap = cmp.Or(c.ChunkSize/8, -1) // as for a new base
	}
	same, err := equal(before, c)
	return c, !same, err
}

// fresh returns the configuration of a new base: c with set, and defaults d.
func (c Config) fresh(name string, set map[string]any, d Config) (Config, error) {
	for key := range set {
		if k, err := lookup(key); err != nil {
			return c, err
		} else if k.Changes == notByUsers {
			return c, fmt.Errorf("%w: %s: it cannot be changed", ErrConfig, key)
		}
	}
	if _, named := set["provider"]; !named {
		c.fillEmbedder(d)
	} else if c.Provider == "" {
		c.Embedding.Normalize = true
	}
	if err := c.apply(set); err != nil {
		return c, err
	}
	c.Name = name
	c.fill(d)
	return c, nil
}

// apply sets keys, in order of name.
func (c *Config) apply(set map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if err := c.Set(name, set[name]); err != nil {
			return err
		}
	}
	return nil
}

// equal reports whether two configurations are the same file.
func equal(a, b Config) (bool, error) {
	x, err := json.Marshal(a)
	if err != nil {
		return false, fmt.Errorf("knowledge: %w", err)
	}
	y, err := json.Marshal(b)
	if err != nil {
		return false, fmt.Errorf("knowledge: %w", err)
	}
	return string(x) == string(y), nil
}

// sameVectors returns an error if the embedder that is asked for differs from the embedder of c.
func (e *Engine) sameVectors(ctx context.Context, c, asked Config) error {
	differs := func(asked, have string) bool { return asked != "" && have != "" && asked != have }
	dim := asked.Embedding.Dimensions
	if !differs(asked.Provider, c.Provider) && !differs(asked.Model, c.Model) && (dim == 0 || c.Embedding.Dimensions == 0 || dim == c.Embedding.Dimensions) {
		return nil
	}
	if asked.Provider == "" {
		asked.Provider, asked.Model = c.Provider, cmp.Or(asked.Model, c.Model)
	}
	found := asked.embedding()
	inner, err := e.opts.Providers.Open(ctx, found, e.opts.Embed)
	switch {
	case err == nil:
		found.Model, found.Dimensions = inner.Model(), cmp.Or(dim, inner.Dimensions())
	case errors.Is(err, embed.ErrProviderNotFound) || errors.Is(err, embed.ErrConfig):
		return err // no embedder that the base could be embedded again with
	}
	return match(c.Name, c.embedding(), found)
}

// check reports values that do not fit together.
func (c *Config) check() error {
	if _, err := c.splitter(&load.Document{}, nil, nil); err != nil {
		return err
	}
	if _, err := text.New(c.Language); err != nil {
		return fmt.Errorf("%w: language: %w", ErrConfig, err)
	}
	if c.MaxContextTokens < 0 {
		return fmt.Errorf("%w: max_context_tokens: %d: want an integer of 0 or more", ErrConfig, c.MaxContextTokens)
	}
	needs := func(key, value, other, have string) error {
		if have != "" {
			return nil
		}
		return fmt.Errorf("%w: %s: %s: it needs the key %s", ErrConfig, key, value, other)
	}
	switch c.Reranker {
	case "cross-encoder":
		return needs("reranker", c.Reranker, "rerank_model", c.RerankModel)
	case "cohere", "tei":
		return needs("reranker", c.Reranker, "rerank_url", c.RerankURL)
	}
	switch c.Strategy {
	case "hyde", "multi-query":
		return needs("strategy", c.Strategy, "chat_model", c.ChatModel)
	}
	return nil
}

// splitter returns the splitter for a document, whatever the format if the configuration names a
// strategy. embedder and count may be nil.
func (c *Config) splitter(doc *load.Document, embedder embed.Embedder, count func(string) int) (*split.Splitter, error) {
	var s split.Strategy
	switch c.Splitter {
	case "fixed":
		s = split.Fixed()
	case "sentences":
		s = split.Sentences(c.MaxSentences)
	case "paragraphs":
		s = split.Paragraphs()
	case "recursive":
		s = split.Recursive(c.Separators...)
	case "semantic":
		s = split.Semantic(or(c.TopicThreshold, topicThreshold), func(ctx context.Context, texts []string) ([][]float32, error) {
			return embedder.EmbedBatch(ctx, texts)
		})
	case "code":
		s = split.Code()
	case "markdown":
		s = split.Markdown(doc.Title)
	default:
		switch {
		case doc.Format.IsMarkdown():
			s = split.Markdown(doc.Title)
		case doc.Format == load.Code:
			s = split.Code()
		default:
			s = split.Recursive()
		}
	}
	sp, err := split.New(s, split.Options{MaxTokens: c.ChunkSize, Overlap: cmp.Or(c.ChunkOverlap, -1), Count: count})
	if err != nil {
		return nil, fmt.Errorf("%w: chunk_size %d, chunk_overlap %d, splitter %s: %w", ErrConfig, c.ChunkSize, max(c.ChunkOverlap, 0), cmp.Or(c.Splitter, byFormat), err)
	}
	return sp, nil
}

// splits identifies how files of one format are split.
func (c *Config) splits() (string, error) {
	how := fmt.Sprintf("1/%d/%d", c.ChunkSize, c.ChunkOverlap) // 1: the version of the choice by format
	if cmp.Or(c.Splitter, byFormat) == byFormat {
		return how, nil
	}
	s, err := c.splitter(&load.Document{}, nil, nil)
	if err != nil {
		return "", err
	}
	return how + "/" + s.Name(), nil
}

const (
	byFormat       = "format"
	auto           = "auto"
	topicThreshold = 0.5
)

// or returns what p points to, or a default.
func or(p *float64, std float64) float64 {
	if p == nil {
		return std
	}
	return *p
}

// configFile is the name of the configuration in the directory of its base.
const configFile = "config.yaml"

// newSuffix marks configurations that are being written. What a killed run has left is replaced by
// the next one.
const newSuffix = ".new"

// writeConfig writes a configuration, atomically and durably. Comments of an earlier file stay. A
// lock of the base is held: its directory is there, and durable, and nobody else writes the file
// with newSuffix. hook may be nil.
func writeConfig(path string, c Config, hook vfs.Hook) error {
	comments := yaml.CommentMap{}
	if before, err := os.ReadFile(path); err == nil {
		var old Config
		if yaml.UnmarshalWithOptions(before, &old, yaml.CommentToMap(comments)) != nil {
			clear(comments)
		}
	}
	b, err := yaml.MarshalWithOptions(c, yaml.WithComment(comments), yaml.CustomMarshaler[string](marshalText),
		yaml.CustomMarshaler[[]string](marshalTexts))
	if err == nil { // a file that cannot be read would cost the base
		err = yaml.Unmarshal(b, new(Config))
	}
	if err != nil {
		return fmt.Errorf("knowledge: %w", err)
	}
	dir, err := vfs.Open(filepath.Dir(path), hook)
	if err != nil {
		return fmt.Errorf("knowledge: %w", err)
	}
	defer dir.Close()
	name := filepath.Base(path)
	if err := dir.WriteFileBy(name+newSuffix, name, b); err != nil {
		return fmt.Errorf("knowledge: %w", err)
	}
	return nil
}

// marshalText writes a text as JSON, which is YAML, where the library would write one that is read
// as another: with tabs and line breaks, or like .inf.
func marshalText(text string) ([]byte, error) {
	b, err := yaml.Marshal(text)
	var back string
	if err == nil && !strings.ContainsAny(text, "\r\n") && yaml.Unmarshal(b, &back) == nil && back == text {
		return b, nil
	}
	return json.Marshal(text)
}

// marshalTexts writes a list as JSON.
func marshalTexts(texts []string) ([]byte, error) { return json.Marshal(texts) }

// Configure changes the configuration of a base: it sets keys of config.yaml, as Config.Set does,
// and returns the configuration. Chunks and vectors stay as they are; Keys says when each key takes
// effect. A changed language rebuilds the text index in the background: the error matches
// db.ErrLocked while the base is learnt. Questions and runs of Learn that have begun keep the
// configuration with which they began. Changes by other processes at the same time last too.
func (e *Engine) Configure(ctx context.Context, name string, set map[string]any) (Config, error) {
	if c, err := e.Config(name); err != nil { // and no directory to lock
		return c, err
	}
	unlock, err := e.lock(ctx, name, toConfigure, true)
	if err != nil {
		return Config{}, err
	}
	defer unlock()
	before, err := e.Config(name)
	if err != nil {
		return before, err
	}
	e.at("read")
	c, changed, err := e.change(ctx, before, Config{}, set)
	if err == nil {
		err = c.check()
	}
	if err != nil || !changed {
		return before, err
	}
	if _, err := os.Stat(e.database(c)); err != nil || language(c) == language(before) {
		return c, e.save(c)
	}
	return c, e.changeLanguage(ctx, c)
}

// changeLanguage saves a configuration with another language, and changes the text index. The lock
// toConfigure is held.
func (e *Engine) changeLanguage(ctx context.Context, c Config) (err error) {
	unlock, err := e.lock(ctx, c.Name, toLearn, false) // a run of Learn may wait for this one to end
	if err != nil {
		return err
	}
	defer unlock()
	g := e.gate(e.database(c))
	vdb, err := g.write(ctx, e.database(c))
	if err != nil {
		return fmt.Errorf("knowledge: configure %q: %w", c.Name, err)
	}
	defer func() { err = errors.Join(err, g.close(ctx)) }()
	if err := e.save(c); err != nil {
		return err
	}
	if err := e.changeTextIndex(ctx, vdb, c); err != nil {
		return fmt.Errorf("knowledge: configure %q: %w", c.Name, err)
	}
	return nil
}

// changeTextIndex gives the text index of a base the language of a configuration. A base that was
// never learnt has no index: the first Learn makes it.
func (e *Engine) changeTextIndex(ctx context.Context, vdb *db.DB, c Config) error {
	files, err := vdb.Collection(filesName)
	if errors.Is(err, db.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	info, err := files.Info()
	if err != nil {
		return err
	}
	_, current, ok := pinnedConfig(info.Metadata)
	if !ok {
		return nil
	}
	l := &learner{Engine: e, ctx: ctx, config: c, o: LearnOptions{Set: map[string]any{"language": c.Language}}}
	if l.chunks, err = vdb.Collection(current); err != nil {
		return err
	}
	chunks, err := l.chunks.Info()
	if err != nil {
		return err
	}
	if err := l.setLanguage(info, chunks.Schema.Text); err != nil {
		return err
	}
	m := maps.Clone(info.Metadata)
	m[learntLanguage] = language(c)
	return files.SetMetadata(ctx, m)
}

// otherLengths is the error of a configuration that would add vectors of other lengths to a base.
func otherLengths(base string, normalized bool) error {
	return fmt.Errorf("%w: embedding.normalize: the base has vectors with %v; vecbolt rag reembed %s makes others",
		ErrConfig, normalized, base)
}

// A mismatchError says that a base was learnt with another embedder than the configuration now
// names. It matches embed.ErrMismatch.
type mismatchError struct {
	Base            string
	Expected, Found embed.Config // the embedder of the stored vectors; the embedder requested
}

// Error names both embedders and the commands that resolve the mismatch.
func (e *mismatchError) Error() string {
	again := "--provider " + e.Found.Provider
	if e.Found.Model != "" {
		again += " --model " + e.Found.Model
	}
	if e.Found.Dimensions != 0 {
		again += fmt.Sprintf(" --dimensions %d", e.Found.Dimensions)
	}
	return fmt.Sprintf(`Embedding configuration mismatch for base '%[1]s':
  Expected: %[2]v
  Found: %[3]v

To change embedding configuration, clean and recreate the base:
  vecbolt rag clean %[1]s
  vecbolt rag learn %[1]s --path ...

Or keep it in use while its chunks are embedded with the new model:
  vecbolt rag reembed %[1]s %[4]s`, e.Base, e.Expected, e.Found, again)
}

// Is reports whether target is embed.ErrMismatch.
func (e *mismatchError) Is(target error) bool { return target == embed.ErrMismatch }

// Errors of this package. A base whose configuration names another embedder than it was learnt with
// is an embed.ErrMismatch.
var (
	// ErrNotFound is returned for a base that does not exist.
	ErrNotFound = errors.New("knowledge: not found")
	// ErrConfig is returned for a configuration that cannot be used.
	ErrConfig = errors.New("knowledge: invalid configuration")
	// ErrModel is returned when the chat model of a base fails.
	ErrModel = errors.New("knowledge: the chat model failed")
)
