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

// Read reads one frame. The end of r is io.EOF between two frames and io.ErrUnexpectedEOF within
// one; other errors of r are returned as they are. A frame that no process of this version sends
// gives an error that wraps fileformat.ErrChecksum or fileformat.ErrFormat, and a Hello or Welcome
// of another version one that wraps fileformat.ErrVersion. After an error the connection is of no
// more use, because nobody knows where the next frame begins.
//
// The message may share memory with the frame, which belongs to it alone.
func Read(r io.Reader) (Message, error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return nil, err
	}
	d := codec.NewDecoder(header[:])
	n, number, sum := d.U32(), d.U8(), d.U32()
	if int(number) >= len(kinds) || kinds[number].decode == nil {
		return nil, fmt.Errorf("%w: message of kind %d", fileformat.ErrFormat, number)
	}
	k := kinds[number]
	if n > uint32(k.limit) {
		return nil, fmt.Errorf("%s: %w: %d bytes, the limit is %d", k.name, fileformat.ErrFormat, n, k.limit)
	}
	payload, err := readPayload(r, int(n))
	if err != nil {
		return nil, err
	}
	if codec.CRC(header[:sumOffset], payload) != sum {
		return nil, fmt.Errorf("%s: %w", k.name, fileformat.ErrChecksum)
	}
	d = codec.NewDecoder(payload)
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

// chunk is the memory that a frame gets before any of its payload has arrived.
const chunk = 64 << 10

// readPayload reads n bytes. Its memory at most doubles with what has arrived, because the length
// alone is only a claim.
func readPayload(r io.Reader, n int) ([]byte, error) {
	b := make([]byte, 0, min(n, chunk))
	for len(b) < n {
		b = slices.Grow(b, min(max(len(b), 1), n-len(b)))
		end := min(cap(b), n)
		got, err := io.ReadFull(r, b[len(b):end])
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		b = b[:len(b)+got]
	}
	return b, nil
}
