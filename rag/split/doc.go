// Package split divides texts into chunks for embedding.
//
// A [Splitter] has a [Strategy], which says where a text may be divided, and a
// limit in tokens, which no chunk exceeds. Chunks are pieces of the text itself:
// text[c.Offset:c.Offset+len(c.Text)] == c.Text, and together they cover all of
// it but white space. Neighbouring chunks may overlap.
//
//	s, err := split.New(split.Recursive(), split.Options{MaxTokens: 256, Overlap: 32})
//	chunks, err := s.Split(ctx, text)
//
// Every strategy is a list of levels, from coarse to fine: sections, paragraphs,
// sentences, words. A piece that exceeds the limit is divided at the next level,
// down to single characters; pieces that are smaller are joined again, as far as
// the strategy lets them.
//
// Tokens are counted by [Estimate], which needs no vocabulary, or by any function
// that knows the tokenizer of the model: Count of package tokenizer for local
// models, the nested module rag/split/tiktoken for those of OpenAI.
package split
