package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// These constants are part of the file format (docs/format/wal.md) and must never change.
const (
	fileMagic  = "VECBOLTW"
	version    = 2
	unpaged    = 1 // the version before, whose groups are aligned to sectors
	headerSize = fileformat.HeaderSize

	frameMagic = 0x4d415246 // "FRAM"
	frameSize  = 40
	frameCRC   = 36 // offset of the frame header's checksum
	frameAlign = 8
	flagLast   = 1 // last frame of its group

	// groupAlign is the alignment of groups: a disk that loses power in a write may destroy the
	// whole physical sector, of up to 4096 bytes, also where it takes writes of 512. No sector that
	// a group is written to holds an earlier one.
	groupAlign = 4096
	sector     = 512 // the alignment of version 1

	maxFile = 1 << 32 // bytes
)

// MaxRecord is the largest payload of a record in bytes.
const MaxRecord = 1 << 30

// le is the byte order of everything on disk.
var le = binary.LittleEndian

// fileHeader is the content of a file's first 4 KiB.
type fileHeader struct {
	db   [16]byte
	seq  uint64 // number in the file's name
	base uint64 // LSN of the file's first record
	size uint64 // bytes of the whole file
	salt uint32 // seed of the checksums of this file's frames
	crc  uint32 // of the header; the first frame chains to it

	align int64 // of groups, by the version
}

// encode returns the header as 4 KiB and sets h.crc.
func (h *fileHeader) encode() []byte { return h.encodeAs(version) }

func (h *fileHeader) encodeAs(version uint32) []byte {
	e := fileformat.NewHeader(fileMagic, version)
	e.U32(0)
	e.Raw(h.db[:])
	e.U64(h.seq)
	e.U64(h.base)
	e.U64(h.size)
	e.U32(h.salt)
	b := fileformat.SealHeader(e)
	h.crc = le.Uint32(b[fileformat.HeaderCRC:])
	return b
}

var errNotHeader = errors.New("file header is damaged")

// decodeHeader checks a header of 4 KiB by itself, not against the file's name or size.
func decodeHeader(b []byte) (h fileHeader, err error) {
	v, _, _, err := fileformat.OpenHeader(fileMagic, b)
	if err != nil {
		return h, errNotHeader
	}
	if v != version && v != unpaged {
		return h, fmt.Errorf("%w %d", fileformat.ErrVersion, v)
	}
	if h = headerFields(b); h.base == 0 || h.size < headerSize || h.size > maxFile {
		return h, errNotHeader
	}
	return h, nil
}

// headerFields decodes a header without a look at its checksum.
func headerFields(b []byte) (h fileHeader) {
	copy(h.db[:], b[16:])
	h.seq = le.Uint64(b[32:])
	h.base = le.Uint64(b[40:])
	h.size = le.Uint64(b[48:])
	h.salt = le.Uint32(b[56:])
	h.crc = le.Uint32(b[fileformat.HeaderCRC:])
	h.align = groupAlign
	if le.Uint32(b[8:]) == unpaged {
		h.align = sector
	}
	return h
}

// remakeHeader makes the lost header of a file again. The first frame, whose header is given, has
// the LSN that the file begins with, and the salt follows from its checksum. The frame also has the
// checksum of the lost header: ok says that the new one has the same.
func remakeHeader(frame []byte, db [16]byte, seq uint64, size int64) (h fileHeader, ok bool) {
	salt := seedOf(frame[:frameCRC], le.Uint32(frame[frameCRC:]))
	first, ok := decodeFrame(frame, salt)
	if !ok || first.lsn == 0 || size > maxFile {
		return h, false
	}
	h = fileHeader{db: db, seq: seq, base: first.lsn, size: uint64(size), salt: salt, align: groupAlign}
	if h.encodeAs(version); h.crc == first.prev {
		return h, true
	}
	h.align = sector
	h.encodeAs(unpaged)
	return h, h.crc == first.prev
}

// seedOf returns the checksum that codec.Update extended by b to crc.
func seedOf(b []byte, crc uint32) uint32 {
	crc = ^crc
	for i := len(b) - 1; i >= 0; i-- {
		// A step looks up the low byte and shifts it out. The high bytes of the entries differ.
		at := slices.IndexFunc(codec.Castagnoli[:], func(entry uint32) bool { return entry>>24 == crc>>24 })
		crc = (crc^codec.Castagnoli[at])<<8 | uint32(at) ^ uint32(b[i])
	}
	return ^crc
}

// frameHeader precedes every payload.
type frameHeader struct {
	length  uint32 // of the payload
	lsn     uint64
	durable uint64 // the log was durable up to this LSN when the frame was written
	prev    uint32 // crc of the frame before, of the file header for the first frame
	payload uint32 // checksum of the payload, seeded with the salt
	flags   uint32
	crc     uint32 // of this header, seeded with the salt
}

// encode fills b, of frameSize bytes, and sets h.crc.
func (h *frameHeader) encode(b []byte, salt uint32) {
	le.PutUint32(b, frameMagic)
	le.PutUint32(b[4:], h.length)
	le.PutUint64(b[8:], h.lsn)
	le.PutUint64(b[16:], h.durable)
	le.PutUint32(b[24:], h.prev)
	le.PutUint32(b[28:], h.payload)
	le.PutUint32(b[32:], h.flags)
	h.crc = codec.Update(salt, b[:frameCRC])
	le.PutUint32(b[frameCRC:], h.crc)
}

// decodeFrame reads a frame header; ok is false unless it belongs to a file with this salt. It
// needs no context, so that frames behind a damaged one can be found.
func decodeFrame(b []byte, salt uint32) (h frameHeader, ok bool) {
	if le.Uint32(b) != frameMagic {
		return h, false
	}
	h = frameHeader{
		length:  le.Uint32(b[4:]),
		lsn:     le.Uint64(b[8:]),
		durable: le.Uint64(b[16:]),
		prev:    le.Uint32(b[24:]),
		payload: le.Uint32(b[28:]),
		flags:   le.Uint32(b[32:]),
		crc:     le.Uint32(b[frameCRC:]),
	}
	return h, codec.Update(salt, b[:frameCRC]) == h.crc
}

// end returns where the frame that begins at off ends, padding included; align is the alignment of
// groups.
func (h *frameHeader) end(off, align int64) int64 {
	to := int64(frameAlign)
	if h.flags&flagLast != 0 {
		to = align
	}
	return roundUp(off+frameSize+int64(h.length), to)
}

func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }
