// Package formattest holds helpers for the tests of file formats: dumps of files, byte for byte,
// their comparison with the pages of docs/format, and data for tests and benchmarks. Only tests
// import it.
package formattest

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/internal/codec"
)

// versions are the versions of files that a page names in its tables.
var versions = regexp.MustCompile(`u32 \| version, (\d+)`)

// Page compares got with the first hexdump on a page, or replaces the hexdump if update is set. A
// difference means that the format has changed. A table of the page must name the version in the
// hexdump.
func Page(t testing.TB, page, got string, update bool) {
	t.Helper()
	const begin, end = "```hexdump\n", "```"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(text), begin)
	want, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no hexdump", page)
	}
	if update {
		if err := os.WriteFile(page, []byte(before+begin+got+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-update rewrites it):\n%s", page, diff)
	}
	for _, v := range versions.FindAllStringSubmatch(before+after, -1) {
		if !regexp.MustCompile(`(?m)  version +` + v[1] + `\b`).MatchString(got) {
			t.Errorf("%s: the table says version %s, the hexdump does not", page, v[1])
		}
	}
}

// A Dump prints a file while it is decoded.
type Dump struct {
	*codec.Decoder
	Out strings.Builder

	t testing.TB
	b []byte
}

// New begins the dump of b.
func New(t testing.TB, b []byte) *Dump { return &Dump{Decoder: codec.NewDecoder(b), t: t, b: b} }

// Bytes prints n bytes from an offset on, eight to a line, the first with a name and a value.
func (d *Dump) Bytes(off, n int, name, value string) {
	for i := 0; i < n; i += 8 {
		hex := fmt.Sprintf("% x", d.b[off+i:off+min(i+8, n)])
		fmt.Fprintln(&d.Out, strings.TrimRight(fmt.Sprintf("%06x  %-23s  %-24s %s", off+i, hex, name, value), " "))
		name, value = "", ""
	}
}

// Line prints the last n decoded bytes.
func (d *Dump) Line(n int, name, format string, args ...any) {
	d.Bytes(d.Offset()-n, n, name, fmt.Sprintf(format, args...))
}

// Repeat decodes n bytes that must all have the given value, and prints them on one line.
func (d *Dump) Repeat(n int, value byte, name string) {
	d.t.Helper()
	if strings.Trim(string(d.Raw(n)), string([]byte{value})) != "" {
		d.t.Errorf("%s is not %#x", name, value)
	}
	if n > 0 {
		fmt.Fprintf(&d.Out, "%06x  %-23s  %s\n", d.Offset()-n, fmt.Sprintf("%02x (%d times)", value, n), name)
	}
}

// Zeros is Repeat of zeros.
func (d *Dump) Zeros(n int, name string) { d.Repeat(n, 0, name) }

// Int8 decodes a uint8, prints it, and returns it.
func (d *Dump) Int8(name string) uint8 { v := d.U8(); d.Line(1, name, "%d", v); return v }

// Int32 decodes a uint32, prints it, and returns it.
func (d *Dump) Int32(name string) int { v := d.U32(); d.Line(4, name, "%d", v); return int(v) }

// Int64 decodes a uint64, prints it, and returns it.
func (d *Dump) Int64(name string) int { v := d.U64(); d.Line(8, name, "%d", v); return int(v) }

// Float32 decodes a float32, prints it, and returns it.
func (d *Dump) Float32(name string) float32 {
	v := math.Float32frombits(d.U32())
	d.Line(4, name, "%v", v)
	return v
}

// Checksums prints the checksums of blocks of 64 KiB after a header of 4 KiB, up to the end of the
// file. sum must be the checksum of these checksums.
func (d *Dump) Checksums(sum uint32) {
	d.t.Helper()
	start := d.Offset()
	for block := 0; d.Len() > 0; block++ {
		d.Line(4, fmt.Sprintf("checksum of block %d", block), "%#08x: %d to %d", d.U32(),
			4096+block*65536, min(4096+(block+1)*65536, start)-1)
	}
	if err := d.Err(); err != nil || codec.CRC(d.b[start:]) != sum {
		d.t.Errorf("err %v, checksum of checksums %#x, want %#x", err, codec.CRC(d.b[start:]), sum)
	}
}
