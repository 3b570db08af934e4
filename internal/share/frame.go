package share

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// ErrTooLarge is returned for a message that does not fit into a frame. Nothing of it was sent.
var ErrTooLarge = errors.New("message too large")

// Append appends the frame of m to b. On error it returns b unchanged: an error that matches
// document.ErrInvalid is the one that the leader would give for the same write, ErrTooLarge is for
// a message beyond the limits, and all others are mistakes of the caller.
func Append(b []byte, m Message) ([]byte, error) {
	k := kinds[m.kind()]
	e := codec.Encoder{B: b}
	e.U32(0)
	e.U8(m.kind())
	e.U32(0)
	if err := m.encode(&e); err != nil {
		return b, err
	}
	frame := e.B[len(b):]
	if n := len(frame) - headerSize; n > k.limit {
		return b, fmt.Errorf("%s: %w: %d bytes, the limit is %d", k.name, ErrTooLarge, n, k.limit)
	}
	binary.LittleEndian.PutUint32(frame, uint32(len(frame)-headerSize))
	binary.LittleEndian.PutUint32(frame[sumOffset:], codec.CRC(frame[:sumOffset], frame[headerSize:]))
	return e.B, nil
}

// Write writes the frame of m with one call of w. If Append returns an error, nothing is written.
func Write(w io.Writer, m Message) error {
	b, err := Append(nil, m)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

// Read reads one frame, and nothing behind it: see Reader.Next.
func Read(in io.Reader) (Message, error) { return (&Reader{in: in}).Next() }

// A Reader reads the frames of a connection.
type Reader struct {
	in         io.Reader
	buf        []byte // buf[start:end] has arrived and is not taken
	start, end int

	header  [headerSize]byte
	got     int  // bytes of the header that were taken
	kind    kind // of the frame whose payload is being taken
	size    int
	payload []byte
}

// NewReader returns a Reader that takes much from in at once.
func NewReader(in io.Reader) *Reader { return &Reader{in: in, buf: make([]byte, readBytes)} }

// Next returns the next message. The end of the connection is io.EOF between two frames and
// io.ErrUnexpectedEOF within one. Other errors of the connection are returned as they are; after
// one that does not end it, such as a deadline, Next goes on where it was. A frame that no process
// of this version sends gives an error that wraps fileformat.ErrChecksum or fileformat.ErrFormat,
// and a Hello or Welcome of another version one that wraps fileformat.ErrVersion. After these the
// connection is of no more use, because nobody knows where the next frame begins.
//
// The message may share memory with the frame, which belongs to it alone.
func (r *Reader) Next() (Message, error) {
	for r.got < headerSize {
		n, err := r.take(r.header[r.got:])
		if r.got += n; n == 0 && err != nil {
			return nil, r.ended(err)
		}
		if r.got == headerSize {
			if err := r.begin(); err != nil {
				return nil, err
			}
		}
	}
	// Memory at most doubles with what has arrived, because the length alone is only a claim.
	for len(r.payload) < r.size {
		r.payload = slices.Grow(r.payload, min(max(len(r.payload), 1), r.size-len(r.payload)))
		n, err := r.take(r.payload[len(r.payload):min(cap(r.payload), r.size)])
		if r.payload = r.payload[:len(r.payload)+n]; n == 0 && err != nil {
			return nil, r.ended(err)
		}
	}
	payload := r.payload
	r.got, r.payload = 0, nil
	return decode(r.kind, r.header[:], payload)
}

// take moves bytes that have arrived to b, and waits for the first of them.
func (r *Reader) take(b []byte) (n int, err error) {
	if r.start == r.end {
		if len(b) >= len(r.buf) {
			return r.in.Read(b)
		}
		r.start = 0
		r.end, err = r.in.Read(r.buf)
	}
	n = copy(b, r.buf[r.start:r.end])
	r.start += n
	return n, err
}

// ended returns the error of Next for one of the connection.
func (r *Reader) ended(err error) error {
	if err == io.EOF && r.got > 0 {
		return io.ErrUnexpectedEOF
	}
	return err
}

// begin looks at a whole header.
func (r *Reader) begin() error {
	d := codec.NewDecoder(r.header[:])
	n, number := d.U32(), d.U8()
	if int(number) >= len(kinds) || kinds[number].decode == nil {
		return fmt.Errorf("%w: message of kind %d", fileformat.ErrFormat, number)
	}
	r.kind = kinds[number]
	if n > uint32(r.kind.limit) {
		return fmt.Errorf("%s: %w: %d bytes, the limit is %d", r.kind.name, fileformat.ErrFormat, n, r.kind.limit)
	}
	r.size = int(n)
	r.payload = make([]byte, 0, min(r.size, chunk))
	return nil
}

// chunk is the memory that a frame gets before any of its payload has arrived.
const chunk = 64 << 10

// Ready reports whether the next message has arrived.
func (r *Reader) Ready() bool {
	arrived := r.buf[r.start:r.end]
	if r.got == 0 {
		return len(arrived) >= headerSize && len(arrived)-headerSize >= int(binary.LittleEndian.Uint32(arrived))
	}
	return r.got == headerSize && len(r.payload)+len(arrived) >= r.size
}

// decode returns the message of a frame.
func decode(k kind, header, payload []byte) (Message, error) {
	if codec.CRC(header[:sumOffset], payload) != binary.LittleEndian.Uint32(header[sumOffset:]) {
		return nil, fmt.Errorf("%s: %w", k.name, fileformat.ErrChecksum)
	}
	d := codec.NewDecoder(payload)
	m := k.decode(d)
	if d.Err() == nil && d.Len() > 0 {
		d.Fail(fmt.Errorf("%d bytes left over", d.Len()))
	}
	if err := d.Err(); errors.Is(err, fileformat.ErrVersion) {
		return nil, fmt.Errorf("%s: %w", k.name, err)
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", k.name, fileformat.ErrFormat, err)
	}
	return m, nil
}
