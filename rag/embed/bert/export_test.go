package bert

import "github.com/vecbolt/vecbolt/internal/tokenizer"

// Names for tests, which make models of tensors in memory.
type (
	Config  = config
	Pooling = pooling
)

const (
	Mean  = meanPooling
	First = firstPooling
	Last  = lastPooling
)

var (
	New     = newModel
	NewGGUF = newGGUF
)

// Config returns the shape of the model.
func (m *Model) Config() Config { return m.cfg }

// Tokenizer returns the tokenizer of the model.
func (m *Model) Tokenizer() *tokenizer.Tokenizer { return m.tok }
