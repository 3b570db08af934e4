// Package manifest encodes and decodes the file list of a published version of a database. The
// format is in docs/format/manifest.md.
package manifest
