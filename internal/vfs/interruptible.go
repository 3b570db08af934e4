package vfs

import (
	"context"
	"io"
)

// An interruptible reader ends its reads with a context, even those that wait for more.
type interruptible struct {
	io.ReadCloser
	ctx  context.Context
	stop func() bool
}

// Interruptible returns r with reads that end with ctx. It closes r when ctx ends, which also ends
// a read of a pipe, a socket or a device that waits.
func Interruptible(ctx context.Context, r io.ReadCloser) io.ReadCloser {
	return &interruptible{r, ctx, context.AfterFunc(ctx, func() { r.Close() })}
}

// Read implements io.Reader.
func (r *interruptible) Read(b []byte) (int, error) {
	n, err := r.ReadCloser.Read(b)
	if err != nil && err != io.EOF && r.ctx.Err() != nil {
		err = r.ctx.Err()
	}
	return n, err
}

// Close implements io.Closer.
func (r *interruptible) Close() error {
	if !r.stop() { // ctx has ended, and closes the reader
		return nil
	}
	return r.ReadCloser.Close()
}
