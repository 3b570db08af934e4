package meta

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/bits"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/segment"
)

// Constants of the file format (docs/format/meta.md). They never change for version 2.
const (
	magic   = "VECBOLTM"
	version = 2
	// oldest is the oldest supported version. Its segments have no digest of documents: see
	// Tx.Upgrade.
	oldest = 1

	valueVersion  = 1 // first byte of every value
	valueOverhead = 5 // the version and, at the end, the checksum

	// Tags identify buckets in checksums.
	tagSystem      = 1
	tagCollections = 2
	tagDocuments   = 3
	tagIDs         = 4
	tagHistory     = 5
	tagPurge       = 6
	tagSegments    = 7
	tagDead        = 8

	chunkWords  = 512 // of a chunk of dead rows: 32768 rows
	chunkRows   = 64 * chunkWords
	chunkList   = 0 // form of a chunk: row numbers
	chunkBitmap = 1 // form of a chunk: bits

	// Constants of meta.sums (docs/format/sums.md).
	sumsMagic   = "VECBOLTS"
	sumsVersion = 1
	sumsHeader  = 44

	golden = 0x9e3779b97f4a7c15 // 2^64 over the golden ratio
)

// maxID is the maximum length of an id in bytes.
const maxID = 16384

// bucketNames are the names of buckets by tag. Documents and ids have one bucket per collection,
// named by bucketName.
var bucketNames = [...]string{tagSystem: "system", tagCollections: "collections",
	tagDocuments: "documents", tagIDs: "ids",
	tagHistory: "history", tagPurge: "purge", tagSegments: "segments", tagDead: "dead"}

// globalTags are the buckets that exist once. The State record keeps their tallies in this order.
var globalTags = [...]uint8{tagCollections, tagHistory, tagPurge, tagSegments, tagDead}

var (
	keyFormat = []byte("format")
	keyState  = []byte("state")
)

// appendBucketName appends "documents/0000002a" for the documents of collection 42.
func appendBucketName(b []byte, tag uint8, coll uint32) []byte {
	b = append(b, bucketNames[tag]...)
	if tag == tagDocuments || tag == tagIDs {
		b = append(b, '/')
		b = hex.AppendEncode(b, appendU32(nil, coll))
	}
	return b
}

func bucketName(tag uint8, coll uint32) string { return string(appendBucketName(nil, tag, coll)) }

// seedOf returns the initial value for the checksums of a bucket's values. It identifies the
// bucket.
func seedOf(tag uint8, coll uint32) uint32 {
	return codec.CRC(binary.LittleEndian.AppendUint32([]byte{tag}, coll))
}

// appendValue appends the stored form of payload under key.
func appendValue(dst []byte, seed uint32, key, payload []byte) []byte {
	start := len(dst)
	dst = append(append(dst, valueVersion), payload...)
	return binary.LittleEndian.AppendUint32(dst, codec.Update(codec.Update(seed, key), dst[start:]))
}

// payloadOf verifies a stored value and returns its payload.
func payloadOf(seed uint32, key, value []byte) ([]byte, error) {
	if len(value) < valueOverhead {
		return nil, fmt.Errorf("%w: value of %d bytes", fileformat.ErrFormat, len(value))
	}
	end := len(value) - 4
	if codec.Update(codec.Update(seed, key), value[:end]) != sumOf(value) {
		return nil, fileformat.ErrChecksum
	}
	if value[0] != valueVersion {
		return nil, fmt.Errorf("%w: version %d of a value", fileformat.ErrVersion, value[0])
	}
	return value[1:end:end], nil
}

// sumOf returns the checksum at the end of a stored value, without verifying it; 0 if the value is
// too short.
func sumOf(value []byte) uint32 {
	if len(value) < valueOverhead {
		return 0
	}
	return binary.LittleEndian.Uint32(value[len(value)-4:])
}

// A tally is the number of records in a bucket and a sum over them, modulo 2^128, of a mix of key
// and checksum. Adding and removing a record are cheap, and the tally reveals records that vanished
// or appeared outside of a transaction.
type tally struct {
	count  uint64
	digest [2]uint64 // low, high
}

func (t *tally) add(key, value []byte) {
	lo, hi := mix(key, sumOf(value))
	var carry uint64
	t.digest[0], carry = bits.Add64(t.digest[0], lo, 0)
	t.digest[1], _ = bits.Add64(t.digest[1], hi, carry)
	t.count++
}

func (t *tally) remove(key, value []byte) {
	lo, hi := mix(key, sumOf(value))
	var borrow uint64
	t.digest[0], borrow = bits.Sub64(t.digest[0], lo, 0)
	t.digest[1], _ = bits.Sub64(t.digest[1], hi, borrow)
	t.count--
}

// mix returns the two halves of a record's term in the digest: h is the FNV-1a hash of the key.
func mix(key []byte, crc uint32) (lo, hi uint64) {
	h := uint64(14695981039346656037)
	for _, b := range key {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return finalize(h ^ uint64(crc)), finalize(h + golden*uint64(crc))
}

// finalize is the output function of SplitMix64 (Steele, Lea, Flood 2014; constants of Stafford's
// Mix13).
func finalize(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

func (t *tally) encode(e *codec.Encoder) {
	e.U64(t.count)
	e.U64(t.digest[0])
	e.U64(t.digest[1])
}

func decodeTally(d *codec.Decoder) tally {
	return tally{d.U64(), [2]uint64{d.U64(), d.U64()}}
}

// finish returns the error of a decoder, or an error if input is left.
func finish(d *codec.Decoder) error {
	if n := d.Len(); n > 0 {
		d.Fail(fmt.Errorf("%w: %d bytes too many", fileformat.ErrFormat, n))
	}
	return d.Err()
}

func encodeFormat() []byte {
	var e codec.Encoder
	e.Raw([]byte(magic))
	e.U32(version)
	return e.B
}

// decodeFormat returns the version of the file.
func decodeFormat(b []byte) (v uint32, err error) {
	d := codec.NewDecoder(b)
	m := d.Raw(len(magic))
	v = d.U32()
	switch {
	case string(m) != magic:
		return 0, fmt.Errorf("%w: magic %q", fileformat.ErrFormat, m)
	case d.Err() == nil && (v < oldest || v > version):
		return 0, fmt.Errorf("%w %d", fileformat.ErrVersion, v)
	}
	return v, finish(d)
}

// State is the record of the database as a whole.
type State struct {
	DB             [16]byte // identity, chosen at creation
	Applied        uint64   // the last LSN whose effects are in this store and the segments it names
	NextDoc        uint64   // document numbers from here on are unused
	NextSegment    uint64   // segment numbers from here on are unused
	NextCollection uint32   // collection numbers from here on are unused
	Obsolete       []uint64 // unreferenced segments whose files must stay for now
}

// encodeState returns the record of s and the tallies of the global buckets.
func encodeState(s *State, tallies *[len(globalTags)]tally) []byte {
	var e codec.Encoder
	e.Raw(s.DB[:])
	e.U64(s.Applied)
	e.U64(s.NextDoc)
	e.U64(s.NextSegment)
	e.U32(s.NextCollection)
	for i := range tallies {
		tallies[i].encode(&e)
	}
	e.Uvarint(uint64(len(s.Obsolete)))
	for _, id := range s.Obsolete {
		e.U64(id)
	}
	return e.B
}

func decodeState(b []byte) (s State, tallies [len(globalTags)]tally, err error) {
	d := codec.NewDecoder(b)
	copy(s.DB[:], d.Raw(len(s.DB)))
	s.Applied, s.NextDoc, s.NextSegment, s.NextCollection = d.U64(), d.U64(), d.U64(), d.U32()
	for i := range tallies {
		tallies[i] = decodeTally(d)
	}
	if n := d.Count(8); n > 0 {
		s.Obsolete = make([]uint64, n)
		for i := range s.Obsolete {
			s.Obsolete[i] = d.U64()
		}
	}
	return s, tallies, finish(d)
}

// Collection is the record of a collection. Digests are sums modulo 2^128, low half first, over its
// documents and over its ids: equal contents have equal digests.
type Collection struct {
	ID                  uint32
	Name                string
	Schema              []byte // opaque
	Documents, IDs      uint64 // numbers of records
	DocDigest, IDDigest [2]uint64
}

func (c *Collection) encode() []byte {
	var e codec.Encoder
	e.String(c.Name)
	e.Bytes(c.Schema)
	(&tally{c.Documents, c.DocDigest}).encode(&e)
	(&tally{c.IDs, c.IDDigest}).encode(&e)
	return e.B
}

// decodeCollection copies the parts of b that it returns.
func decodeCollection(id uint32, b []byte) (Collection, error) {
	d := codec.NewDecoder(b)
	c := Collection{ID: id, Name: d.String()}
	c.Schema = append(c.Schema, d.Bytes()...)
	docs, ids := decodeTally(d), decodeTally(d)
	c.Documents, c.DocDigest = docs.count, docs.digest
	c.IDs, c.IDDigest = ids.count, ids.digest
	return c, finish(d)
}

func encodeSegment(info *segment.Info) []byte {
	var e codec.Encoder
	e.U32(info.Collection)
	e.U32(uint32(info.Dim))
	e.U32(uint32(info.Rows))
	e.U64(uint64(info.Size))
	e.U32(info.CRC)
	e.U64(info.MinDoc)
	e.U64(info.MaxDoc)
	e.U32(math.Float32bits(info.MaxNorm))
	if info.Docs != [16]byte{} { // version 1 has no digest
		e.Raw(info.Docs[:])
	}
	return e.B
}

func decodeSegment(id uint64, b []byte) (segment.Info, error) {
	d := codec.NewDecoder(b)
	info := segment.Info{ID: id, Collection: d.U32()}
	dim, rows, size := d.U32(), d.U32(), d.U64()
	info.CRC, info.MinDoc, info.MaxDoc = d.U32(), d.U64(), d.U64()
	info.MaxNorm = math.Float32frombits(d.U32())
	if d.Len() > 0 {
		copy(info.Docs[:], d.Raw(len(info.Docs)))
	}
	// Compare before the conversion to int, which has 32 bits on some machines.
	if dim > segment.MaxDim || rows > segment.MaxRows || size > math.MaxInt64 {
		d.Fail(fmt.Errorf("%w: dimension %d, %d rows, %d bytes", fileformat.ErrFormat, dim, rows, size))
	}
	info.Dim, info.Rows, info.Size = int(dim), int(rows), int64(size)
	return info, finish(d)
}

// encodeChunk returns the shorter form of a chunk of dead rows, or nil for an empty chunk.
func encodeChunk(words []uint64) []byte {
	n := 0
	for _, w := range words {
		n += bits.OnesCount64(w)
	}
	if n == 0 {
		return nil
	}
	var e codec.Encoder
	if 2*n >= 8*chunkWords {
		e.U8(chunkBitmap)
		for i := range chunkWords {
			var w uint64
			if i < len(words) {
				w = words[i]
			}
			e.U64(w)
		}
		return e.B
	}
	e.U8(chunkList)
	for i, w := range words {
		for ; w != 0; w &= w - 1 {
			e.U16(uint16(64*i + bits.TrailingZeros64(w)))
		}
	}
	return e.B
}

func decodeChunk(b []byte) ([]uint64, error) {
	words := make([]uint64, chunkWords)
	d := codec.NewDecoder(b)
	switch form := d.U8(); form {
	case chunkBitmap:
		for i := range words {
			words[i] = d.U64()
		}
	case chunkList:
		for d.Len() > 0 {
			row := d.U16()
			if row >= chunkRows {
				d.Fail(fmt.Errorf("%w: row %d of a chunk", fileformat.ErrFormat, row))
				break
			}
			words[row/64] |= 1 << (row % 64)
		}
	default:
		d.Fail(fmt.Errorf("%w: form %d of a chunk", fileformat.ErrFormat, form))
	}
	return words, finish(d)
}

// Keys. Numbers are big-endian, so that keys sort by number.

func appendU32(b []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(b, v) }
func appendU64(b []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(b, v) }

// appendOwner appends the prefix of the history keys of an id. No owner is a prefix of another.
func appendOwner(b []byte, coll uint32, id string) []byte {
	b = appendU32(b, coll)
	b = binary.BigEndian.AppendUint16(b, uint16(len(id)))
	return append(b, id...)
}

// validOwner reports whether b has the form of appendOwner.
func validOwner(b []byte) bool {
	return len(b) > 6 && len(b)-6 == int(binary.BigEndian.Uint16(b[4:]))
}

// number decodes a payload of one u64.
func number(b []byte) (uint64, error) {
	d := codec.NewDecoder(b)
	v := d.U64()
	return v, finish(d)
}

// showKey formats a key for error messages.
func showKey(tag uint8, key []byte) string {
	switch {
	case tag == tagDocuments && len(key) == 8 || tag == tagSegments && len(key) == 8:
		return fmt.Sprint(binary.BigEndian.Uint64(key))
	case tag == tagCollections && len(key) == 4:
		return fmt.Sprint(binary.BigEndian.Uint32(key))
	case tag == tagDead && len(key) == 12:
		return fmt.Sprintf("%d/%d", binary.BigEndian.Uint64(key), binary.BigEndian.Uint32(key[8:]))
	}
	return fmt.Sprintf("%q", key)
}
