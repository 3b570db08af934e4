// Package dbtest serves tests of packages above db. It opens a database as two processes do, and
// gives access to the hook through which every file operation passes. The hook is not part of the
// API of db; package db fills it in.
package dbtest

import "github.com/vecbolt/vecbolt/internal/vfs"

// SetHook sets the hook of options, a *db.Options.
var SetHook func(options any, hook vfs.Hook)
