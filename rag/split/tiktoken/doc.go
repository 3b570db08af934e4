// Package tiktoken counts tokens as the models of OpenAI do, offline: the vocabularies are compiled
// in, by github.com/tiktoken-go/tokenizer. It is a module of its own, because they make a program
// 10 MB larger and slow to build.
//
//	count, err := tiktoken.ForModel("text-embedding-3-small")
//	s, err := split.New(split.Recursive(), split.Options{MaxTokens: 512, Count: count})
//	o := rag.ContextOptions{MaxTokens: 4096, Count: count}
package tiktoken
