package knowledge

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"

	"github.com/goccy/go-yaml"

	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/split"
)

// A Config is the configuration of a base, stored in config.yaml.
type Config struct {
	Name      string    `yaml:"name" json:"name"`
	Provider  string    `yaml:"provider" json:"provider"`
	Model     string    `yaml:"model" json:"model"`
	Embedding Embedding `yaml:"embedding" json:"embedding"`

	ChunkSize        int `yaml:"chunk_size" json:"chunk_size"`       // maximum number of tokens in a chunk
	ChunkOverlap     int `yaml:"chunk_overlap" json:"chunk_overlap"` // tokens that neighbours share; negative, or 0 in the file: none
	MaxContextTokens int `yaml:"max_context_tokens" json:"max_context_tokens"`

	// Language is the language of the texts, for the text index of a new base, as in db.TextIndex;
	// empty means english. It has no effect on an existing collection of chunks, which keeps its
	// language.
	Language string `yaml:"language,omitempty" json:"language,omitempty"`

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
}

// Defaults returns the configuration of a new base: the embedder that needs neither key nor
// network, chunks of 512 tokens that overlap by 64, contexts of 2048.
func Defaults(name string) Config {
	e := embed.DefaultConfig()
	return Config{
		Name: name, Provider: e.Provider, Model: e.Model,
		Embedding: Embedding{Dimensions: e.Dimensions, Normalize: e.Normalize, BatchSize: e.BatchSize},
		ChunkSize: split.DefaultMaxTokens, ChunkOverlap: split.DefaultOverlap, MaxContextTokens: rag.DefaultMaxContextTokens,
	}
}

// embedding returns the configuration of the embedder.
func (c *Config) embedding() embed.Config {
	return embed.Config{Provider: c.Provider, Model: c.Model, Dimensions: c.Embedding.Dimensions, Normalize: c.Embedding.Normalize,
		BatchSize: c.Embedding.BatchSize, Settings: c.Embedding.ProviderConfig}
}

// fill sets missing values to the defaults.
func (c *Config) fill() {
	d := Defaults(c.Name)
	if c.Provider == "" {
		c.Provider, c.Model, c.Embedding = d.Provider, cmp.Or(c.Model, d.Model), d.Embedding
	}
	c.Embedding.BatchSize = cmp.Or(c.Embedding.BatchSize, d.Embedding.BatchSize)
	c.ChunkSize = cmp.Or(c.ChunkSize, d.ChunkSize)
	c.ChunkOverlap = cmp.Or(c.ChunkOverlap, min(d.ChunkOverlap, c.ChunkSize/8))
	c.MaxContextTokens = cmp.Or(c.MaxContextTokens, d.MaxContextTokens)
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
func (e *Engine) ConfigPath(name string) string { return filepath.Join(e.dir(name), "config.yaml") }

// Config reads the configuration of a base. It returns ErrNotFound if the base does not exist.
func (e *Engine) Config(name string) (Config, error) {
	if err := validName(name); err != nil {
		return Config{}, err
	}
	c, err := readConfig(e.ConfigPath(name))
	if errors.Is(err, fs.ErrNotExist) {
		return c, fmt.Errorf("%w: base %q in %s", ErrNotFound, name, e.workspace)
	}
	if err == nil && c.Name != name {
		err = fmt.Errorf("%w: %s is named %q", ErrConfig, e.ConfigPath(name), c.Name)
	}
	return c, err
}

func readConfig(path string) (c Config, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return c, fmt.Errorf("knowledge: %w", err)
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
	c.fill()
	return c, nil
}

// save writes the configuration beside the database, atomically and durably.
func (e *Engine) save(c Config) error { return writeConfig(e.ConfigPath(c.Name), c) }

// newSuffix marks files that are being written.
const newSuffix = ".new"

func writeConfig(path string, c Config) error {
	b, err := yaml.Marshal(c)
	if err != nil {
		return fmt.Errorf("knowledge: %w", err)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("knowledge: %w", err)
	}
	temp := path + newSuffix
	if err := writeSynced(temp, b); err != nil {
		return fmt.Errorf("knowledge: %w", err)
	}
	if err := os.Rename(temp, path); err != nil {
		return fmt.Errorf("knowledge: %w", err)
	}
	if runtime.GOOS == "windows" {
		return nil // directories cannot be synced on this system
	}
	d, err := os.Open(dir)
	if err == nil {
		err = errors.Join(d.Sync(), d.Close())
	}
	if err != nil {
		return fmt.Errorf("knowledge: %w", err)
	}
	return nil
}

func writeSynced(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}

// A MismatchError says that a base was learnt with another embedder than the configuration now
// names. It matches ErrMismatch.
type MismatchError struct {
	Base            string
	Expected, Found embed.Config // the embedder of the stored vectors; the embedder requested
}

// Error names both embedders and the commands that resolve the mismatch.
func (e *MismatchError) Error() string {
	again := fmt.Sprintf("--provider %s --model %s", e.Found.Provider, e.Found.Model)
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

// Is reports whether target is ErrMismatch.
func (e *MismatchError) Is(target error) bool { return target == ErrMismatch }

// Errors of this package.
var (
	// ErrNotFound is returned for a base that does not exist.
	ErrNotFound = errors.New("knowledge: not found")
	// ErrConfig is returned for a configuration that cannot be used.
	ErrConfig = errors.New("knowledge: invalid configuration")
	// ErrMismatch is returned when the configuration names another embedder
	// than the base was learnt with.
	ErrMismatch = errors.New("knowledge: configuration mismatch")
)
