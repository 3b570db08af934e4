package meta

import (
	"encoding/binary"
	"flag"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/vecbolt/vecbolt/internal/formattest"
)

var updatePage = flag.Bool("update", false, "rewrite the example in docs/format/meta.md")

// TestFormatPage compares the example in docs/format/meta.md with a new store. A difference means
// that the format has changed: old files would no longer open.
func TestFormatPage(t *testing.T) {
	s := small(t)
	p := &printer{t: t, tallies: map[string][]byte{}}
	err := s.bolt.View(func(tx *bbolt.Tx) error {
		if err := tx.ForEach(p.measure); err != nil {
			return err
		}
		return tx.ForEach(p.bucket)
	})
	if err != nil {
		t.Fatal(err)
	}
	got := p.out.String()
	formattest.Page(t, "../../docs/format/meta.md", got, *updatePage)
}

// A printer prints the records of a store. It follows the wording of the page, not the code under
// test.
type printer struct {
	t       *testing.T
	out     strings.Builder
	tallies map[string][]byte // by bucket; the expected ones
	b       []byte            // not printed yet
}

// measure computes the tally of a bucket.
func (p *printer) measure(name []byte, b *bbolt.Bucket) error {
	mix := func(x uint64) uint64 {
		x ^= x >> 30
		x *= 0xbf58476d1ce4e5b9
		x ^= x >> 27
		x *= 0x94d049bb133111eb
		return x ^ x>>31
	}
	n, sum := uint64(0), new(big.Int)
	err := b.ForEach(func(k, v []byte) error {
		hash := fnv.New64a()
		hash.Write(k)
		h, c := hash.Sum64(), uint64(binary.LittleEndian.Uint32(v[len(v)-4:]))
		hi, lo := mix(h+0x9e3779b97f4a7c15*c), mix(h^c)
		term := new(big.Int).Lsh(new(big.Int).SetUint64(hi), 64)
		sum.Add(sum, term.Add(term, new(big.Int).SetUint64(lo)))
		n++
		return nil
	})
	sum.Mod(sum, new(big.Int).Lsh(big.NewInt(1), 128))
	digest := sum.FillBytes(make([]byte, 16))
	slices.Reverse(digest)
	p.tallies[string(name)] = append(binary.LittleEndian.AppendUint64(nil, n), digest...)
	return err
}

// field prints the next n bytes.
func (p *printer) field(n int, what, format string, args ...any) {
	b := p.b[:n]
	p.b = p.b[n:]
	meaning := fmt.Sprintf(format, args...)
	for len(b) > 0 {
		line := fmt.Sprintf("    %-23s  %-18s %s", fmt.Sprintf("% x", b[:min(8, len(b))]), what, meaning)
		fmt.Fprintln(&p.out, strings.TrimRight(line, " "))
		b = b[min(8, len(b)):]
		what, meaning = "", ""
	}
}

func (p *printer) big32(what string) uint32 {
	v := binary.BigEndian.Uint32(p.b)
	p.field(4, what, "%d", v)
	return v
}

func (p *printer) big64(what string) { p.field(8, what, "%d", binary.BigEndian.Uint64(p.b)) }

func (p *printer) little32(what string) { p.field(4, what, "%d", binary.LittleEndian.Uint32(p.b)) }

func (p *printer) little64(what string) { p.field(8, what, "%d", binary.LittleEndian.Uint64(p.b)) }

// sized prints a uvarint length of one byte and the bytes that it counts.
func (p *printer) sized(what string) {
	n := int(p.b[0])
	p.field(1, what, "%d bytes", n)
	p.field(n, "", "%q", p.b[:n])
}

func (p *printer) tally(bucket string) {
	if !slices.Equal(p.b[:24], p.tallies[bucket]) {
		p.t.Errorf("tally of %s is %x, want %x", bucket, p.b[:24], p.tallies[bucket])
	}
	p.field(8, "tally", "%d records in %s", binary.LittleEndian.Uint64(p.b), bucket)
	p.field(16, "", "digest")
}

func (p *printer) owner() {
	p.big32("collection")
	n := int(binary.BigEndian.Uint16(p.b))
	p.field(2, "length of the id", "%d", n)
	p.field(n, "id", "%q", p.b[:n])
}

// bucket prints a bucket with its records.
func (p *printer) bucket(name []byte, b *bbolt.Bucket) error {
	kind, number, _ := strings.Cut(string(name), "/")
	var coll uint32
	if number != "" {
		if _, err := fmt.Sscanf(number, "%08x", &coll); err != nil {
			return err
		}
	}
	tags := []string{"", "system", "collections", "documents", "ids", "history", "purge", "segments", "dead"}
	tag := slices.Index(tags, kind)
	fmt.Fprintf(&p.out, "bucket %s\n", name)
	return b.ForEach(func(k, v []byte) error {
		fmt.Fprintln(&p.out, "  key")
		p.b = k
		id := p.key(kind)
		p.empty(name)

		fmt.Fprintln(&p.out, "  value")
		p.b = v
		p.field(1, "version", "%d", v[0])
		p.b = p.b[:len(p.b)-4]
		p.payload(kind, string(k), id)
		p.empty(name)

		covered := append([]byte{byte(tag)}, binary.LittleEndian.AppendUint32(nil, coll)...)
		covered = slices.Concat(covered, k, v[:len(v)-4])
		sum := crc32.Checksum(covered, crc32.MakeTable(crc32.Castagnoli))
		p.b = v[len(v)-4:]
		if binary.LittleEndian.Uint32(p.b) != sum {
			p.t.Errorf("%s %x: checksum %x, want %08x", name, k, p.b, sum)
		}
		p.field(4, "checksum", "%#08x", sum)
		return nil
	})
}

func (p *printer) empty(name []byte) {
	if len(p.b) > 0 {
		p.t.Errorf("%s: %d bytes not understood", name, len(p.b))
	}
}

func (p *printer) key(kind string) (id uint32) {
	switch kind {
	case "collections":
		return p.big32("number")
	case "documents":
		p.big64("docnum")
	case "history":
		p.owner()
		p.big64("LSN")
	case "purge":
		p.big64("LSN")
		p.owner()
	case "segments":
		p.big64("number")
	case "dead":
		p.big64("segment")
		p.big32("chunk")
	default:
		p.field(len(p.b), "", "%q", p.b)
	}
	return 0
}

func (p *printer) payload(kind, key string, id uint32) {
	switch kind {
	case "system":
		if key == "format" {
			p.field(8, "magic", "%q", p.b[:8])
			p.little32("version")
			return
		}
		p.field(16, "database", "%x", p.b[:16])
		p.little64("applied")
		p.little64("next docnum")
		p.little64("next segment")
		p.little32("next collection")
		for _, bucket := range []string{"collections", "history", "purge", "segments", "dead"} {
			p.tally(bucket)
		}
		n := int(p.b[0])
		p.field(1, "obsolete segments", "%d", n)
		for range n {
			p.little64("")
		}
	case "collections":
		p.sized("name")
		p.sized("schema")
		p.tally(fmt.Sprintf("documents/%08x", id))
		p.tally(fmt.Sprintf("ids/%08x", id))
	case "documents":
		p.field(len(p.b), "document", "%q", p.b)
	case "segments":
		for _, what := range []string{"collection", "dimension", "rows"} {
			p.little32(what)
		}
		p.little64("size of the file")
		p.field(4, "checksum of header", "%#08x", binary.LittleEndian.Uint32(p.b))
		p.little64("first docnum")
		p.little64("last docnum")
		p.field(4, "largest norm", "%v", math.Float32frombits(binary.LittleEndian.Uint32(p.b)))
		p.field(16, "documents", "digest")
	case "dead":
		if p.b[0] != 0 {
			p.t.Error("the example should have a chunk as a list")
		}
		p.field(1, "form", "list of rows")
		for len(p.b) > 0 {
			p.field(2, "row", "%d", binary.LittleEndian.Uint16(p.b))
		}
	default:
		p.little64("docnum")
	}
}
