//go:build !386 && !arm && !mips && !mipsle && !wasm

// Package needs64bit is the one place where 32-bit targets are refused: it has no
// files for them, so that the go command names it before anything is compiled.
//
// Vecbolt maps its files into memory, one database may take more than 4 GiB, and
// offsets, row numbers times dimensions and counts are ints. js/wasm and wasip1
// have 32-bit addresses as well, and neither locks nor maps files. What works
// everywhere is filter, text and simd.
package needs64bit
