package vfs

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"
)

// TestInterruptible ends a read that waits for more, and leaves reads before the end alone.
func TestInterruptible(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	in := Interruptible(ctx, r)
	if _, err := w.WriteString("one"); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 3)
	if n, err := in.Read(b); n != 3 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	read := make(chan error)
	go func() {
		_, err := in.Read(b)
		read <- err
	}()
	cancel()
	if err := <-read; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}

	r, w, err = os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	in = Interruptible(t.Context(), r)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Read(b); err != io.EOF {
		t.Error(err)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if _, err := r.Read(b); !errors.Is(err, os.ErrClosed) {
		t.Errorf("it is open: %v", err)
	}
}
