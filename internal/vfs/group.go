package vfs

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

// PanicError is a panic that Catch or a Group has turned into an error.
type PanicError struct {
	Value any    // given to panic
	Stack []byte // of the goroutine that panicked
}

// Error returns the value. The stack is only in its field.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// errExited is returned for a function that ended its goroutine by runtime.Goexit.
var errExited = errors.New("the goroutine was ended")

// Catch is Guard that also turns every other panic into a *PanicError. Use it for work in the
// background, or that holds resources others wait for: a panic there would end the process, or
// leave the others waiting.
func Catch(name string, fn func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &PanicError{Value: r, Stack: debug.Stack()}
		}
	}()
	return Guard(name, fn)
}

// Group starts goroutines that may read mapped memory and waits for them. Each runs inside Catch,
// so that neither a fault nor a panic ends the process: both are errors of the Group. It is the
// one way to start a goroutine in the packages of the engine (see internal/lint). The zero value
// is ready. Go may be called by several goroutines, but not beside a Wait that may return.
type Group struct {
	wait sync.WaitGroup
	mu   sync.Mutex
	err  error
}

// Go runs fn in a goroutine. name identifies the mapped file in the error of a fault, as in Guard.
func (g *Group) Go(name string, fn func() error) {
	g.wait.Go(func() {
		err := errExited
		defer func() {
			if err != nil {
				g.mu.Lock()
				defer g.mu.Unlock()
				if g.err == nil {
					g.err = err
				}
			}
		}()
		err = Catch(name, fn)
	})
}

// Wait returns, when all goroutines have ended, the error that came first.
func (g *Group) Wait() error {
	g.wait.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}
