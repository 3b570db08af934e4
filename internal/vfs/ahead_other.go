//go:build !linux

package vfs

// ReadAhead is a hint that this system does not take.
func ReadAhead([]byte) {}

// Resident returns true: this system does not tell.
func Resident([]byte) bool { return true }

// DiskReads returns 0: this system does not count the reads of a thread.
func DiskReads() int64 { return 0 }
