package terms

import (
	"iter"
	"syscall"
	"testing"
)

// A fault of memory in the iteration of a source is a panic of the caller, which vfs.Guard catches,
// and not the end of the process.
func TestFaultIsPassedOn(t *testing.T) {
	m, err := syscall.Mmap(-1, 0, 4096, syscall.PROT_NONE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(m)
	next, stop := pull(faulting{small(t), m})
	defer stop()
	defer func() {
		if err, ok := recover().(interface{ Addr() uintptr }); !ok || err.Addr() == 0 {
			t.Errorf("the fault was passed on as %v", err)
		}
	}()
	next()
	t.Error("no fault")
}

type faulting struct {
	Source
	memory []byte
}

func (f faulting) withPrefix(string) iter.Seq2[named, error] {
	return func(yield func(named, error) bool) { yield(named{term: string(f.memory[:8])}, nil) }
}
