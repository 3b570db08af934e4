package knowledge

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vecbolt/vecbolt/internal/errtext"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/text"
)

// A Key is a setting in the configuration of a base.
type Key struct {
	// Name is the path in config.yaml, with dots: "top_k", "embedding.dimensions".
	Name string `json:"name"`
	// Schema says which values are allowed, and the default.
	Schema *embed.Schema `json:"schema"`
	// Changes says when a change of the value takes effect: "at once", "with the next learn, which
	// splits files again", "by reembed only" or "never".
	Changes string `json:"changes"`
	// Asker says that a client over the network may set the key for its own question.
	Asker bool `json:"asker,omitempty"`
}

// Remote reports whether a client over the network may set the key of a base: its value names no
// server, no file, no secret and no price.
func (k Key) Remote() bool {
	switch k.Name {
	case "cache_size", "cache_similarity", "cache_ttl", "conversations", "topic_words", "language", "embedding.batch_size":
		return true
	}
	return k.Asker || k.Changes == nextLearn
}

// privateKeys are the keys that only clients of a service that may write see: their values name
// servers, directories and secrets.
var privateKeys = []string{providerConfig, "chat_url", "rerank_url", "rerank_model", "chat_key_env", "rerank_key_env"}

// private reports whether only clients that may write see the value.
func (k Key) private() bool { return slices.Contains(privateKeys, k.Name) }

// When a change of a key takes effect.
const (
	atOnce     = "at once"
	nextLearn  = "with the next learn, which splits files again"
	byReembed  = "by reembed only"
	notByUsers = "never"
)

// Allowed describes the allowed values.
func (k Key) Allowed() string {
	s := k.Schema
	switch {
	case len(s.Enum) > 0:
		return "one of " + strings.Join(s.Enum, ", ")
	case k.Name == "language":
		return "one of " + strings.Join(text.Languages(), ", ")
	case k.Name == "cache_ttl":
		return "a duration such as 30s, 10m or 24h"
	case k.Name == "separators":
		return "a list of texts"
	case s.Format == "uri":
		return "a URL that begins with http:// or https://"
	case s.Type == "boolean":
		return "true or false"
	case s.Type == "integer" || s.Type == "number":
		kind := map[string]string{"integer": "an integer", "number": "a number"}[s.Type]
		switch {
		case s.Minimum != nil && s.Maximum != nil:
			return fmt.Sprintf("%s from %s to %s", kind, decimal(*s.Minimum), decimal(*s.Maximum))
		case s.Minimum != nil:
			return fmt.Sprintf("%s of %s or more", kind, decimal(*s.Minimum))
		}
		return kind
	case s.Type == "object":
		return "settings of the provider"
	}
	return "a text"
}

// decimal returns a number without an exponent.
func decimal(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// check reports a value that is not allowed.
func (k Key) check(value any) error {
	var err error
	switch v := value.(type) {
	case string:
		switch {
		case v == "" && k.Schema.Type == "string": // as if the key were missing
			return nil
		case k.Name == "language":
			_, err = text.New(v)
		case k.Name == "cache_ttl":
			var d time.Duration
			if d, err = time.ParseDuration(v); err == nil && d < 0 {
				err = errors.New("negative")
			}
		}
	case []any:
		if k.Name != "separators" || slices.ContainsFunc(v, func(x any) bool { _, ok := x.(string); return !ok }) {
			err = errors.New("a list")
		}
	}
	if err == nil && k.Name == "separators" {
		if _, ok := value.([]any); !ok {
			err = errors.New("no list")
		}
	}
	if err == nil {
		err = k.Schema.Validate(value)
	}
	if err != nil {
		return &valueError{k, value}
	}
	return nil
}

// A valueError says that the value of a key is not allowed. It matches ErrConfig.
type valueError struct {
	key   Key
	value any
}

// Error shows the value. What stands before the host of a server is left out, because it may be a
// password.
func (e *valueError) Error() string {
	value := e.value
	if e.key.private() {
		text, ok := value.(string)
		if !ok { // a list or an object may have servers as well
			return e.withoutValue()
		}
		value = errtext.WithoutUser(text)
	}
	return fmt.Sprintf("%v: %s: %s: want %s", ErrConfig, e.key.Name, shown(value), e.key.Allowed())
}

// withoutValue is the text for clients that may not see the value.
func (e *valueError) withoutValue() string {
	return fmt.Sprintf("%v: %s: want %s", ErrConfig, e.key.Name, e.key.Allowed())
}

// Is reports whether target is ErrConfig.
func (e *valueError) Is(target error) bool { return target == ErrConfig }

// shown returns a value for a message.
func shown(value any) string {
	b, err := json.Marshal(value)
	if err != nil || len(b) > 80 {
		return fmt.Sprintf("%.80q", fmt.Sprint(value))
	}
	return string(b)
}

// parse reads a value that was written as text.
func (k Key) parse(s string) (any, error) {
	var value any = s
	var err error
	switch {
	case k.Name == "separators":
		var list []any
		err = json.Unmarshal([]byte(s), &list)
		value = list
	case k.Schema.Type == "integer":
		value, err = strconv.Atoi(s)
	case k.Schema.Type == "number":
		value, err = strconv.ParseFloat(s, 64)
	case k.Schema.Type == "boolean":
		value, err = strconv.ParseBool(s)
	}
	if err != nil {
		return nil, &valueError{k, s}
	}
	return value, nil
}

const providerConfig = "embedding.provider_config"

// Keys lists all keys, in the order of the file. The default of a key is the value of a base whose
// file does not have the key.
func Keys() []Key { return slices.Clone(keys) }

// Keys lists all keys as the function does, with the embedder of Options.Default as the default:
// new bases of the engine get it.
func (e *Engine) Keys() []Key { return allKeys(e.Defaults("")) }

var keys = allKeys(Defaults(""))

// mostChunks is the most that a question may ask for.
const mostChunks = 1_000_000

// mostWeight is the limit of a weight in db.Fusion.
const mostWeight = 1e6

func allKeys(d Config) []Key {
	number := func(kind string, least float64, most *float64, std any, about string) *embed.Schema {
		return &embed.Schema{Type: kind, Minimum: &least, Maximum: most, Default: std, Description: about}
	}
	one := new(float64)
	*one = 1
	integer := func(least float64, std any, about string) *embed.Schema {
		return number("integer", least, nil, std, about)
	}
	upTo := func(kind string, most float64, std any, about string) *embed.Schema {
		return number(kind, 0, &most, std, about)
	}
	chunks := func(std any, about string) *embed.Schema { return upTo("integer", mostChunks, std, about) }
	weight := func(std any, about string) *embed.Schema { return upTo("number", mostWeight, std, about) }
	share := func(std any, about string) *embed.Schema { return number("number", 0, one, std, about) }
	some := func(std any, about string) *embed.Schema { return number("number", 0, nil, std, about) }
	text := func(std, about string, values ...string) *embed.Schema {
		s := &embed.Schema{Type: "string", Enum: values, Description: about}
		if std != "" {
			s.Default = std
		}
		return s
	}
	url := func(about string) *embed.Schema {
		return &embed.Schema{Type: "string", Format: "uri", Description: about}
	}
	cosine := number("number", -1, one, topicThreshold, "splitter semantic: cosine of neighbouring sentences below which the topic changes")
	return []Key{
		{"name", text("", "name of the base"), notByUsers, false},
		{"provider", text(d.Provider, "provider of embeddings"), byReembed, false},
		{"model", text(d.Model, "embedding model; the default is that of the provider"), byReembed, false},
		{"embedding.dimensions", integer(0, d.Embedding.Dimensions, "components of a vector; 0: the dimension of the model"), byReembed, false},
		{"embedding.normalize", &embed.Schema{Type: "boolean", Default: d.Embedding.Normalize, Description: "scale vectors to the length 1"}, byReembed, false},
		{"embedding.batch_size", integer(0, d.Embedding.BatchSize, "texts per request"), atOnce, false},
		{"embedding.requests_per_second", some(0, "most requests per second to the provider, on average; 0: no limit"), atOnce, false},
		{"embedding.attempts", integer(0, 5, "most requests for one batch, when requests fail; 0: the default"), atOnce, false},
		{"embedding.price", some(0, "price of a million tokens, for the statistics"), atOnce, false},
		{providerConfig, &embed.Schema{Type: "object", Description: "settings of the provider, such as api_base or host"}, atOnce, false},

		{"chunk_size", integer(0, d.ChunkSize, "maximum number of tokens in a chunk, 8 or more; 0: the default"), nextLearn, false},
		{"chunk_overlap", &embed.Schema{Type: "integer", Default: d.ChunkOverlap, Description: "tokens that neighbouring chunks share, at most an eighth of chunk_size by default; 0 or less: none"}, nextLearn, false},
		{"splitter", text(byFormat, "where texts are divided; format: by headings, definitions or paragraphs, as the file has them", byFormat, "fixed", "sentences", "paragraphs", "recursive", "semantic", "code", "markdown"), nextLearn, false},
		{"max_sentences", integer(0, 0, "splitter sentences: most sentences in a chunk; 0: no limit"), nextLearn, false},
		{"separators", &embed.Schema{Description: "splitter recursive: texts at which it divides, the strongest first; default: paragraphs, lines, sentences and words"}, nextLearn, false},
		{"topic_threshold", cosine, nextLearn, false},
		{"language", text("english", "language of the texts, for the text index; none: of no language"), atOnce, false},

		{"top_k", chunks(5, "number of chunks in an answer"), atOnce, true},
		{"threshold", &embed.Schema{Type: "number", Description: "least score of a chunk, on the scale of the strategy; default: none"}, atOnce, true},
		{"strategy", text(auto, "how to search; auto: hybrid with a text index, otherwise dense", auto, "dense", "text", "hybrid", "hyde", "multi-query", "mmr"), atOnce, true},
		{"fusion", text("convex", "strategy hybrid: how both rankings become one", "convex", "rrf"), atOnce, true},
		{"vector_weight", weight(0, "strategy hybrid: weight of the ranking by vectors; both weights 0: for convex 0.8 and 0.2 with a sentence encoder, 0.7 and 0.3 with a static model, else the default of the fusion"), atOnce, true},
		{"text_weight", weight(0, "strategy hybrid: weight of the ranking by words"), atOnce, true},
		{"fusion_depth", chunks(0, "strategy hybrid: chunks of each ranking that are fused; 0: the default of the fusion"), atOnce, true},
		{"diversity", share(0.5, "strategy mmr: 1 is relevance alone, towards 0 chunks differ more"), atOnce, true},
		{"rewrites", number("integer", 0, ten(), 3, "strategy multi-query: other ways to put the question"), atOnce, true},
		{"reranker", text("none", "what orders the chunks found again", "none", "lexical", "mmr", "cross-encoder", "cohere", "tei"), atOnce, true},
		{"candidates", chunks(0, "chunks that the reranker gets; 0: four times top_k"), atOnce, true},
		{"rerank_weight", share(0.5, "reranker lexical: share of the words in the score; reranker mmr: share of the relevance, 0.7 by default"), atOnce, true},
		{"rerank_model", text("", "reranker cross-encoder: directory of the model; reranker cohere: name of the model"), atOnce, false},
		{"rerank_url", url("reranker cohere or tei: URL of the service"), atOnce, false},
		{"rerank_key_env", text("", "environment variable with the key of rerank_url"), atOnce, false},
		{"siblings", text("", "metadata field: chunks with the same value as a chunk found are added, such as source_file"), atOnce, true},
		{"siblings_order", text("chunk_index", "metadata field by which siblings are ordered"), atOnce, true},
		{"max_siblings", integer(0, 20, "siblings added to one chunk, at most"), atOnce, true},
		{"max_context_tokens", integer(0, d.MaxContextTokens, "maximum number of tokens in a context"), atOnce, true},

		{"cache_size", integer(0, 0, "answers kept for similar questions; 0: none"), atOnce, false},
		{"cache_similarity", number("number", -1, one, 0.97, "least cosine of two questions that share an answer"), atOnce, false},
		{"cache_ttl", text("", "time that an answer is kept; default: until the base changes"), atOnce, false},
		{"chat", text("openai", "API of the chat model", "openai", "ollama"), atOnce, false},
		{"chat_url", url("URL of the chat model; default api.openai.com, or localhost for ollama"), atOnce, false},
		{"chat_model", text("", "chat model that answers, and that strategies hyde and multi-query need"), atOnce, false},
		{"chat_key_env", text("", "environment variable with the key of the chat model; default OPENAI_API_KEY for openai"), atOnce, false},
		{"prompt_price", some(0, "price of a million tokens sent to the chat model, for the statistics"), atOnce, false},
		{"answer_price", some(0, "price of a million tokens that the chat model answers, for the statistics"), atOnce, false},
		{"conversations", integer(0, 1000, "conversations kept; the least recently used are forgotten"), atOnce, false},
		{"topic_words", integer(0, 60, "words in the topic of a conversation"), atOnce, false},
		{"index", text("index.vdb", "directory of the database"), notByUsers, false},
	}
}

func ten() *float64 {
	n := 10.0
	return &n
}

// lookup returns the key with a name. Below provider_config every name is a key. The error names
// the nearest known key.
func lookup(name string) (Key, error) {
	for _, k := range keys {
		if k.Name == name {
			return k, nil
		}
	}
	if setting, ok := strings.CutPrefix(name, providerConfig+"."); ok && setting != "" && !strings.Contains(setting, ".") {
		return Key{Name: name, Schema: &embed.Schema{}, Changes: atOnce}, nil
	}
	best, least := "", len(name)
	for _, k := range keys {
		_, last, _ := strings.Cut(k.Name, ".") // "dimensions" means embedding.dimensions
		for _, known := range []string{k.Name, last} {
			if n := errtext.Distance(name, known); n < least && known != "" {
				best, least = k.Name, n
			}
		}
	}
	if best == "" {
		best = keys[1].Name
	}
	return Key{}, fmt.Errorf("%w: unknown key %q: the nearest is %q", ErrConfig, name, best)
}

// flatten adds the keys of an object with their values. Objects below path are flattened as well,
// apart from the settings of the provider. A key without value counts as missing.
func flatten(into map[string]any, path string, object map[string]any) {
	for name, value := range object {
		if path != "" {
			name = path + "." + name
		}
		switch v := value.(type) {
		case nil:
		case map[string]any:
			if name == providerConfig {
				into[name] = v
				continue
			}
			flatten(into, name, v)
		default:
			into[name] = v
		}
	}
}

// checkKeys reports the first unknown key and the first value that is not allowed.
func checkKeys(object map[string]any) error {
	flat := map[string]any{}
	flatten(flat, "", object)
	for _, name := range slices.Sorted(maps.Keys(flat)) {
		k, err := lookup(name)
		if err != nil {
			return err
		}
		value := flat[name]
		s, isText := value.(string)
		switch k.Schema.Type {
		case "string":
			switch value.(type) {
			case string, []any, map[string]any:
			default: // YAML reads a text of digits as a number
				value = fmt.Sprint(value)
			}
		case "integer", "number": // YAML reads 1e-05 as a text
			if isText {
				if value, err = k.parse(s); err != nil {
					return err
				}
			}
		}
		if err := k.check(value); err != nil {
			return err
		}
	}
	return nil
}

// field returns the field of a configuration that a key stands for.
func (c *Config) field(name string) reflect.Value {
	v := reflect.ValueOf(c).Elem()
	for part := range strings.SplitSeq(name, ".") {
		t := v.Type()
		at := slices.IndexFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool {
			tag, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			return tag == part
		})
		v = v.Field(at) // every key has a field: TestKeys
	}
	return v
}

// overlapKey is the key whose value 0, no overlap, is negative in a Config.
const overlapKey = "chunk_overlap"

// Get returns the value in effect of a key, as in the file, or nil if it has neither a value nor a
// default. The error names the nearest known key.
func (c *Config) Get(name string) (any, error) {
	k, err := lookup(name)
	if err != nil {
		return nil, err
	}
	if setting, ok := strings.CutPrefix(name, providerConfig+"."); ok {
		return c.Embedding.ProviderConfig[setting], nil
	}
	v := c.field(name)
	if name == overlapKey && c.ChunkOverlap < 0 {
		return 0, nil
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return k.Schema.Default, nil
		}
		return v.Elem().Interface(), nil
	}
	if kind := v.Kind(); v.IsZero() && kind != reflect.Bool && (k.Schema.Default != nil || kind != reflect.Int && kind != reflect.Float64) {
		return k.Schema.Default, nil
	}
	return v.Interface(), nil
}

// Set sets a key to a value, or to a value written as text. nil means the default. It checks the
// value alone; a base checks all values together when it is changed.
func (c *Config) Set(name string, value any) error {
	k, err := lookup(name)
	if err != nil {
		return err
	}
	if setting, ok := strings.CutPrefix(name, providerConfig+"."); ok {
		c.Embedding.ProviderConfig = maps.Clone(c.Embedding.ProviderConfig)
		if c.Embedding.ProviderConfig == nil {
			c.Embedding.ProviderConfig = map[string]any{}
		}
		if c.Embedding.ProviderConfig[setting] = value; value == nil {
			delete(c.Embedding.ProviderConfig, setting)
		}
		return nil
	}
	v := c.field(name)
	if value == nil {
		v.SetZero()
		return nil
	}
	if s, ok := value.(string); ok {
		if value, err = k.parse(s); err != nil {
			return err
		}
	}
	if err := k.check(value); err != nil {
		return err
	}
	if name == overlapKey && fmt.Sprint(value) == "0" { // 0 is the default in Go
		value = -1
	}
	b, err := json.Marshal(value) // the widest conversion between kinds of numbers
	if err == nil {
		fresh := reflect.New(v.Type())
		if err = json.Unmarshal(b, fresh.Interface()); err == nil {
			v.Set(fresh.Elem())
		}
	}
	if err != nil {
		return &valueError{k, value}
	}
	return nil
}
