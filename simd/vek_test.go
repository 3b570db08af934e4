//go:build amd64

package simd

import "github.com/viterin/vek/vek32"

// vek is imported on amd64 only, like in the package itself: a dependency of it
// does not build on every architecture.
func init() { vekDot = vek32.Dot }
