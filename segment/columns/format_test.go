package columns

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/internal/formattest"
)

var update = flag.Bool("update", false, "rewrite golden files")

// TestFormatPage compares the hexdump in docs/format/columns.md with a file that the builder makes
// now. A difference means that the format has changed: old files would be built again.
func TestFormatPage(t *testing.T) {
	file, _ := build(t, []map[string]any{
		{"lang": "go", "tags": []any{"db", int64(7)}, "year": int64(2024)},
		{"lang": "c", "year": 2020.5},
		nil,
		{"draft": true, "lang": nil, "tags": []any{"db"}, "year": 2020.0},
		{"lang": "go", "year": int64(2020)},
		{"lang": "zig", "year": int64(-1)},
	})
	got := dump(t, file)
	formattest.Page(t, "../../docs/format/columns.md", got, *update)
}

// dump prints every byte of a column file with its meaning. It reads by the words of the page, not
// with the code under test, as far as the example needs them: codes of one byte.
func dump(t *testing.T, b []byte) string {
	d := formattest.New(t, b)
	out, line, u8, u32, u64 := &d.Out, d.Line, d.Int8, d.Int32, d.Int64
	zeros := func(n int, name string) {
		if strings.Trim(string(d.Raw(n)), "\x00") != "" {
			t.Errorf("%s is not zero", name)
		}
		if n > 0 {
			line(n, name, "")
		}
	}
	pad := func() { zeros(-d.Offset()&7, "padding") }

	line(8, "magic", "%q", d.Raw(8))
	u32("version")
	u32("rows")
	size := u64("size of the file")
	line(16, "database", "%x", d.Raw(16))
	line(8, "segment", "%d: the file is seg/%08[1]x.cols", d.U64())
	line(4, "checksum of the vectors", "%#08x", d.U32())
	n := u32("columns")
	paths := u64("bytes of the paths")
	line(16, "digest of documents", "%x", d.Raw(16))

	type column struct {
		path, pathLen                                     int
		role, layout, specials                            uint8
		codes, integers, numbers, strings, text, sections int
	}
	columns := make([]column, n)
	for i := range columns {
		fmt.Fprintf(out, "                                 entry %d\n", i)
		c := &columns[i]
		c.path = u64("offset of the path")
		c.pathLen = u32("bytes of the path")
		c.role = u8("role")
		c.layout = u8("layout")
		c.specials = d.U8()
		var names []string
		for bit, name := range []string{"null", "false", "true", "list", "map"} {
			if c.specials>>bit&1 != 0 {
				names = append(names, name)
			}
		}
		line(1, "special values", "%d: %s", c.specials, strings.Join(names, ", "))
		zeros(1, "reserved")
		c.codes = u64("codes")
		c.integers = u32("integers")
		c.numbers = u32("other numbers")
		c.strings = u32("strings")
		zeros(4, "reserved")
		c.text = u64("bytes of the strings")
		c.sections = u64("offset of the sections")
	}
	start := d.Offset()
	for i, c := range columns {
		if c.path != d.Offset() {
			t.Errorf("path %d is said to be at %d", i, c.path)
		}
		line(c.pathLen, fmt.Sprintf("path of column %d", i), "%s", d.Raw(c.pathLen))
	}
	if d.Offset()-start != paths {
		t.Errorf("%d bytes of paths are said to be %d", d.Offset()-start, paths)
	}
	pad()
	for i, c := range columns {
		fmt.Fprintf(out, "                                 sections of column %d\n", i)
		if c.sections != d.Offset() {
			t.Errorf("sections %d are said to be at %d", i, c.sections)
		}
		next, meaning := 1, map[uint8]string{0: "missing"}
		add := func(format string, args ...any) string {
			meaning[uint8(next)] = fmt.Sprintf(format, args...)
			next++
			return fmt.Sprintf("code %d: %s", next-1, meaning[uint8(next-1)])
		}
		special := func(bit uint8, name string) {
			if c.specials&bit != 0 {
				add("%s", name)
			}
		}
		special(1, "null")
		special(2, "false")
		special(4, "true")
		for range c.integers {
			v := int64(d.U64())
			line(8, "integer", "%s", add("%d", v))
		}
		for range c.numbers {
			v := d.F64()
			line(8, "number", "%s", add("%v", v))
		}
		if c.strings > 0 {
			ends := make([]int, c.strings+1)
			for j := range ends {
				name := fmt.Sprintf("start of string %d", j)
				if j == c.strings {
					name = "end of the strings"
				}
				ends[j] = u64(name)
			}
			for j := range c.strings {
				s := d.Raw(ends[j+1] - ends[j])
				line(len(s), "string", "%s", add("%q", s))
			}
		}
		pad()
		special(8, "a list")
		special(16, "a map")
		if next > 256 {
			t.Error("codes of more than a byte")
		}
		rows := make([]int, c.codes)
		for j := range rows {
			rows[j] = j
			if c.layout == 2 {
				rows[j] = u32(fmt.Sprintf("row of code %d", j))
			}
		}
		pad()
		for _, row := range rows {
			code := d.U8()
			line(1, "code", "%d: row %d, %s", code, row, meaning[code])
		}
		pad()
	}
	line(4, "checksum of the rest", "%#08x", d.U32())
	if d.Err() != nil || d.Len() != 0 || size != len(b) {
		t.Errorf("err %v, %d bytes left, size %d of %d", d.Err(), d.Len(), size, len(b))
	}
	return out.String()
}
