// Package split divides texts into chunks for embedding.
//
// A [Splitter] has a [Strategy], which says where a text may be divided, and a limit in tokens,
// which no chunk exceeds. Chunks are pieces of the text itself: text[c.Offset:c.Offset+len(c.Text)]
// == c.Text. Together they cover the whole text except white space. Neighbouring chunks may
// overlap.
//
//	s, err := split.New(split.Recursive(), split.Options{MaxTokens: 256, Overlap: 32})
//	chunks, err := s.Split(ctx, text)
//
// Every strategy is a list of levels, from coarse to fine: sections, paragraphs, sentences, words.
// A piece that exceeds the limit is divided at the next level, down to single characters. Smaller
// pieces are joined again, as far as the strategy allows.
//
// [Estimate] counts tokens without a vocabulary. Options.Count replaces it with the tokenizer of a
// model: Count of package tokenizer for local models, the nested module rag/split/tiktoken for
// OpenAI's.
package split
