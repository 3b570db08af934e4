package blocks

import (
	"fmt"
	"io"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// gathered is the number of bytes that a Writer takes up before it computes checksums: few enough
// to stay in the second-level cache.
const gathered = 4 * Size

// A Writer writes content, or a run of its blocks, sequentially, and computes the checksums of the
// blocks. It keeps the first error, which Spill and Finish return.
type Writer struct {
	// Out is the buffer of bytes without checksums. Callers may append to it if they call Spill
	// regularly.
	Out []byte

	w     *vfs.Gather
	off   int64 // file offset of Out
	table []uint32
	err   error
}

// NewWriter returns a Writer that begins at the offset off of w, the start of a block.
func NewWriter(w io.WriterAt, off int64) *Writer { return &Writer{w: vfs.NewGather(w, off), off: off} }

// At returns the file offset after the bytes written so far.
func (w *Writer) At() int64 { return w.off + int64(len(w.Out)) }

// Add writes b.
func (w *Writer) Add(b []byte) {
	for len(b) > gathered { // bounds the copy in Out
		w.Out = append(w.Out, b[:gathered]...)
		b = b[gathered:]
		_ = w.Spill()
	}
	w.Out = append(w.Out, b...)
	_ = w.Spill()
}

// Pad writes zeros up to a file offset that is a multiple of n.
func (w *Writer) Pad(n int64) { w.PadTo((w.At() + n - 1) / n * n) }

// PadTo writes zeros up to a file offset.
func (w *Writer) PadTo(off int64) { w.Add(make([]byte, off-w.At())) }

// Spill takes the whole blocks of Out, to write them, if there are enough of them. It returns the
// first error of the Writer.
func (w *Writer) Spill() error {
	if len(w.Out) >= gathered {
		w.write(len(w.Out) / Size * Size)
	}
	return w.err
}

func (w *Writer) write(n int) {
	if w.err == nil && n > 0 {
		_, w.err = w.w.Write(w.Out[:n])
	}
	for i := 0; i < n; i += Size {
		w.table = append(w.table, codec.CRC(w.Out[i:min(i+Size, n)]))
	}
	w.off += int64(n)
	w.Out = append(w.Out[:0], w.Out[n:]...)
}

// Finish completes a file of consecutive runs. It writes the rest of all runs, then the checksums
// of their blocks, and last the header, because a file is invalid without it. header gets the end
// of the content and the checksum of the checksums.
func (f *Format) Finish(w io.WriterAt, header func(end int64, tableCRC uint32) []byte, runs ...*Writer) error {
	var table []uint32
	for _, r := range runs {
		r.write(len(r.Out))
		if r.err == nil {
			r.err = r.w.Flush()
		}
		if r.err != nil {
			return f.Failed(r.err)
		}
		table = append(table, r.table...)
	}
	b, end := codec.BytesFromU32s(table), runs[len(runs)-1].off
	if _, err := w.WriteAt(b, end); err != nil {
		return f.Failed(err)
	}
	if _, err := w.WriteAt(header(end, codec.CRC(b)), 0); err != nil {
		return f.Failed(err)
	}
	return nil
}

// Failed returns the error for a failed write.
func (f *Format) Failed(err error) error { return fmt.Errorf("%s: write: %w", f.Name, err) }

// Memory is a file in memory that grows as it is written.
type Memory []byte

// WriteAt implements io.WriterAt.
func (m *Memory) WriteAt(b []byte, off int64) (int, error) {
	if n := int(off) + len(b) - len(*m); n > 0 {
		*m = append(*m, make([]byte, n)...)
	}
	return copy((*m)[off:], b), nil
}
