package knowledge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/httpjson"
	"github.com/vecbolt/vecbolt/internal/retry"
	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/chat"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/embed/bert"
	"github.com/vecbolt/vecbolt/rag/rerank"
	"github.com/vecbolt/vecbolt/rag/split"
)

// QueryOptions tune a question. The zero value answers as the configuration of the base says.
type QueryOptions struct {
	Where filter.Expr // filter on the metadata of chunks
	// Set sets keys of the configuration for this question alone, as Config.Set does: those that
	// take effect at once, apart from language.
	Set map[string]any
	// Conversation is the id of a conversation, which the first question begins; empty means none.
	// Later questions of a conversation search for its topic: see rag.QueryText. The id has at most
	// 200 bytes, and is not ".", ".." or "/", which no URL can contain.
	Conversation string
	// Explain asks for Response.Stages: each stage with its reasons. The answer does not come from
	// the cache of answers.
	Explain bool

	K int // number of chunks; 0 means the key top_k
	// Strategy, Rerank and Expand replace the strategy, the reranker and the siblings of the
	// configuration by code. Such answers are not cached.
	Strategy rag.Strategy
	Rerank   rag.Reranker
	Expand   *rag.Expansion

	most int // chunks; 0: as the keys allow
}

// AskOptions tune a question for a chat model.
type AskOptions struct {
	QueryOptions
	// Found, if set, is called with the chunks and the context before the model is asked. An error
	// ends the question.
	Found func(*rag.Response) error
	// Part, if set, is called with each piece of the answer as the model writes it. An error ends
	// the question.
	Part func(text string) error
}

// Query finds the chunks of a base that answer a question. Equal and similar questions share an
// answer if the key cache_size is set, until the base changes.
func (e *Engine) Query(ctx context.Context, name, question string, o QueryOptions) (*rag.Response, error) {
	return e.ask(ctx, name, question, AskOptions{QueryOptions: o}, false)
}

// Ask answers a question from a base by the chat model of the key chat_model. The answer cites its
// sources by the numbers of Response.Citations. The error matches ErrConfig if there is no model.
func (e *Engine) Ask(ctx context.Context, name, question string, o AskOptions) (*rag.Response, error) {
	return e.ask(ctx, name, question, o, true)
}

func (e *Engine) ask(ctx context.Context, name, question string, o AskOptions, answer bool) (response *rag.Response, err error) {
	var s *state
	var c Config
	spent := &usage{}
	defer func() {
		if s != nil {
			s.note(response, err, spent, c)
		}
	}()
	talk, err := func() (*turn, error) {
		r, err := e.read(ctx, name)
		if err != nil {
			return nil, err
		}
		defer r.close()
		s = e.state(name)
		if c, err = r.config.forQuestion(o.QueryOptions); err != nil {
			return nil, err
		}
		if answer && c.ChatModel == "" {
			return nil, fmt.Errorf("%w: base %q has no chat_model", ErrConfig, name)
		}
		ctx := context.WithValue(context.WithValue(ctx, questionKey{}, true), usageKey{}, spent)
		t, err := e.turn(ctx, s, c, question, o.Conversation)
		if err != nil {
			return nil, err
		}
		p, err := e.pipeline(ctx, s, r, c, o.QueryOptions)
		if err != nil {
			return nil, err
		}
		find := p.Query
		if o.Explain {
			find = p.Explain
		}
		if response, err = find(ctx, t.text, o.Where); err != nil {
			return nil, err
		}
		if o.Explain {
			explain(response, c, t, question)
		}
		if t.text != question {
			response.Query = t.text
		}
		return t, nil
	}()
	if err != nil {
		return nil, err
	}
	if o.Found != nil {
		if err := o.Found(response); err != nil {
			return nil, err
		}
	}
	if answer { // the database is closed: the model may take its time
		if err := e.answer(ctx, c, talk, question, response, o, spent); err != nil {
			return nil, err
		}
	}
	response.PromptTokens, response.AnswerTokens = spent.prompt, spent.answer
	s.remember(o.Conversation, talk.topic, cmp.Or(c.Conversations, 1000))
	return response, nil
}

// answer adds the answer of the chat model to a response, which has its context.
func (e *Engine) answer(
	ctx context.Context, c Config, talk *turn, question string, response *rag.Response, o AskOptions, spent *usage,
) error {
	start := time.Now()
	if talk.topic != "" && talk.text != question {
		question = fmt.Sprintf("%s (the conversation is about: %s)", question, talk.topic)
	}
	ctx = context.WithValue(ctx, usageKey{}, spent)
	reply, err := e.chat(ctx, c, func(ctx context.Context, model *chat.Client) (chat.Reply, string, error) {
		reply, err := model.Answer(ctx, question, response.Context, o.Part)
		return reply, question + response.Context, err
	})
	if err != nil {
		return err
	}
	response.Answer, response.AnswerCut, response.AnswerTime = reply.Text, reply.Cut, time.Since(start)
	response.Cited = cited(reply.Text, len(response.Citations))
	if o.Explain {
		about := fmt.Sprintf("%s: %d of %d sources cited", c.ChatModel, len(response.Cited), len(response.Citations))
		if reply.Cut != "" {
			about += "; it stopped before the end: " + reply.Cut
		}
		response.Stages = append(response.Stages, rag.Stage{Name: "answer", Time: response.AnswerTime, About: about})
	}
	return nil
}

// explain adds what a Pipeline does not know: the conversation, and the name of the reranker.
func explain(r *rag.Response, c Config, t *turn, question string) {
	for i := range r.Stages {
		if s := &r.Stages[i]; s.Name == "rerank" && c.Reranker != "" {
			s.About = fmt.Sprintf("reranker %s: %s", c.Reranker, s.About)
		}
	}
	if t.topic != "" {
		about := "the conversation begins: its topic is the question"
		if t.text != question {
			about = fmt.Sprintf("searched for the topic of the conversation: %s", t.text)
		}
		r.Stages = slices.Insert(r.Stages, 0, rag.Stage{Name: "conversation", Time: t.took, About: about})
	}
}

var (
	references = regexp.MustCompile(`\[\d{1,4}(?:\s*[,;–-]\s*\d{1,4})*\]`)
	reference  = regexp.MustCompile(`([–-]?)\s*(\d+)`) // a number, and the dash before it
)

// cited returns the numbers in brackets of an answer, from 1 to n, each once, in order of
// appearance. [1-3] is 1, 2 and 3.
func cited(answer string, n int) []int {
	var all []int
	for _, group := range references.FindAllString(answer, -1) {
		last := 0
		for _, parts := range reference.FindAllStringSubmatch(group, -1) {
			number, err := strconv.Atoi(parts[2])
			if err != nil || number < 1 || number > n {
				last = 0
				continue
			}
			first := number
			if parts[1] != "" && 0 < last && last < number {
				first = last + 1
			}
			for i := first; i <= number; i++ {
				if !slices.Contains(all, i) {
					all = append(all, i)
				}
			}
			last = number
		}
	}
	return all
}

// forQuestion returns the configuration for one question.
func (c Config) forQuestion(o QueryOptions) (Config, error) {
	for name := range o.Set {
		k, err := lookup(name)
		if err != nil {
			return c, err
		}
		if k.Changes != atOnce || name == "language" || strings.HasPrefix(name, "embedding.") {
			return c, fmt.Errorf("%w: %s: it cannot be set for one question", ErrConfig, name)
		}
	}
	if err := c.apply(o.Set); err != nil {
		return c, err
	}
	if o.K < 0 {
		return c, fmt.Errorf("%w: %d chunks", ErrConfig, o.K)
	}
	c.TopK = cmp.Or(o.K, c.TopK)
	if err := c.bound(o.most); err != nil {
		return c, err
	}
	return c, c.check()
}

// pipeline returns the pipeline for a configuration, over the chunks of a reader. It is made once,
// so that its cache outlives the question, unless the options hold code.
func (e *Engine) pipeline(ctx context.Context, s *state, r *reader, c Config, o QueryOptions) (*rag.Pipeline, error) {
	chunks, err := r.chunks.Info()
	if err != nil {
		return nil, err
	}
	indexed := chunks.Schema.Text != nil
	ownCode := o.Strategy.String() != "" || o.Rerank != nil || o.Expand != nil
	settings, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("knowledge: %w", err)
	}
	store := chunkStore{r.chunks, r.id + " " + chunks.Name}
	key := fmt.Sprintf("%s %s %t", store.id, settings, indexed)
	if !ownCode {
		if p := s.pipeline(key); p != nil {
			return p.On(store), nil
		}
	}
	po, err := e.pipelineOptions(ctx, c, indexed)
	if err != nil {
		return nil, err
	}
	if ownCode {
		po.Cache = nil
		if o.Strategy.String() != "" {
			po.Strategy = o.Strategy
		}
		if o.Rerank != nil {
			po.Rerank = o.Rerank
		}
		if o.Expand != nil {
			po.Expand = o.Expand
		}
	}
	p, err := rag.NewPipeline(store, e.remembering(r.config, r.embedder), po)
	if err == nil && !ownCode {
		s.keep(key, p)
	}
	return p, err
}

// A chunkStore is the collection of chunks of a base. The database may be opened for each question:
// its identity says that the chunks are still the same.
type chunkStore struct {
	*db.Collection
	id string
}

// Identity lets pipelines over the same chunks share their cache.
func (c chunkStore) Identity() string { return c.id }

// pipelineOptions translates a configuration that has been checked.
func (e *Engine) pipelineOptions(ctx context.Context, c Config, indexed bool) (*rag.PipelineOptions, error) {
	o := &rag.PipelineOptions{
		TopK: c.TopK, Candidates: c.Candidates, Threshold: c.Threshold, Logger: e.opts.Logger,
		Context: rag.ContextOptions{MaxTokens: c.MaxContextTokens, Count: e.opts.Tokens.Count},
	}
	switch cmp.Or(c.Strategy, auto) {
	case "dense":
		o.Strategy = rag.Dense()
	case "text":
		o.Strategy = rag.Text()
	case "hyde":
		o.Strategy = rag.HyDE(func(ctx context.Context, question string) (string, error) {
			return e.complete(ctx, c, "Write a short passage that answers the question, as a document about it would. Only the passage.", question)
		})
	case "multi-query":
		n := cmp.Or(c.Rewrites, 3)
		o.Strategy = rag.MultiQuery(func(ctx context.Context, question string) ([]string, error) {
			text, err := e.complete(ctx, c, fmt.Sprintf("Put the question in %d other ways, in its language, one per line. Only the questions.", n), question)
			return lines(text, n), err
		})
	case "mmr":
		o.Strategy = rag.MMR(or(c.Diversity, 0.5))
	case auto:
		if o.Strategy = rag.Dense(); !indexed {
			break
		}
		fallthrough
	case "hybrid":
		f := db.Fusion{Vector: c.VectorWeight, Text: c.TextWeight, Depth: c.FusionDepth}
		switch {
		case c.Fusion == "rrf":
			f.Method = db.RRF
		case f.Vector == 0 && f.Text == 0:
			f.Vector, f.Text = weights(c.Provider)
		}
		o.Strategy = rag.Hybrid(f)
	}
	switch c.Reranker {
	case "lexical":
		o.Rerank = rerank.Lexical(or(c.RerankWeight, 0.5))
	case "mmr":
		o.Rerank = rerank.MMR(or(c.RerankWeight, 0.7))
	case "cross-encoder":
		cross, err := e.cross.get(ctx, c.RerankModel, func() (*bert.CrossEncoder, error) { return bert.OpenCross(c.RerankModel) })
		if err != nil {
			return nil, err
		}
		o.Rerank = rerank.Cross(cross.Score)
	case "cohere", "tei":
		again := e.retry()
		ho := rerank.HTTPOptions{Model: c.RerankModel, Client: e.client(), Retry: &again}
		if c.Reranker == "tei" {
			ho.API = rerank.TEI
		}
		if c.RerankKeyEnv != "" {
			ho.Secret = e.secret(c.RerankKeyEnv)
		}
		o.Rerank = rerank.HTTP(c.RerankURL, ho)
	}
	if c.Siblings != "" {
		o.Expand = &rag.Expansion{Field: c.Siblings, Order: c.SiblingsOrder, Max: c.MaxSiblings}
	}
	if c.CacheSize > 0 {
		o.Cache = &rag.CacheOptions{Size: c.CacheSize, Similarity: or(c.CacheSimilarity, 0.97)}
		o.Cache.TTL, _ = time.ParseDuration(c.CacheTTL) // checked; empty means none
	}
	return o, nil
}

// weights returns the weights of vectors and words for a provider of embeddings: 0.8 for vectors of
// sentence encoders, 0.7 for means of trained token vectors, and the default of package db for
// hashes and sums of word vectors, which bear less weight. Judged sets agree on them
// (docs/bench/2026-11-22-retrieval.md).
func weights(provider string) (vector, text float64) {
	switch provider {
	case "hash", "mock", "words":
		return 0, 0
	case "static", "model2vec": // static: the provider of package english
		return 0.7, 0.3
	}
	return 0.8, 0.2
}

// marker is the number or the bullet of an item in a list.
var marker = regexp.MustCompile(`^\s*(?:\d{1,2}[.)]|[-*•])\s+`)

// lines returns the lines of a model's list, at most n, without numbers and bullets.
func lines(text string, n int) []string {
	var all []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line[len(marker.FindString(line)):])
		if line != "" && len(all) < n {
			all = append(all, line)
		}
	}
	return all
}

// client returns the client of the program, or nil.
func (e *Engine) client() *http.Client {
	if e.opts.Embed == nil {
		return nil
	}
	return e.opts.Embed.Client
}

// secret returns a callback for the secret with a name.
func (e *Engine) secret(name string) func(context.Context) (string, error) {
	if e.opts.Embed != nil && e.opts.Embed.Secret != nil {
		return func(ctx context.Context) (string, error) { return e.opts.Embed.Secret(ctx, name) }
	}
	return embed.Env(name)
}

// usage counts the tokens of chat models for one question.
type usage struct{ prompt, answer int }

// cost returns the price of the tokens.
func (u *usage) cost(c Config) float64 {
	return (float64(u.prompt)*c.PromptPrice + float64(u.answer)*c.AnswerPrice) / 1e6
}

type usageKey struct{}

// chat calls the chat model of a configuration and counts the tokens: as the server reports them,
// or estimated. send returns the prompt as well.
func (e *Engine) chat(ctx context.Context, c Config, send func(context.Context, *chat.Client) (chat.Reply, string, error)) (chat.Reply, error) {
	model := &chat.Client{API: chat.API(cmp.Or(c.Chat, string(chat.OpenAI))), Base: c.ChatURL, Model: c.ChatModel}
	switch model.API {
	case chat.Ollama:
		model.Base = cmp.Or(model.Base, "http://localhost:11434")
		if c.ChatKeyEnv != "" {
			model.Secret = e.secret(c.ChatKeyEnv)
		}
	default:
		model.Base = cmp.Or(model.Base, "https://api.openai.com/v1")
		model.Secret = e.secret(cmp.Or(c.ChatKeyEnv, "OPENAI_API_KEY"))
	}
	model.HTTP = e.client()
	var reply chat.Reply
	var sent string
	err := retry.Policy(e.retry()).Do(ctx, "chat", func() (err error) {
		reply, sent, err = send(ctx, model)
		return err
	}, httpjson.Temporary)
	if err != nil {
		return chat.Reply{}, fmt.Errorf("%w: %w", ErrModel, err)
	}
	if u, ok := ctx.Value(usageKey{}).(*usage); ok {
		u.prompt += cmp.Or(reply.PromptTokens, e.tokens(sent))
		u.answer += cmp.Or(reply.AnswerTokens, e.tokens(reply.Text))
	}
	reply.Text = strings.TrimSpace(reply.Text)
	return reply, nil
}

func (e *Engine) complete(ctx context.Context, c Config, instructions, text string) (string, error) {
	kept, _ := ctx.Value(completionsKey{}).(*completions)
	return kept.complete([3]string{c.Chat + " " + c.ChatURL + " " + c.ChatModel, instructions, text}, func() (string, error) {
		reply, err := e.chat(ctx, c, func(ctx context.Context, model *chat.Client) (chat.Reply, string, error) {
			reply, err := model.Chat(ctx, []chat.Message{{Role: "system", Content: instructions}, {Role: "user", Content: text}}, nil)
			return reply, instructions + text, err
		})
		return reply.Text, err
	})
}

// tokens counts the tokens of a text.
func (e *Engine) tokens(text string) int {
	if count := e.opts.Tokens.Count; count != nil {
		return count(text)
	}
	return split.Estimate(text)
}

// A turn is one question of a conversation.
type turn struct {
	text  string // searched for
	topic string // of the conversation after the question; empty without a conversation
	took  time.Duration
}

// maxConversation bounds the id of a conversation, in bytes.
const maxConversation = 200

// turn returns what to search for. The topic of a conversation accumulates: the chat model restates
// it with each question, or, without a chat model, the new words of the question are appended.
func (e *Engine) turn(ctx context.Context, s *state, c Config, question, id string) (*turn, error) {
	if id == "" || strings.TrimSpace(question) == "" {
		return &turn{text: question}, nil
	}
	if id == "." || id == ".." || id == "/" { // as for names of collections
		return nil, fmt.Errorf("%w: the id of a conversation is %q: no URL can contain it", ErrConfig, id)
	}
	if len(id) > maxConversation {
		return nil, fmt.Errorf("%w: the id of a conversation has %d bytes, more than %d", ErrConfig, len(id), maxConversation)
	}
	start, most := time.Now(), cmp.Or(c.TopicWords, 60)
	topic := s.topic(id)
	switch {
	case topic == "":
	case c.ChatModel == "":
		topic = accumulate(topic, question, most)
	default:
		said := fmt.Sprintf("Topic so far: %s\nMessage: %s", topic, question)
		restated, err := e.complete(ctx, c, "State in one line what the message asks about, for a search: replace pronouns by what they refer to in the topic so far. Only the line.", said)
		if err != nil {
			return nil, err
		}
		if topic = accumulate("", restated, most); topic == "" {
			return nil, fmt.Errorf("%w: it stated no topic", ErrModel)
		}
	}
	text, strategy := rag.QueryText(question, topic)
	e.opts.Logger.InfoContext(ctx, "query strategy", "strategy", strategy)
	if topic == "" {
		topic = accumulate("", question, most)
	}
	return &turn{text, topic, time.Since(start)}, nil
}

// accumulate appends the words of a message that the topic does not have. It keeps the last words.
func accumulate(topic, message string, most int) string {
	words := strings.Fields(topic)
	have := map[string]bool{}
	plain := func(word string) string { return strings.ToLower(strings.Trim(word, ".,;:!?\"'()[]")) }
	for _, w := range words {
		have[plain(w)] = true
	}
	for _, w := range strings.Fields(message) {
		if topic == "" || !have[plain(w)] {
			words = append(words, w)
			have[plain(w)] = true
		}
	}
	return strings.Join(words[max(0, len(words)-most):], " ")
}

// A Conversation is a sequence of questions about a topic.
type Conversation struct {
	ID        string `json:"id"`
	Topic     string `json:"topic"`
	Questions int    `json:"questions"`
}

// Conversations lists the conversations of a base that this Engine keeps, the most recently used
// first. They are not stored on disk.
func (e *Engine) Conversations(name string) ([]Conversation, error) {
	if _, err := e.Config(name); err != nil {
		return nil, err
	}
	s := e.state(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.AppendSeq([]Conversation{}, s.talks.all()), nil
}

// Forget forgets a conversation. It returns ErrNotFound if there is none with the id.
func (e *Engine) Forget(name, id string) error {
	if _, err := e.Config(name); err != nil {
		return err
	}
	s := e.state(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.talks.remove(id) {
		return fmt.Errorf("%w: conversation %q of base %q", ErrNotFound, id, name)
	}
	return nil
}

// Stats are statistics of a base since this Engine first used it. Statistics of other processes are
// not included.
type Stats struct {
	rag.Stats
	Failures       int     `json:"failures"`        // questions that ended with an error
	EmbeddingHits  int     `json:"embedding_hits"`  // questions with an embedding in memory
	EmbeddedTexts  int     `json:"embedded_texts"`  // texts sent to the embedder, of files and of questions
	EmbeddedTokens int     `json:"embedded_tokens"` // counted as chunks are
	Cost           float64 `json:"cost"`            // by the prices in the configuration
}

// Stats returns the statistics of a base.
func (e *Engine) Stats(name string) (Stats, error) {
	_, err := e.Config(name)
	first := errors.Is(err, ErrNotFound) && e.learning(name) != nil // its first files are not written yet
	if err != nil && !first {
		return Stats{}, err
	}
	s := e.state(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats, nil
}
