// Package examples holds the programs that docs/guide.md quotes, one per directory. Its test builds
// and runs them, and compares code and output with the guide.
package examples
