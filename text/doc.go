// Package text turns texts into terms, for full-text search.
//
// An [Analyzer] is the analysis of one language: [Analyzer.Scanner] returns a [Scanner], which
// splits texts into terms, [Analyzer.Parse] reads a user's query, and [Scanner.Highlight] finds the
// passage of a text that matches a query best.
//
// # From text to terms
//
// Characters that nobody sees are left out first: soft hyphens, joiners, marks of direction, byte
// order marks, variation selectors. Then a text is split into words at the boundaries of Unicode
// Standard Annex 29; a space of no width is one. A word is normalised (NFKC), case-folded, reduced
// to its stem by the Snowball stemmer of the language, and loses its accents, in this order; in
// English, whose stemmer knows no accents, they go first. Each word has the next position. In
// addition:
//
//   - An identifier is split as well as kept: parseHTTPHeader gives the terms
//     "parse", "http", "header", each with its position, and "parsehttpheader"
//     at the position of the first. The same holds for snake_case and dotted.names.
//   - Scripts without spaces between words (Chinese, Japanese, Korean, Thai, Lao,
//     Khmer, Burmese) give overlapping pairs of characters. Hangul is composed, and
//     the vowel am of Thai and Lao taken apart, so that each spelling gives the same.
//   - Stop words are terms like others, so that phrases which contain them can
//     be found; a query drops them where they stand alone.
//
// Language "none" neither stems nor has stop words.
//
// An Analyzer is immutable and safe for concurrent use; a [Scanner] is for one
// goroutine. The same text and analysis give the same terms on every machine,
// as long as [Analyzer.ID] is the same.
package text
