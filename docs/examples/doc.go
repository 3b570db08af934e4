// Package examples holds the programs that docs/guide.md, docs/eval.md and docs/seeds.md quote, one
// per directory. Its test builds and runs them, and compares code and output with the pages.
package examples
