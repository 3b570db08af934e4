// Package embed turns texts into vectors. An [Embedder] does so with one model of one provider. A
// [Registry] makes embedders from configurations. [Builtin] lists the providers of this package.
// The default, "hash", needs neither key nor network:
//
//	e, err := embed.Open(ctx, embed.Config{Provider: "openai", Model: "text-embedding-3-small"}, nil)
//	vecs, err := e.EmbedBatch(ctx, texts)
//
// # Errors
//
// Every failure of an embedder is an [*Error] whose kind is one of the Err values of this package,
// for errors.Is. An embedder neither retries nor delays requests; [Retry] and [Limit]
// do.
//
// # The model trigram-v1
//
// The provider "hash" has the model trigram-v1, which is defined here byte by byte and never
// changes. It does not know meaning: texts are similar if they share words and pieces of words. It
// is for programs without a model, tests and demos.
//
//  1. A word is a longest run of the ASCII letters and digits and of bytes from 0x80 on. The
//     letters A to Z become a to z. All other bytes separate words.
//  2. A space (0x20) is put before and after each word. The features of the word are all its runs
//     of three bytes, spaces included, and, if it is longer than five bytes with its spaces, that
//     whole string. So "Tree" has the features " tr", "tre", "ree", "ee " and " tree ".
//  3. A feature that occurs n times in the text has the weight 1+floor(log2(n)), and twice that if
//     it is a whole word.
//  4. The hash of a feature is FNV-1a with 64 bits, followed by the finalizer of MurmurHash3: h ^=
//     h>>33, h *= 0xff51afd7ed558ccd, h ^= h>>33, h *= 0xc4ceb9fe1a85ec53, h ^= h>>33.
//  5. The weight is added to component h mod dim, or subtracted from it if the highest bit of h is
//     set.
//  6. Every component, an integer c, becomes c/sqrt(s), where s is the sum of the squares of all,
//     computed in float64 and rounded to float32. If s is zero, the vector is zero.
//
// All of this is exact or correctly rounded: a text has the same bits on every machine. Signed
// feature hashing follows Weinberger et al., Feature Hashing for Large Scale Multitask Learning,
// 2009.
package embed
