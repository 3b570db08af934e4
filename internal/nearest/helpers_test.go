package nearest

import (
	"errors"
	"strings"
	"testing"
)

// A helper that has not begun when the work is done is not waited for and never begins. The errors
// and panics of those that have begun are returned.
func TestHelpers(t *testing.T) {
	var late []func()
	h := &helpers{spawn: func(fn func()) { late = append(late, fn) }}
	done := 0
	work := func() error {
		done++
		return nil
	}
	h.start(work)
	h.start(work)
	late[0]()
	if h.left.Load() != 1 {
		t.Errorf("%d helpers left", h.left.Load())
	}
	if err := h.wait(); err != nil || done != 1 || h.left.Load() != 0 {
		t.Errorf("%d pieces done, %d left, %v", done, h.left.Load(), err)
	}
	late[1]()
	if err := h.wait(); err != nil || done != 1 {
		t.Errorf("a late helper worked: %d, %v", done, err)
	}

	h = &helpers{spawn: func(fn func()) { fn() }}
	wrong := errors.New("wrong")
	h.start(func() error { return wrong })
	h.start(func() error { panic("odd") })
	if err := h.wait(); !errors.Is(err, wrong) || !strings.Contains(err.Error(), "odd") {
		t.Error(err)
	}

	h = &helpers{}
	begun := make(chan bool)
	h.start(func() error {
		begun <- true
		return wrong
	})
	<-begun
	if err := h.wait(); !errors.Is(err, wrong) {
		t.Error(err)
	}
}
