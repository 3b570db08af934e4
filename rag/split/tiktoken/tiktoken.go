package tiktoken

import (
	"fmt"
	"strings"

	"github.com/tiktoken-go/tokenizer"
)

// Count returns the token counter of an encoding: "o200k_base" (GPT-4o and later), "cl100k_base"
// (GPT-4, text-embedding-ada-002, text-embedding-3-small and -large), "p50k_base" or "r50k_base". It
// is safe for concurrent use. Special tokens in
// a text are counted as text.
func Count(encoding string) (func(text string) int, error) {
	codec, err := tokenizer.Get(tokenizer.Encoding(encoding))
	if err != nil {
		return nil, fmt.Errorf("tiktoken: encoding %q: %w", encoding, err)
	}
	return counter(codec), nil
}

// ForModel is Count for the encoding of a model.
func ForModel(model string) (func(text string) int, error) {
	if strings.HasPrefix(model, "text-embedding-3-") { // unknown to the library
		return Count("cl100k_base")
	}
	codec, err := tokenizer.ForModel(tokenizer.Model(model))
	if err != nil {
		return nil, fmt.Errorf("tiktoken: model %q: %w", model, err)
	}
	return counter(codec), nil
}

func counter(codec tokenizer.Codec) func(string) int {
	return func(text string) int {
		n, err := codec.Count(text)
		if err != nil { // it cannot be split into words; a token has at least one byte
			return len(text)
		}
		return n
	}
}
