package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/format"
)

// The library trusts the counts inside a file: a run of six bytes makes it allocate two gigabytes,
// and nested headers overflow its stack. So footer and pages are checked before it reads them. The
// limits leave room for what writers produce: pages of a megabyte, seldom of a hundred. For each
// column the library keeps the names of all groups around it: a million nested groups in six
// megabytes would take terabytes.
const (
	maxFooter    = 16 << 20
	maxNesting   = 32      // of structures in footers and headers
	maxDepth     = 64      // of nested columns
	maxColumns   = 1 << 16 // columns and groups of a schema
	maxPageCount = 4 << 20 // values of a page, beyond eight for each of its bytes
	maxRowCount  = 1 << 18 // values of a row in one column
	freeMemory   = 256 << 20
	expansion    = 32  // memory of the current pages for each byte of the file, beyond freeMemory
	padding      = 512 // values that the last run of a page may have too many
)

// plainDictionary is the number of an encoding that old writers use for indexes of a dictionary.
const plainDictionary format.Encoding = 2

var errCut = fmt.Errorf("structure is cut off: %w", io.ErrUnexpectedEOF)

// checkFooter checks the end of the file, where its structure is.
func checkFooter(r io.ReaderAt, size int64) error {
	var tail [8]byte
	if size < 12 {
		return errors.New("too short for Parquet")
	}
	if _, err := r.ReadAt(tail[:], size-8); err != nil {
		return err
	}
	n := int64(binary.LittleEndian.Uint32(tail[:]))
	switch {
	case string(tail[4:]) != parquetMagic:
		return fmt.Errorf("ends with %q instead of %s: it is cut off, encrypted or not Parquet", tail[4:], parquetMagic)
	case n > size-12:
		return fmt.Errorf("footer of %d bytes in a file of %d", n, size)
	case n > maxFooter:
		return fmt.Errorf("footer of %d bytes, limit %d", n, maxFooter)
	}
	b := make([]byte, n)
	if _, err := r.ReadAt(b, size-8-n); err != nil {
		return err
	}
	var tree schemaTree
	t := thriftReader{b: b, schema: &tree}
	err := t.structure(0, 0, nil)
	if err == nil {
		err = tree.complete()
	}
	if err != nil {
		return fmt.Errorf("footer: %w", err)
	}
	return nil
}

// A schemaTree checks the elements of a schema, which are its groups and columns, depth first.
type schemaTree struct {
	elements int
	open     []int64 // children that are still to come, of each group around the next element
}

// add adds an element with a number of children.
func (s *schemaTree) add(children int64) error {
	if s.elements++; s.elements > maxColumns {
		return fmt.Errorf("a schema of more than %d elements", maxColumns)
	}
	if s.elements > 1 {
		if len(s.open) == 0 {
			return errors.New("the schema has elements outside of its tree")
		}
		s.open[len(s.open)-1]--
	}
	if children < 0 {
		return fmt.Errorf("a schema element with %d children", children)
	}
	if s.open = append(s.open, children); len(s.open) > maxDepth {
		return fmt.Errorf("more than %d nested columns", maxDepth)
	}
	for len(s.open) > 0 && s.open[len(s.open)-1] == 0 {
		s.open = s.open[:len(s.open)-1]
	}
	return nil
}

func (s *schemaTree) complete() error {
	if s.elements == 0 || len(s.open) > 0 {
		return errors.New("the schema is cut off")
	}
	return nil
}

// A thriftReader passes over structures of Thrift's compact protocol, and collects integers.
type thriftReader struct {
	b      []byte
	at     int
	schema *schemaTree // of a footer: gets the elements of the list in field 2
}

func (t *thriftReader) byte() (byte, error) {
	if t.at >= len(t.b) {
		return 0, errCut
	}
	t.at++
	return t.b[t.at-1], nil
}

func (t *thriftReader) uvarint() (uint64, error) {
	u, n := binary.Uvarint(t.b[t.at:])
	if n < 0 {
		return 0, errors.New("integer too long")
	}
	if n == 0 {
		return 0, errCut
	}
	t.at += n
	return u, nil
}

func (t *thriftReader) skip(n uint64) error {
	if n > uint64(len(t.b)-t.at) {
		return errCut
	}
	t.at += int(n)
	return nil
}

// The types of the compact protocol.
const (
	thriftTrue = iota + 1
	thriftFalse
	thriftI8
	thriftI16
	thriftI32
	thriftI64
	thriftDouble
	thriftBinary
	thriftList
	thriftSet
	thriftMap
	thriftStruct
	thriftUUID
)

// structure passes over a structure. Integers and bools go to ints, if that is not nil, by the
// number of the field; those of a structure in field f have 100 f added.
func (t *thriftReader) structure(depth, prefix int, ints map[int]int64) error {
	if depth > maxNesting {
		return fmt.Errorf("more than %d nested structures", maxNesting)
	}
	id := int64(0)
	for {
		head, err := t.byte()
		if err != nil || head == 0 {
			return err
		}
		kind := head & 15
		if step := head >> 4; step > 0 {
			id += int64(step)
		} else {
			u, err := t.uvarint()
			if err != nil {
				return err
			}
			id = zigzag(u)
		}
		if id < 0 || id > math.MaxInt16 {
			return fmt.Errorf("field %d", id)
		}
		var value *int64
		if ints != nil && id < 100 && kind <= thriftI64 {
			key := prefix + int(id)
			if _, twice := ints[key]; twice {
				return fmt.Errorf("field %d is repeated", id)
			}
			value = new(int64)
			if err = t.value(kind, depth, value); err == nil && kind <= thriftFalse {
				*value = int64(thriftFalse - kind)
			}
			ints[key] = *value
		} else if t.schema != nil && depth == 0 && id == 2 {
			err = t.readSchema(kind)
		} else if ints != nil && depth == 0 && id < 100 && kind == thriftStruct {
			err = t.structure(depth+1, int(id)*100, ints)
		} else {
			err = t.value(kind, depth, nil)
		}
		if err != nil {
			return err
		}
	}
}

// readSchema passes over the schema in a footer.
func (t *thriftReader) readSchema(kind byte) error {
	if kind != thriftList {
		return errors.New("the schema is no list")
	}
	n, kind, err := t.listHead()
	if err == nil && kind != thriftStruct {
		err = errors.New("the schema is no list of structures")
	}
	if err == nil {
		err = t.fits(n, 1, kind)
	}
	for ; n > 0 && err == nil; n-- {
		ints := map[int]int64{}
		const children = 5 // field of a SchemaElement
		if err = t.structure(1, 0, ints); err == nil {
			err = t.schema.add(ints[children])
		}
	}
	return err
}

// listHead reads the number and the type of the elements of a list or a set.
func (t *thriftReader) listHead() (n uint64, kind byte, err error) {
	head, err := t.byte()
	n = uint64(head >> 4)
	if err == nil && n == 15 {
		n, err = t.uvarint()
	}
	return n, head & 15, err
}

// value passes over a value that is a field, so that a bool has no bytes.
func (t *thriftReader) value(kind byte, depth int, to *int64) error {
	switch kind {
	case thriftTrue, thriftFalse:
		return nil
	case thriftI8:
		return t.skip(1)
	case thriftI16, thriftI32, thriftI64:
		u, err := t.uvarint()
		if to != nil {
			*to = zigzag(u)
		}
		return err
	case thriftDouble:
		return t.skip(8)
	case thriftUUID:
		return t.skip(16)
	case thriftBinary:
		n, err := t.uvarint()
		if err != nil {
			return err
		}
		return t.skip(n)
	case thriftList, thriftSet:
		n, kind, err := t.listHead()
		if err != nil {
			return err
		}
		return t.elements(n, depth+1, kind)
	case thriftMap:
		n, err := t.uvarint()
		if err != nil || n == 0 {
			return err
		}
		kinds, err := t.byte()
		if err != nil {
			return err
		}
		return t.elements(n, depth+1, kinds>>4, kinds&15)
	case thriftStruct:
		return t.structure(depth+1, 0, nil)
	}
	return fmt.Errorf("type %d", kind)
}

// elements passes over n elements, each of which has values of the given types.
func (t *thriftReader) elements(n uint64, depth int, kinds ...byte) error {
	if err := t.fits(n, depth, kinds[0]); err != nil {
		return err
	}
	for range n {
		for _, kind := range kinds {
			if kind == thriftTrue || kind == thriftFalse {
				kind = thriftI8
			}
			if err := t.value(kind, depth, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// fits refuses a list that the remaining bytes cannot hold.
func (t *thriftReader) fits(n uint64, depth int, kind byte) error {
	least := uint64(1) // bytes of an element
	if kind == thriftStruct {
		least = 3 // the library allocates hundreds for each
	}
	if depth > maxNesting || n > uint64(len(t.b)-t.at)/least {
		return fmt.Errorf("a list of %d elements in %d bytes", n, len(t.b)-t.at)
	}
	return nil
}

func zigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// A pageChecker checks the pages of row groups.
type pageChecker struct {
	r       io.ReaderAt
	size    int64
	columns []*parquet.Column // the leaves
	page    []byte
	plain   []byte
	levels  []byte
}

// rowGroup checks the pages that a reader of the row group would decode.
func (c *pageChecker) rowGroup(g *format.RowGroup) error {
	if len(g.Columns) != len(c.columns) {
		return fmt.Errorf("%d columns, the schema has %d", len(g.Columns), len(c.columns))
	}
	var bytes, memory int64
	for i := range g.Columns {
		m := &g.Columns[i].MetaData
		start := m.DataPageOffset
		if m.DictionaryPageOffset != 0 {
			start = m.DictionaryPageOffset
		}
		if start < 0 || start > m.DataPageOffset || m.TotalCompressedSize < 0 || m.TotalCompressedSize > c.size-start {
			return fmt.Errorf("column %q: its pages are outside of the file", columnName(c.columns[i]))
		}
		if bytes += m.TotalCompressedSize; bytes > c.size {
			return errors.New("columns overlap")
		}
		need, err := c.chunk(c.columns[i], io.NewSectionReader(c.r, start, m.TotalCompressedSize))
		if err != nil {
			return fmt.Errorf("column %q: %w", columnName(c.columns[i]), err)
		}
		memory += need
	}
	if memory > freeMemory+expansion*bytes {
		return fmt.Errorf("pages of %d bytes would take %d", bytes, memory)
	}
	return nil
}

// chunk checks the pages of a column and returns the memory that the largest takes, with the
// dictionary.
func (c *pageChecker) chunk(col *parquet.Column, r *io.SectionReader) (memory int64, err error) {
	var largest, dictionary int64
	row := 0 // values of the row so far
	for at := int64(0); at < r.Size(); {
		h, n, err := c.header(r, at)
		if err != nil {
			return 0, fmt.Errorf("page header: %w", err)
		}
		at += n
		p := parquetPage{col: col, kind: format.PageType(h[1]), size: h[2]}
		stored := h[3]
		switch p.kind {
		case format.DataPage:
			p.count, p.encoding = h[501], format.Encoding(h[502])
		case format.DataPageV2:
			p.count, p.encoding, p.definitions, p.repetitions = h[801], format.Encoding(h[804]), h[805], h[806]
			is, given := h[807]
			p.plain = given && is == 0
		case format.DictionaryPage:
			p.count, p.encoding = h[701], format.Encoding(h[702])
		default:
			return 0, fmt.Errorf("page of kind %d", h[1])
		}
		switch {
		case stored < 0 || stored > r.Size()-at || p.size < 0 || p.count < 0:
			return 0, fmt.Errorf("page of %d bytes where %d are left", stored, r.Size()-at)
		case p.size > freeMemory+expansion*stored || p.count > maxPageCount+8*p.size:
			return 0, fmt.Errorf("page of %d bytes would take %d for %d values", stored, p.size, p.count)
		case p.definitions < 0 || p.repetitions < 0 || p.definitions+p.repetitions > min(stored, p.size):
			return 0, errors.New("levels are longer than their page")
		}
		if c.page = sized(c.page, stored); stored > 0 {
			if _, err := r.ReadAt(c.page, at); err != nil {
				return 0, err
			}
		}
		at += stored
		need, err := c.data(&p, &row)
		if err != nil {
			return 0, err
		}
		if p.kind == format.DictionaryPage {
			dictionary += need
		} else {
			largest = max(largest, need)
		}
	}
	return largest + dictionary, nil
}

// header reads the header of a page and its length.
func (c *pageChecker) header(r *io.SectionReader, at int64) (map[int]int64, int64, error) {
	for window := int64(512); ; window *= 8 {
		b := make([]byte, min(window, r.Size()-at))
		if _, err := r.ReadAt(b, at); err != nil && !errors.Is(err, io.EOF) {
			return nil, 0, err
		}
		t, ints := thriftReader{b: b}, map[int]int64{}
		err := t.structure(0, 0, ints)
		if err == nil {
			return ints, int64(t.at), nil
		}
		if int64(len(b)) == r.Size()-at || window > maxFooter {
			return nil, 0, err
		}
	}
}

// A parquetPage is what the header of a page says.
type parquetPage struct {
	col                      *parquet.Column
	kind                     format.PageType
	encoding                 format.Encoding
	size, count              int64 // bytes when decompressed; values
	definitions, repetitions int64 // bytes of the levels in version 2
	plain                    bool  // version 2, not compressed
}

// data checks the content of the page in c.page and returns the memory that it takes.
func (c *pageChecker) data(p *parquetPage, row *int) (memory int64, err error) {
	b := c.page
	var repetitions, definitions []byte
	if p.kind == format.DataPageV2 {
		repetitions, b = b[:p.repetitions], b[p.repetitions:]
		definitions, b = b[:p.definitions], b[p.definitions:]
	}
	if codec := p.col.Compression(); codec != nil && codec.CompressionCodec() != format.Uncompressed && !p.plain {
		size := p.size - p.definitions - p.repetitions
		if len(b) == 0 && size == 0 {
			return 0, nil
		}
		c.plain = sized(c.plain, size)
		if err := decompress(codec.CompressionCodec(), c.plain, b); err != nil {
			return 0, fmt.Errorf("decompress a page: %w", err)
		}
		b = c.plain
	}
	maxRep, maxDef := p.col.MaxRepetitionLevel(), p.col.MaxDefinitionLevel()
	if p.kind == format.DataPage {
		if maxRep > 0 {
			if repetitions, b, err = prefixed(b); err != nil {
				return 0, err
			}
		}
		if maxDef > 0 {
			if definitions, b, err = prefixed(b); err != nil {
				return 0, err
			}
		}
	}
	if p.kind != format.DictionaryPage {
		if maxDef > 0 {
			if err := c.level(definitions, maxDef, p.count); err != nil {
				return 0, err
			}
		}
		if maxRep > 0 {
			if err := c.level(repetitions, maxRep, p.count); err != nil {
				return 0, err
			}
			for _, level := range c.levels[:min(len(c.levels), int(p.count))] {
				if *row++; level == 0 {
					*row = 1
				}
				if *row > maxRowCount {
					return 0, fmt.Errorf("a row has more than %d values", maxRowCount)
				}
			}
		}
	}
	const each = 10 // bytes: levels, and an index or an offset
	size, err := p.values(b)
	return int64(len(c.page)) + p.size + size + each*p.count, err
}

// decompress fills dst, and fails if src holds more or less. The codecs of the library would
// allocate whatever src claims to hold.
func decompress(codec format.CompressionCodec, dst, src []byte) error {
	var r io.Reader
	switch codec {
	case format.Snappy:
		n, err := snappy.DecodedLen(src)
		if err == nil && n != len(dst) {
			err = fmt.Errorf("%d bytes instead of %d", n, len(dst))
		}
		if err == nil {
			_, err = snappy.Decode(dst, src)
		}
		return err
	case format.Gzip:
		z, err := gzip.NewReader(bytes.NewReader(src))
		if err != nil {
			return err
		}
		r = z
	case format.Brotli:
		r = brotli.NewReader(bytes.NewReader(src))
	case format.Zstd:
		z, err := zstd.NewReader(bytes.NewReader(src),
			zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return err
		}
		defer z.Close()
		r = z
	default: // unknown; of the known ones, unreadable has refused the rest
		return fmt.Errorf("codec %v is not read", codec)
	}
	if _, err := io.ReadFull(r, dst); err != nil {
		return err
	}
	var more [1]byte
	if n, err := io.ReadFull(r, more[:]); n > 0 || !errors.Is(err, io.EOF) {
		return fmt.Errorf("more than %d bytes, or a damaged end", len(dst))
	}
	return nil
}

// level checks and decodes levels.
func (c *pageChecker) level(b []byte, most int, count int64) (err error) {
	width := uint(0)
	for most>>width > 0 {
		width++
	}
	if err = runs(b, width, count); err == nil {
		c.levels, err = (&rle.Encoding{BitWidth: int(width)}).DecodeLevels(c.levels[:0], b)
	}
	if err == nil && int64(len(c.levels)) < count {
		err = fmt.Errorf("%d levels for %d values", len(c.levels), count)
	}
	return err
}

// values checks the counts inside encoded values and returns the bytes that they take beyond the
// size of the page.
func (p *parquetPage) values(b []byte) (size int64, err error) {
	if p.kind == format.DictionaryPage && p.count > 8*p.size {
		return 0, fmt.Errorf("a dictionary of %d values in %d bytes", p.count, p.size)
	}
	switch p.encoding {
	case plainDictionary, format.RLEDictionary:
		if p.kind == format.DictionaryPage || len(b) == 0 {
			return 0, nil // plain values, or all are null
		}
		if b[0] > 32 {
			return 0, fmt.Errorf("indexes of %d bits", b[0])
		}
		return 0, runs(b[1:], uint(b[0]), p.count)
	case format.RLE:
		if b, _, err = prefixed(b); err != nil {
			return 0, err
		}
		return 0, runs(b, 1, p.count)
	case format.DeltaBinaryPacked:
		_, _, err = packed(b, p.count)
		return 0, err
	case format.DeltaLengthByteArray, format.DeltaByteArray:
		sum, rest, err := lengths(b, p.count)
		if err == nil && p.encoding == format.DeltaByteArray {
			// A value is a part of the last one and a suffix: short pages may give long texts.
			size = sum
			sum, rest, err = lengths(rest, p.count)
		}
		switch {
		case err != nil:
			return 0, err
		case sum > int64(len(rest)):
			return 0, fmt.Errorf("texts of %d bytes where %d are left", sum, len(rest))
		case size > freeMemory+expansion*int64(len(b)):
			return 0, fmt.Errorf("page of %d bytes would take %d", len(b), size)
		}
		return size, nil
	}
	return 0, nil
}

// lengths returns the sum of packed lengths, and what follows them.
func lengths(b []byte, count int64) (sum int64, rest []byte, err error) {
	n, rest, err := packed(b, count)
	if err != nil || n == 0 {
		return 0, rest, err
	}
	values, err := new(delta.BinaryPackedEncoding).DecodeInt32(nil, b[:len(b)-len(rest)])
	for _, v := range values {
		if v < 0 {
			return 0, nil, fmt.Errorf("a text of %d bytes", v)
		}
		sum += int64(v)
	}
	return sum, rest, err
}

// packed checks values in the encoding DELTA_BINARY_PACKED and returns their number and what
// follows them.
func packed(b []byte, count int64) (n int64, rest []byte, err error) {
	t := thriftReader{b: b}
	var head [4]uint64 // values of a block, miniblocks of a block, values, the first
	for i := range head {
		if head[i], err = t.uvarint(); err != nil {
			return 0, nil, err
		}
	}
	block, minis := head[0], head[1]
	if block == 0 || block > 1<<16 || minis == 0 || minis > block || block%minis != 0 ||
		head[2] > uint64(count) {
		return 0, nil, fmt.Errorf("%d packed values instead of %d, in blocks of %d and %d",
			head[2], count, block, minis)
	}
	n = int64(head[2])
	each := block / minis
	for left := n - 1; left > 0; {
		if _, err := t.uvarint(); err != nil {
			return 0, nil, err
		}
		widths := t.at
		if err := t.skip(minis); err != nil {
			return 0, nil, err
		}
		for i := 0; i < int(minis) && left > 0; i++ {
			width := uint64(b[widths+i])
			if width > 64 {
				return 0, nil, fmt.Errorf("packed values of %d bits", width)
			}
			if err := t.skip(each * width / 8); err != nil {
				return 0, nil, err
			}
			left -= int64(each)
		}
	}
	return n, b[t.at:], nil
}

// runs checks that runs and packed values of the given width are as many as the page has.
func runs(b []byte, width uint, count int64) error {
	t := thriftReader{b: b}
	for n := int64(0); t.at < len(b); {
		u, err := t.uvarint()
		if err != nil {
			return err
		}
		if u>>1 > math.MaxInt32 {
			return fmt.Errorf("a run of %d values", u>>1)
		}
		values, bytes := int64(u>>1), uint64(width+7)/8
		if u&1 != 0 {
			values, bytes = 8*values, uint64(values)*uint64(width)
		}
		if n += values; n > count+padding {
			return fmt.Errorf("runs of %d values in a page of %d", n, count)
		}
		if err := t.skip(bytes); err != nil {
			return err
		}
	}
	return nil
}

// prefixed divides b after the part whose length it begins with.
func prefixed(b []byte) (part, rest []byte, err error) {
	if len(b) < 4 || int64(binary.LittleEndian.Uint32(b)) > int64(len(b)-4) {
		return nil, nil, errCut
	}
	n := 4 + int(binary.LittleEndian.Uint32(b))
	return b[4:n], b[n:], nil
}

func sized(b []byte, n int64) []byte {
	if int64(cap(b)) < n {
		return make([]byte, n)
	}
	return b[:n]
}
