// Package docjson reads and writes documents as JSON text: metadata with the number types of a
// database, and vectors bit by bit. [Reader] reads one value after the other, [ParseVector] a
// vector, the Append functions write. Decoders accept any input: they return values or an error,
// never panic, and allocate in proportion to the input.
//
// Its inputs are texts and values. It knows no file and no database.
package docjson
