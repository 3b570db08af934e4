// Package static embeds texts with static models: each token or word has a fixed vector, and a text
// has the mean of its vectors. Models are read from files and are fast: hundreds of thousands of
// words a second on one core.
//
// [Open] reads a Model2Vec directory: model.safetensors, tokenizer.json and config.json as
// https://github.com/MinishLab/model2vec writes them, including vectors of 16 or 8 bits and smaller
// tables that tokens share, or as Sentence Transformers writes its StaticEmbedding. [OpenWords]
// reads word vectors as text, as GloVe, word2vec and fastText write them: a word and its numbers
// per line, with or without a first line of counts.
package static
