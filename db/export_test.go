package db

import "github.com/vecbolt/vecbolt/internal/vfs"

// WithHook is for tests of packages that build on this one.
func WithHook(o Options, hook func(vfs.Op) error) *Options {
	o.hook = hook
	return &o
}
