package knowledge

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/goccy/go-yaml"

	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/split"
)

// A Config is the configuration of a base, as config.yaml has it.
type Config struct {
	Name      string    `yaml:"name" json:"name"`
	Provider  string    `yaml:"provider" json:"provider"`
	Model     string    `yaml:"model" json:"model"`
	Embedding Embedding `yaml:"embedding" json:"embedding"`

	ChunkSize        int `yaml:"chunk_size" json:"chunk_size"`       // most tokens of a chunk
	ChunkOverlap     int `yaml:"chunk_overlap" json:"chunk_overlap"` // tokens that neighbours share
	MaxContextTokens int `yaml:"max_context_tokens" json:"max_context_tokens"`
}

// Embedding is the part of a Config that belongs to the provider.
type Embedding struct {
	Dimensions     int            `yaml:"dimensions" json:"dimensions"`
	Normalize      bool           `yaml:"normalize" json:"normalize"`
	BatchSize      int            `yaml:"batch_size" json:"batch_size"`
	ProviderConfig map[string]any `yaml:"provider_config,omitempty" json:"provider_config,omitempty"`
}

// Defaults returns the configuration of a new base: the embedder that needs
// neither key nor network, chunks of 512 tokens that overlap by 64, contexts
// of 2048.
func Defaults(name string) Config {
	e := embed.DefaultConfig()
	return Config{
		Name: name, Provider: e.Provider, Model: e.Model,
		Embedding: Embedding{Dimensions: e.Dimensions, Normalize: e.Normalize, BatchSize: e.BatchSize},
		ChunkSize: split.DefaultMaxTokens, ChunkOverlap: split.DefaultOverlap, MaxContextTokens: rag.DefaultMaxContextTokens,
	}
}

// embedding returns the part that says which embedder is wanted.
func (c *Config) embedding() embed.Config {
	return embed.Config{Provider: c.Provider, Model: c.Model, Dimensions: c.Embedding.Dimensions, Normalize: c.Embedding.Normalize,
		BatchSize: c.Embedding.BatchSize, Settings: c.Embedding.ProviderConfig}
}

// fill sets what is left out to the defaults.
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

func (e *Engine) dir(name string) string      { return filepath.Join(e.workspace, name) }
func (e *Engine) database(name string) string { return filepath.Join(e.dir(name), "index.vdb") }

// ConfigPath returns the name of the file with the configuration of a base.
func (e *Engine) ConfigPath(name string) string { return filepath.Join(e.dir(name), "config.yaml") }

// Config reads the configuration of a base; ErrNotFound if there is no such
// base.
func (e *Engine) Config(name string) (Config, error) {
	if err := validName(name); err != nil {
		return Config{}, err
	}
	path := e.ConfigPath(name)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Config{}, fmt.Errorf("%w: base %q in %s", ErrNotFound, name, e.workspace)
	}
	if err != nil {
		return Config{}, fmt.Errorf("knowledge: %w", err)
	}
	var c Config
	if err := yaml.UnmarshalWithOptions(b, &c, yaml.Strict()); err != nil {
		return Config{}, fmt.Errorf("%w: %s: %w", ErrConfig, path, err)
	}
	c.Name = cmp.Or(c.Name, name)
	c.fill()
	return c, nil
}

// save writes the configuration beside the database.
func (e *Engine) save(c Config) error {
	b, err := yaml.Marshal(c)
	if err != nil {
		return fmt.Errorf("knowledge: %w", err)
	}
	if err := os.MkdirAll(e.dir(c.Name), 0o700); err != nil {
		return fmt.Errorf("knowledge: %w", err)
	}
	path := e.ConfigPath(c.Name)
	temp := path + ".new"
	if err := os.WriteFile(temp, b, 0o600); err != nil {
		return fmt.Errorf("knowledge: %w", err)
	}
	if err := os.Rename(temp, path); err != nil {
		return fmt.Errorf("knowledge: %w", err)
	}
	return nil
}

// A MismatchError says that a base was learnt with another embedder than the
// configuration now names. It matches ErrMismatch.
type MismatchError struct {
	Base            string
	Expected, Found embed.Config // what the vectors of the base are from; what is asked for
}

// Error says what to do.
func (e *MismatchError) Error() string {
	return fmt.Sprintf(`Embedding configuration mismatch for base '%[1]s':
  Expected: %[2]v
  Found: %[3]v

To change embedding configuration, clean and recreate the base:
  vecbolt rag clean %[1]s
  vecbolt rag learn %[1]s --path ...`, e.Base, e.Expected, e.Found)
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
