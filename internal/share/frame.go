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

// errTooLarge is returned for a message that does not fit into a frame. Nothing of it was sent.
var errTooLarge = errors.New("message too large")

// Append appends the frame of m to b. On error it returns b unchanged: an error that matches
// document.ErrInvalid is the one that the leader would give for the same write, errTooLarge is for
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
		return b, fmt.Errorf("%s: %w: %d bytes, the limit is %d", k.name, errTooLarge, n, k.limit)
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

// Read reads one frame, and nothing behind it: see reader.next.
func Read(in io.Reader) (Message, error) { return (&reader{in: in}).next() }

// A reader reads the frames of a connection.
type reader struct {
	in     io.Reader
	ahead  bool // it may read beyond a frame
	reuses bool // a message has its memory until the next one only
	piece  []byte
	start  int // piece[start:end] has arrived and is not taken
	end    int
	begun  bool // the header was taken, the payload was not
	header [headerSize]byte
	kind   kind
	size   int    // of the payload
	large  []byte // of a payload that is too large for a piece: its bytes that were taken
}

const (
	// pieceBytes is the size of the memory into which frames are read, one behind the other.
	pieceBytes = 64 << 10
	// tightBytes is the room in it below which reading goes on elsewhere.
	tightBytes = 4 << 10
)

// newReader returns a reader that takes much from in at once. If it reuses memory, the memory of a
// message belongs to it only until the next call of next.
func newReader(in io.Reader, reuses bool) *reader {
	return &reader{in: in, ahead: true, reuses: reuses}
}

// next returns the next message. The end of the connection is io.EOF between two frames and
// io.ErrUnexpectedEOF within one. Other errors of the connection are returned as they are; after
// one that does not end it, such as a deadline, next goes on where it was. A frame that no process
// of this version sends gives an error that wraps fileformat.ErrChecksum or fileformat.ErrFormat,
// and a Hello or Welcome of another version one that wraps fileformat.ErrVersion. After these the
// connection is of no more use, because nobody knows where the next frame begins.
//
// The message may share memory with the frame.
func (r *reader) next() (Message, error) {
	if !r.begun {
		if err := r.fill(headerSize); err != nil {
			return nil, err
		}
		copy(r.header[:], r.take(headerSize))
		if err := r.begin(); err != nil {
			return nil, err
		}
	}
	payload, err := r.payload()
	if err != nil {
		return nil, err
	}
	r.begun, r.large = false, nil
	return decode(r.kind, r.header[:], payload)
}

// payload returns the payload of the frame that has begun, once it has arrived.
func (r *reader) payload() ([]byte, error) {
	if r.size <= pieceBytes {
		if err := r.fill(r.size); err != nil {
			return nil, err
		}
		return r.take(r.size), nil
	}
	// Memory at most doubles with what has arrived, because the length alone is only a claim.
	for len(r.large) < r.size {
		r.large = slices.Grow(r.large, min(max(len(r.large), 1), r.size-len(r.large)))
		rest := r.large[len(r.large):min(cap(r.large), r.size)]
		n, err := copy(rest, r.piece[r.start:r.end]), error(nil)
		if r.start += n; n == 0 {
			n, err = r.in.Read(rest)
		}
		if r.large = r.large[:len(r.large)+n]; n == 0 && err != nil {
			return nil, r.ended(err)
		}
	}
	return r.large, nil
}

// fill reads until n bytes have arrived that are not taken.
func (r *reader) fill(n int) error {
	for r.end-r.start < n {
		r.room(n)
		into := r.piece[r.end:]
		if !r.ahead {
			into = r.piece[r.end : r.start+n]
		}
		got, err := r.in.Read(into)
		if r.end += got; got == 0 && err != nil {
			return r.ended(err)
		}
	}
	return nil
}

// room makes room for the first n bytes that are not taken.
func (r *reader) room(n int) {
	room := len(r.piece) - r.start
	if room >= n && (room >= tightBytes || r.end > r.start || !r.ahead) {
		return
	}
	piece := r.piece
	if !r.reuses || piece == nil {
		size := n
		if r.ahead {
			size = pieceBytes
		}
		piece = make([]byte, size)
	}
	r.end = copy(piece, r.piece[r.start:r.end])
	r.piece, r.start = piece, 0
}

// take takes n bytes that have arrived.
func (r *reader) take(n int) []byte {
	b := r.piece[r.start : r.start+n : r.start+n]
	r.start += n
	return b
}

// ended returns the error of next for one of the connection.
func (r *reader) ended(err error) error {
	if err == io.EOF && (r.begun || r.end > r.start) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// begin looks at a whole header.
func (r *reader) begin() error {
	d := codec.NewDecoder(r.header[:])
	n, number := d.U32(), d.U8()
	if int(number) >= len(kinds) || kinds[number].decode == nil {
		return fmt.Errorf("%w: message of kind %d", fileformat.ErrFormat, number)
	}
	r.kind = kinds[number]
	if n > uint32(r.kind.limit) {
		return fmt.Errorf("%s: %w: %d bytes, the limit is %d", r.kind.name, fileformat.ErrFormat, n, r.kind.limit)
	}
	r.begun, r.size = true, int(n)
	if r.size > pieceBytes {
		r.large = make([]byte, 0, pieceBytes)
	}
	return nil
}

// ready reports whether the next message has arrived.
func (r *reader) ready() bool {
	arrived := r.piece[r.start:r.end]
	if r.begun {
		return len(r.large)+len(arrived) >= r.size
	}
	return len(arrived) >= headerSize && len(arrived)-headerSize >= int(binary.LittleEndian.Uint32(arrived))
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
