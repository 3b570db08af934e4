// Package static embeds texts with static models: a vector per token or word, of which a text's is
// the mean. They are read from files on disk, and are fast: hundreds of thousands of words a second
// on one core.
//
// [Open] reads a Model2Vec directory: model.safetensors, tokenizer.json and config.json as
// https://github.com/MinishLab/model2vec writes them, also with vectors of 16 or 8 bits and with a
// smaller table that tokens share, or as Sentence Transformers does for its StaticEmbedding.
// [OpenWords] reads word vectors as text, as GloVe, word2vec and fastText write them: a word and
// its numbers per line, with or without a line of counts before.
package static
