package vfs

import "unsafe"

// MappedAt returns the first n bytes of a file that a library has mapped at an address. They must
// not be used once the library has unmapped them, and reading them must happen under [Guard].
func MappedAt(addr uintptr, n int64) []byte {
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), n) // not memory of Go, so the collector does not move it
}
