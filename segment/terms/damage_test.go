package terms

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/blocks"
	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/topk"
	"github.com/vecbolt/vecbolt/text"
)

// seal makes the checksums of a damaged file right, by docs/format/terms.md, where it has any.
func seal(b []byte) {
	le := binary.LittleEndian
	if table := le.Uint64(b[96:]); table >= headerSize && table < uint64(len(b)) {
		at := table
		for start := uint64(headerSize); start < table && at+4 <= uint64(len(b)); start += blocks.Size {
			le.PutUint32(b[at:], codec.CRC(b[start:min(start+blocks.Size, table)]))
			at += 4
		}
		le.PutUint32(b[108:], codec.CRC(b[table:]))
	}
	le.PutUint32(b[fileformat.HeaderCRC:], codec.CRC(b[:fileformat.HeaderCRC]))
}

// small returns a source with every kind of list: of many rows and of few, with positions and gaps,
// and empty rows.
func small(t *testing.T) Source {
	scanner := analyzer(t, "none").Scanner()
	x := NewIndex()
	for i := range 160 {
		tokens, _ := scanner.Tokens(nil, strings.Repeat("heat ", i%4)+fmt.Sprintf("layer w%d flow heat%d", i, i%20))
		if i%31 == 0 {
			tokens = nil
		}
		x.Add(tokens)
	}
	return x.View(160)
}

// use reads all of a source in every way, and returns all errors.
func use(s Source) error {
	all := bitset.New(s.Rows())
	all.Fill(s.Rows())
	errs := []error{Compare(s, s, all)}
	for _, q := range []text.Query{
		{Clauses: []text.Clause{{Tokens: []text.Token{{Term: "heat"}}}, {Tokens: []text.Token{{Term: "w7"}}}}},
		{Clauses: []text.Clause{{Tokens: []text.Token{{Term: "flow"}, {Term: "heat3", Position: 1}}, Quoted: true, Occur: text.Must}}},
		{Clauses: []text.Clause{{Tokens: []text.Token{{Term: "heat1"}, {Term: "layer"}}, Prefix: true}, {Tokens: []text.Token{{Term: "w9"}}, Occur: text.MustNot}}},
		{Clauses: []text.Clause{{Tokens: []text.Token{{Term: "layer"}, {Term: "flow", Position: 2}}, Quoted: true}, {Tokens: []text.Token{{Term: "w"}}, Prefix: true, Occur: text.Must}}},
	} {
		search, err := Prepare(context.Background(), q, Params{K1: 1.2, B: 0.75}, []Part{{Source: s}})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		_, err = search.Matches(0)
		_, err2 := search.Scores(nil, 0, []uint32{0, 7, uint32(s.Rows() - 1)})
		errs = append(errs, err, err2, search.Scan(0, 0, s.Rows(), nil, topk.New(5, math.Inf(-1)), &Buffer{}))
	}
	return errors.Join(errs...)
}

// A file that says what cannot be, though all its checksums hold, is refused, or Verify says so, or
// it can be read like any other: nothing panics, and every error says that the file is corrupt.
func TestSealedDamage(t *testing.T) {
	ident := Ident{DB: [16]byte{1}, Segment: 4, Rows: 160, CRC: 9, Analysis: [16]byte{2}}
	good, err := Build(ident, Input{Source: small(t)})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := Parse(good, ident)
	if err == nil {
		err = use(whole)
	}
	if err != nil || whole.Len() != 177 {
		t.Fatal(whole.Len(), err)
	}
	refused, noticed, read := 0, 0, 0
	for at := range good {
		if at >= 112 && at < headerSize || at >= len(good)-8 {
			continue // nothing is said there
		}
		values := []byte{0, 0xff, good[at] ^ 1}
		if at < headerSize {
			values = append(values, 1, 0x7f, 0x80, good[at]+1)
		}
		for _, value := range values {
			bad := slices.Clone(good)
			if bad[at] = value; good[at] == value {
				continue
			}
			seal(bad)
			f, err := Parse(bad, ident)
			if err != nil {
				if !errors.Is(err, fileformat.ErrDamaged) && !errors.Is(err, fileformat.ErrVersion) && !errors.Is(err, fileformat.ErrMismatch) {
					t.Fatalf("offset %d is %#x: %v", at, value, err)
				}
				refused++
				continue
			}
			verr, err := f.Verify(), use(f)
			for _, err := range []error{verr, err} {
				if err != nil && !errors.Is(err, fileformat.ErrDamaged) {
					t.Fatalf("offset %d is %#x: %v", at, value, err)
				}
			}
			switch {
			case verr != nil:
				noticed++
			case err != nil:
				t.Errorf("offset %d is %#x: Verify finds nothing, reading says %v", at, value, err)
			default:
				read++ // other terms, or other positions
			}
		}
	}
	t.Logf("%d refused, %d noticed by Verify, %d read", refused, noticed, read)
	if refused < 100 || noticed < 1000 {
		t.Error("hardly anything was noticed")
	}
}

// A failing writer and inputs that cannot be are told.
func TestWriteFails(t *testing.T) {
	ident := Ident{Rows: 160}
	src := small(t)
	for n := 0; ; n++ {
		w := &failing{left: n}
		_, err := Write(w, ident, Input{Source: src})
		if err == nil {
			if n < 2 {
				t.Errorf("%d writes made a file", n)
			}
			break
		}
		if !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("write %d: %v", n, err)
		}
	}
	rows := func(n int) []uint32 { return make([]uint32, n) }
	for what, inputs := range map[string][]Input{
		"new rows for 3 rows":  {{Source: src, Rows: rows(3)}},
		"comes twice":          {{Source: src}, {Source: src}},
		"comes twice, at once": {{Source: src, Rows: rows(160)}},
	} {
		if _, err := Write(&failing{left: 1 << 20}, ident, inputs...); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if _, err := Write(&failing{left: 1 << 20}, Ident{}); err == nil {
		t.Error("no rows: no error")
	}
	// An input that rots while it is read.
	good, err := Build(ident, Input{Source: src})
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	for at := headerSize; at < len(good)-8; at += 5 {
		bad := slices.Clone(good)
		bad[at] ^= 0x41
		f, err := Parse(bad, ident)
		if err != nil {
			continue
		}
		if _, err := Write(&failing{left: 1 << 20}, ident, Input{Source: f}); !errors.Is(err, fileformat.ErrDamaged) {
			t.Fatalf("offset %d: %v", at, err)
		}
		// With checksums that hold it may be a file.
		seal(bad)
		if f, err = Parse(bad, ident); err != nil {
			continue
		}
		if _, err := Write(&failing{left: 1 << 20}, ident, Input{Source: f}); err != nil {
			told++
		}
	}
	if told == 0 {
		t.Error("nothing impossible was told")
	}
}

// failing takes so many writes.
type failing struct{ left int }

func (f *failing) WriteAt(b []byte, _ int64) (int, error) {
	if f.left--; f.left < 0 {
		return 0, io.ErrShortWrite
	}
	return len(b), nil
}
