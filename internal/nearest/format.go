package nearest

import (
	"encoding/binary"
	"fmt"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// Constants of the file format (docs/format/recall.md). They never change for version 1.
const (
	tallyMagic   = "VECBOLTR"
	tallyVersion = 1
	tallySize    = 48                      // bytes of a tally
	graphSize    = 8 + 3*4 + 8 + tallySize // bytes of a graphRecord
	targetSize   = 4 + 8 + tallySize       // bytes of a targetRecord
	tallyLimit   = 64 << 20                // bytes of a file that is read
)

// records are the content of the file.
type records struct {
	db      [16]byte
	graphs  []graphRecord
	targets []targetRecord
}

// A graphRecord is what probes have shown about the graph of a segment.
type graphRecord struct {
	segment uint64
	crc     uint32 // in the header of the segment's file
	coll    uint32
	raised  int32 // number of times that the beam width was raised
	graphTally
}

// A targetRecord is the recall of probes of a collection with one target.
type targetRecord struct {
	coll   uint32
	target float64
	Tally
}

func (r *records) encode() []byte {
	e := &codec.Encoder{}
	e.Raw([]byte(tallyMagic))
	e.U32(tallyVersion)
	e.Raw(r.db[:])
	e.U32(uint32(len(r.graphs)))
	e.U32(uint32(len(r.targets)))
	for i := range r.graphs {
		g := &r.graphs[i]
		e.U64(g.segment)
		e.U32(g.crc)
		e.U32(g.coll)
		e.U32(uint32(g.raised))
		e.F64(g.promised)
		g.encode(e)
	}
	for i := range r.targets {
		t := &r.targets[i]
		e.U32(t.coll)
		e.F64(t.target)
		t.encode(e)
	}
	e.U32(codec.CRC(e.B))
	return e.B
}

// decodeRecords reads the content of a file. Its checksum is compared first.
func decodeRecords(b []byte) (*records, error) {
	end := len(b) - 4
	if end < 0 || codec.CRC(b[:end]) != binary.LittleEndian.Uint32(b[end:]) {
		return nil, fileformat.ErrChecksum
	}
	d := codec.NewDecoder(b[:end])
	r := &records{}
	magic, version := string(d.Raw(len(tallyMagic))), d.U32()
	copy(r.db[:], d.Raw(len(r.db)))
	graphs, targets := uint64(d.U32()), uint64(d.U32())
	switch {
	case magic != tallyMagic:
		return nil, fmt.Errorf("%w: magic %q", fileformat.ErrFormat, magic)
	case version != tallyVersion:
		return nil, fmt.Errorf("%w %d", fileformat.ErrVersion, version)
	case d.Err() != nil || uint64(d.Len()) != graphSize*graphs+targetSize*targets:
		return nil, fmt.Errorf("%w: %d graphs and %d targets in %d bytes", fileformat.ErrFormat, graphs,
			targets, len(b))
	}
	for range graphs {
		g := graphRecord{segment: d.U64(), crc: d.U32(), coll: d.U32(), raised: int32(d.U32())}
		g.promised = d.F64()
		ok := g.decode(d)
		if !ok || g.raised < 0 || g.raised > maxRaise || !(g.promised >= 0 && g.promised <= float64(g.wanted)) {
			return nil, fmt.Errorf("%w: record of segment %d", fileformat.ErrFormat, g.segment)
		}
		r.graphs = append(r.graphs, g)
	}
	for range targets {
		t := targetRecord{coll: d.U32(), target: d.F64()}
		if ok := t.decode(d); !ok || !(t.target > 0 && t.target < 1) {
			return nil, fmt.Errorf("%w: record of collection %d", fileformat.ErrFormat, t.coll)
		}
		r.targets = append(r.targets, t)
	}
	return r, nil
}

func (t *Tally) encode(e *codec.Encoder) {
	for _, n := range [...]int{t.queries, t.wanted, t.found} {
		e.U64(uint64(n))
	}
	for _, v := range [...]float64{t.squares, t.products, t.wants} {
		e.F64(v)
	}
}

// decode reads a tally and reports whether it is possible.
func (t *Tally) decode(d *codec.Decoder) bool {
	const most = 1 << 40 // of hits, so that no sum overflows
	queries, wanted, found := d.U64(), d.U64(), d.U64()
	t.queries, t.wanted, t.found = int(queries), int(wanted), int(found)
	ok := wanted <= most && queries <= wanted && found <= wanted
	for _, v := range [...]*float64{&t.squares, &t.products, &t.wants} {
		*v = d.F64()
		ok = ok && *v >= 0 && *v <= most*most
	}
	return ok
}
