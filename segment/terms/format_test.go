package terms

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/formattest"
	"github.com/vecbolt/vecbolt/text"
)

var update = flag.Bool("update", false, "rewrite golden files")

// TestFormatPage compares the hexdump in docs/format/terms.md with a file that Build makes now. A
// difference means that the format has changed: old files would be built again.
func TestFormatPage(t *testing.T) {
	x := NewIndex()
	words := func(terms ...string) {
		var tokens []text.Token
		for i, term := range terms {
			if term != "" {
				tokens = append(tokens, text.Token{Term: term, Position: i})
			}
		}
		x.Add(tokens)
	}
	words("heat", "layer", "heat")
	words()
	words("heated", "", "layer")
	for range 127 {
		words("heat")
	}
	id := Ident{DB: [16]byte{1, 2, 3}, Segment: 42, Rows: x.Rows(), CRC: 0xcafe, Analysis: [16]byte{9, 8, 7}, Docs: [16]byte{0xd0, 0xc5}}
	file, err := Build(id, Input{Source: x.View(x.Rows())})
	if err != nil {
		t.Fatal(err)
	}
	got := dump(t, file)
	formattest.Page(t, "../../docs/format/terms.md", got, *update)
}

// dump prints every byte of a file with its meaning. It reads by the words of the page, not with
// the code under test.
func dump(t *testing.T, b []byte) string {
	d := formattest.New(t, b)
	out, print, line, zeros, u32, u64 := &d.Out, d.Bytes, d.Line, d.Zeros, d.Int32, d.Int64
	uvarints := func(n int, name string) []uint64 {
		start, values := d.Offset(), make([]uint64, n)
		for i := range values {
			values[i] = d.Uvarint()
		}
		print(start, d.Offset()-start, name, strings.Trim(fmt.Sprint(values), "[]"))
		return values
	}

	line(8, "magic", "%q", d.Raw(8))
	u32("version")
	rows := u32("rows")
	line(16, "database", "%x", d.Raw(16))
	line(8, "segment", "%d: the file is seg/%08[1]x.terms", d.U64())
	size := u64("size of the file")
	line(16, "analysis", "%x", d.Raw(16))
	line(4, "checksum of the vectors", "%#08x", d.U32())
	u32("rows with terms")
	u64("length of all rows")
	dictionary, index, table := u64("start of dictionary"), u64("start of its index"), u64("start of checksums")
	terms := u32("terms")
	sums := d.U32()
	line(4, "checksum of checksums", "%#08x", sums)
	line(16, "digest of documents", "%x", d.Raw(16))
	zeros(4092-d.Offset(), "reserved")
	line(4, "checksum of 0 to 4091", "%#08x", d.U32())
	for row := 0; row < rows; row++ {
		same := row + 1
		for same < rows && string(b[d.Offset():][:4]) == string(b[d.Offset()+4*(same-row):][:4]) {
			same++
		}
		if same-row < 4 {
			u32(fmt.Sprintf("length of row %d", row))
			continue
		}
		n := d.U32()
		fmt.Fprintf(out, "%06x  %-23s  %-24s %d\n", d.Offset()-4, fmt.Sprintf("% x (%d times)", b[d.Offset()-4:d.Offset()], same-row),
			fmt.Sprintf("length of rows %d to %d", row, same-1), n)
		d.Raw(4 * (same - row - 1))
		row = same - 1
	}
	zeros(-d.Offset()&63, "padding")

	// The dictionary says what the postings are.
	postings := d.Decoder
	first := d.Offset()
	d.Decoder = codec.NewDecoder(b[:index])
	d.Raw(dictionary)
	type entry struct {
		name   string
		values []uint64
	}
	var entries []entry
	before := out.String()
	out.Reset()
	term := ""
	for i := range terms {
		if i%16 == 0 {
			uvarints(1, fmt.Sprintf("group %d: postings at", i/16))
			term = ""
		}
		shared := uvarints(1, "bytes shared")[0]
		start := d.Offset()
		term = term[:shared] + d.String()
		print(start, d.Offset()-start, "and others", fmt.Sprintf("%q", term[shared:]))
		entries = append(entries, entry{term, uvarints(5, fmt.Sprintf("%q", term))})
	}
	zeros(d.Len(), "padding")
	dict := out.String()

	out.Reset()
	out.WriteString(before)
	d.Decoder = postings
	for _, e := range entries {
		df, docs, pos := int(e.values[0]), int(e.values[3]), int(e.values[4])
		for block := range df / 128 {
			fmt.Fprintf(out, "        %-23s  skip table of %q, block %d\n", "", e.name, block)
			for _, name := range []string{"last row", "largest frequency", "least length", "end of rows"} {
				u32(name)
			}
			u64("end of positions")
		}
		start := d.Offset()
		d.Raw(docs)
		print(start, docs, "rows of "+e.name, "")
		start = d.Offset()
		d.Raw(pos)
		print(start, pos, "positions of "+e.name, "")
	}
	if d.Offset() != dictionary {
		t.Errorf("postings from %d to %d, dictionary at %d", first, d.Offset(), dictionary)
	}
	out.WriteString(dict)
	d.Decoder = codec.NewDecoder(b)
	d.Raw(index)
	for group := range (terms + 15) / 16 {
		u64(fmt.Sprintf("group %d", group))
	}
	if d.Offset() != table {
		t.Errorf("index ends at %d, checksums at %d", d.Offset(), table)
	}
	d.Checksums(sums)
	if size != len(b) {
		t.Errorf("size %d of %d", size, len(b))
	}
	return out.String()
}

// TestUndigested refuses a file of version 1, which does not say which documents it was made of: it
// is made again.
func TestUndigested(t *testing.T) {
	b, err := os.ReadFile("testdata/v1.terms")
	if err != nil {
		t.Fatal(err)
	}
	id := Ident{DB: [16]byte{7}, Segment: 1, Rows: 300, CRC: 2, Analysis: [16]byte{3}}
	if _, err := Parse(b, id); !errors.Is(err, fileformat.ErrVersion) {
		t.Error(err)
	}
}

// TestOldFile opens a file that the first release of the format has left, and that is never written
// again.
func TestOldFile(t *testing.T) {
	const name = "testdata/v2.terms"
	scanner := analyzer(t, "none").Scanner()
	x := NewIndex()
	for i := range 300 {
		tokens, _ := scanner.Tokens(nil, strings.Repeat("flow ", i%4)+fmt.Sprintf("heat w%d layer%d", i, i%9))
		x.Add(tokens)
	}
	id := Ident{DB: [16]byte{7}, Segment: 1, Rows: 300, CRC: 2, Analysis: [16]byte{3}, Docs: [16]byte{4}}
	if *writeOld {
		b, err := Build(id, Input{Source: x.View(300)})
		if err == nil {
			err = os.MkdirAll("testdata", 0o755)
		}
		if err == nil {
			err = os.WriteFile(name, b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parse(b, id)
	if err == nil {
		err = f.Verify()
	}
	all := bitset.New(300)
	all.Fill(300)
	if err == nil {
		err = Compare(f, x.View(300), all)
	}
	if err != nil {
		t.Error(err)
	}
}

var writeOld = flag.Bool("write-old", false, "for the release that changes the format: write its testdata")
