// Package tokenizer splits texts into the tokens of a language model, as Hugging Face's tokenizers
// do, from the file tokenizer.json of a model or from the list of its vocabulary. It knows the
// models WordPiece, Unigram and WordLevel with their usual normalizers and pre-tokenizers; what it
// does not know it refuses, rather than to give other tokens. BPE is not among them.
//
//	t, err := tokenizer.Parse(b)            // the bytes of tokenizer.json
//	ids := t.Encode("Grüße aus Ulm", true)  // [CLS] … [SEP]
//
// WordPiece is that of Schuster and Nakajima, 2012, in the form of BERT; Unigram that of Kudo,
// 2018.
package tokenizer
