package vfs

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// FaultError says that a page of a mapped file could not be read: the file was made shorter, or its
// device failed.
type FaultError struct {
	Name string  // as given to Guard
	Addr uintptr // the address that faulted
}

// Error names the file.
func (e *FaultError) Error() string {
	return fmt.Sprintf("%s: mapped file could not be read (fault at address %#x)", e.Name, e.Addr)
}

// Guard runs fn and turns a memory fault in it (SIGBUS, SIGSEGV at a mapped address) into a
// *FaultError that carries name; without it such a fault ends the process. Other panics, nil
// dereferences among them, go on. It protects the calling goroutine only: a goroutine started by fn
// needs its own Guard. The cost is about 20 ns.
func Guard(name string, fn func() error) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		r := recover()
		if r == nil {
			return
		}
		// Only faults at real addresses have Addr; a nil dereference does not.
		if fault, ok := r.(interface {
			runtime.Error
			Addr() uintptr
		}); ok {
			err = &FaultError{Name: name, Addr: fault.Addr()}
			return
		}
		panic(r)
	}()
	return fn()
}
