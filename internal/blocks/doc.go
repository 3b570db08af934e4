// Package blocks is what the large derived files of a segment have in common: a header page that
// ends with its own checksum, content in blocks of 64 KiB, and behind it the checksums of the
// blocks. The header is verified when the file is opened, and each block when it is first used.
//
//	header page 4 KiB | block | block | ... | checksum of each block
//
// A [Format] says which kind of file it is, [Content] is one that is read, and [Writer] one that is
// written.
package blocks
