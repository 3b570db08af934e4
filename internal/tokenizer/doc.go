// Package tokenizer splits texts into the tokens of a language model, as Hugging Face's tokenizers
// do, from the tokenizer.json of a model or from its vocabulary. It supports the models WordPiece,
// Unigram and WordLevel with their usual normalizers and pre-tokenizers. It refuses unsupported
// components, because ignoring them would give wrong tokens. BPE is not supported.
//
//	t, err := tokenizer.Parse(b)            // the bytes of tokenizer.json
//	ids := t.Encode("Grüße aus Ulm")        // [CLS] … [SEP]
//
// WordPiece follows Schuster and Nakajima, 2012, in the form of BERT; Unigram follows Kudo, 2018.
package tokenizer
