//go:build unix && !linux

package vfs

import "os"

// nameless makes an unlinked file: POSIX shared memory of these systems cannot grow.
func nameless(string) (*os.File, error) { return unlinked() }
