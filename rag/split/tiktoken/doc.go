// Package tiktoken counts tokens as OpenAI's models do, offline. The vocabularies are compiled in,
// by github.com/tiktoken-go/tokenizer. It is a separate module, because they add 10 MB to a program
// and take long to compile.
//
//	count, err := tiktoken.ForModel("text-embedding-3-small")
//	s, err := split.New(split.Recursive(), split.Options{MaxTokens: 512, Count: count})
//	o := rag.ContextOptions{MaxTokens: 4096, Count: count}
package tiktoken
