// Package manifest encodes and decodes the list of files that a published version of a database
// consists of. The format is in docs/format/manifest.md.
package manifest
