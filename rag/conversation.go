package rag

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/vecbolt/vecbolt/rag/embed"
)

// Strategies for the query text in a conversation, as they are logged.
const (
	firstMessage = "first message (raw query)"
	followUp     = "follow-up (contextualized topic)"
)

// QueryText returns the query text for a message. Without a topic it is the message itself, because
// a question that stands alone is its own best query. With a topic it is the topic, with white
// space normalised, because the topic says what pronouns in the message refer to. A topic of white
// space counts as no topic.
func QueryText(message, topic string) (text, strategy string) {
	if words := strings.Fields(topic); len(words) > 0 {
		return strings.Join(words, " "), followUp
	}
	return message, firstMessage
}

// A Turn is one message of a conversation. It computes the embedding of its query text once per
// connection and model, however many collections are searched. It is safe for concurrent use.
type Turn struct {
	text, strategy string
	log            *slog.Logger

	mu   sync.Mutex
	vecs map[string][]float32 // by connectionId:model
}

// NewTurn begins a turn and logs the strategy of its query text. A nil log means none.
func NewTurn(ctx context.Context, message, topic string, log *slog.Logger) *Turn {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	t := &Turn{log: log, vecs: map[string][]float32{}}
	t.text, t.strategy = QueryText(message, topic)
	log.InfoContext(ctx, "query strategy", "strategy", t.strategy)
	return t
}

// Text returns the query text.
func (t *Turn) Text() string { return t.text }

// Strategy returns "first message (raw query)" or "follow-up (contextualized topic)".
func (t *Turn) Strategy() string { return t.strategy }

// Embed returns the embedding of the query text. connection identifies the endpoint of the
// embedder: calls with the same connection and model share one embedding, and log each reuse.
func (t *Turn) Embed(ctx context.Context, connection string, e embed.Embedder) ([]float32, error) {
	key := connection + ":" + e.Model()
	t.mu.Lock()
	defer t.mu.Unlock()
	if vec, ok := t.vecs[key]; ok {
		t.log.InfoContext(ctx, "embedding cache hit", "key", key)
		return slices.Clone(vec), nil
	}
	vec, err := embed.Queries(e).Embed(ctx, t.text)
	if err != nil {
		return nil, fmt.Errorf("%w: embed the query text: %w", ErrQuery, err)
	}
	t.vecs[key] = vec
	return slices.Clone(vec), nil
}
