// Package dbtest lets tests of the packages above db reach a seam of db that is no part of its API:
// the hook through which every operation on a file passes. Package db fills it in.
package dbtest

import "github.com/vecbolt/vecbolt/internal/vfs"

// SetHook sets the hook of options, a *db.Options.
var SetHook func(options any, hook vfs.Hook)
