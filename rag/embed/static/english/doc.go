// Package english is a small embedding model of English inside the program: 28,090 tokens with 256
// components of a byte each, 7.4 MB in all. A program that imports the package becomes larger by
// them; package embed does not import it.
//
//	model := english.New()
//	vec, err := model.Embed(ctx, "How do I reset my password?")
//
// A text has the mean of the vectors of its tokens, scaled to the length 1. Use cosine similarity.
// Only the first 512 tokens count. The model knows synonyms and topics, but neither word order nor
// negation, and of other languages little more than names and related words; text in other scripts
// than Latin and Greek gets a zero vector. docs/model.md says how it was made from
// all-MiniLM-L6-v2, and how well it searches.
package english
