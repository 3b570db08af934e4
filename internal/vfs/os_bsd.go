//go:build unix && !linux

package vfs

import "os"

// datasync is a full sync: on Darwin os.File.Sync uses F_FULLFSYNC, the only call that reaches the
// medium.
func datasync(f *os.File) error { return f.Sync() }

func dropCache(*os.File) {}

func startWriting(*os.File) {}

func preallocate(*os.File, int64) (bool, error) { return false, nil }
