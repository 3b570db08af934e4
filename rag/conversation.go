package rag

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/vecbolt/vecbolt/rag/embed"
)

// The ways in which the text of a search is chosen in a conversation, as they
// are logged.
const (
	FirstMessage = "first message (raw query)"
	FollowUp     = "follow-up (contextualized topic)"
)

// QueryText returns the text to search for on behalf of a message: the message
// itself while there is no topic, so that a question which stands alone is
// matched best; from then on the topic, with its white space normalised, which
// says what pronouns refer to. A topic of white space is none.
func QueryText(message, topic string) (text, strategy string) {
	if words := strings.Fields(topic); len(words) > 0 {
		return strings.Join(words, " "), FollowUp
	}
	return message, FirstMessage
}

// A Turn is one message of a conversation. The embedding of its query text is
// computed once for each connection and model, however many collections are
// searched. It is safe for concurrent use.
type Turn struct {
	text, strategy string
	log            *slog.Logger

	mu   sync.Mutex
	vecs map[string][]float32 // by connectionId:model
}

// NewTurn begins a turn and logs how its query text was chosen; nil means
// slog.Default().
func NewTurn(ctx context.Context, message, topic string, log *slog.Logger) *Turn {
	if log == nil {
		log = slog.Default()
	}
	t := &Turn{log: log, vecs: map[string][]float32{}}
	t.text, t.strategy = QueryText(message, topic)
	log.InfoContext(ctx, "query strategy", "strategy", t.strategy)
	return t
}

// Text returns the text to search for.
func (t *Turn) Text() string { return t.text }

// Strategy returns FirstMessage or FollowUp.
func (t *Turn) Strategy() string { return t.strategy }

// Embed returns the embedding of the query text. connection names where the
// embedder is reached; calls for the same connection and model embed once, and
// log when they did not have to.
func (t *Turn) Embed(ctx context.Context, connection string, e embed.Embedder) ([]float32, error) {
	key := connection + ":" + e.Model()
	t.mu.Lock()
	defer t.mu.Unlock()
	if vec, ok := t.vecs[key]; ok {
		t.log.InfoContext(ctx, "embedding cache hit", "key", key)
		return vec, nil
	}
	vec, err := e.Embed(ctx, t.text)
	if err != nil {
		return nil, fmt.Errorf("%w: embed the query text: %w", ErrQuery, err)
	}
	t.vecs[key] = vec
	return vec, nil
}
