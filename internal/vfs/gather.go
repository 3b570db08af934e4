package vfs

import "io"

// HugePage is the size of a huge page on amd64 and arm64, in bytes.
const HugePage = 2 << 20

// A Gather writes consecutive bytes in pieces that begin and end at multiples of HugePage. A file
// system with large folios (ext4 from Linux 6.16 on, XFS from 5.18 on) keeps such a piece in one
// huge page, and maps it as one: random reads then miss the address cache of the processor less
// often. All processes share these pages, and the system takes them back like others. Elsewhere it
// makes no difference.
type Gather struct {
	w   io.WriterAt
	off int64 // file offset of buf
	buf []byte
}

// NewGather returns a Gather that begins at the offset off of w.
func NewGather(w io.WriterAt, off int64) *Gather { return &Gather{w: w, off: off} }

// Write appends b. Bytes wait in memory until their piece is complete, so an error may belong to an
// earlier call. After an error the Gather must not be used again.
func (g *Gather) Write(b []byte) (int, error) {
	for n := 0; n < len(b); {
		room := HugePage - int(g.off%HugePage) - len(g.buf)
		part := b[n:min(n+room, len(b))]
		n += len(part)
		g.buf = append(g.buf, part...)
		if len(part) == room {
			if err := g.Flush(); err != nil {
				return n, err
			}
		}
	}
	return len(b), nil
}

// Flush writes the bytes that wait for the end of their piece. The file lacks them until then.
func (g *Gather) Flush() error {
	if len(g.buf) == 0 {
		return nil
	}
	n, err := g.w.WriteAt(g.buf, g.off)
	g.off += int64(n)
	g.buf = g.buf[:0]
	return err
}
