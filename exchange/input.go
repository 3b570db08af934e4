package exchange

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// An input is a path that a source reads. A pipe, a socket or a device gives its bytes only once:
// it is opened once, and the detection of the format leaves its bytes to the source.
type input struct {
	path string
	mode fs.FileMode
	size int64   // of a regular file, otherwise 0
	once *stream // of a pipe, a socket or a device, until a source takes it
}

// A stream is an opened file with the bytes of it that have been looked at.
type stream struct {
	*bufio.Reader
	io.Closer
}

// newInput returns the input with a path.
func newInput(path string) (*input, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	in := &input{path: path, mode: info.Mode()}
	switch {
	case in.mode.IsRegular():
		in.size = info.Size()
	case !in.mode.IsDir():
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		in.once = &stream{bufio.NewReader(f), f}
	}
	return in, nil
}

// open returns the input at its start. A pipe, a socket or a device can be opened once; it is
// closed when ctx ends, also while it is read.
func (in *input) open(ctx context.Context) (io.ReadCloser, error) {
	if in.mode.IsRegular() {
		return os.Open(in.path)
	}
	s := in.once
	if s == nil {
		return nil, fmt.Errorf("%w: %s is not a regular file and has been read; copy it to a file to read it again",
			db.ErrInvalid, in.path)
	}
	in.once = nil
	return vfs.Interruptible(ctx, s), nil
}

// head returns the first n bytes, fewer if there are fewer, and leaves them to the source.
func (in *input) head(n int) ([]byte, error) {
	s := in.once
	if s == nil {
		f, err := os.Open(in.path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		s = &stream{bufio.NewReader(f), f}
	}
	b, err := s.Peek(n)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b, err
}

// close closes an input that no source has opened.
func (in *input) close() {
	if in.once != nil {
		in.once.Close()
	}
}
