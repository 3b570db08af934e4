// Package blocks is the container format of the large derived files of a segment: a header page
// that ends with its own checksum, content in blocks of 64 KiB, and the checksums of the blocks.
// The header is verified when the file is opened, and each block when it is first used.
//
//	header page 4 KiB | block | block | ... | checksum of each block
//
// A [Format] is a kind of file, [Content] an open file, and [Writer] writes a file.
package blocks
