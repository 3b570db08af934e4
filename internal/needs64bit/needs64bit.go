//go:build !386 && !arm && !mips && !mipsle && !wasm

// Package needs64bit refuses 32-bit targets. It has no files for them, so the go command names it
// in the error before anything is compiled.
//
// Vecbolt maps its files into memory, one database may exceed 4 GiB, and offsets, row numbers times
// dimensions and counts are ints. js/wasm and wasip1 also have 32-bit addresses, and neither locks
// nor maps files. Packages filter, text and simd work on every target.
package needs64bit
