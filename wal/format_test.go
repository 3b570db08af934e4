package wal

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// TestFormatPage compares the dump in docs/format/wal.md with a new file.
func TestFormatPage(t *testing.T) {
	const page = "../docs/format/wal.md"
	o := options(t, t.TempDir(), nil)
	o.FileSize = 16 << 10
	o.salt = func() uint32 { return 0x5a17 }
	l := create(t, o, 7, 6)
	write := func(payloads ...string) {
		var rs []Record
		for _, p := range payloads {
			rs = append(rs, Record{Parts: [][]byte{[]byte(p)}})
		}
		_, err := l.Append(rs)
		ok(t, err)
	}
	write("seventh")
	ok(t, l.Sync())
	write("eighth", "the ninth record")
	ok(t, l.Close())
	b, err := o.FS.ReadFile("wal/00000001.wal", 1<<20)
	ok(t, err)

	doc, err := os.ReadFile(page)
	ok(t, err)
	text, _, found := strings.Cut(string(doc), "## Example\n")
	if !found {
		t.Fatal("no section Example")
	}
	intro, _, _ := strings.Cut(strings.TrimPrefix(string(doc), text+"## Example\n"), "```\n")
	golden(t, page, text+"## Example\n"+intro+"```\n"+dump(b)+"```\n")
}

// dump prints a file of the log, one line per field.
func dump(b []byte) string {
	var s strings.Builder
	line := func(off int, bytes, note string) {
		s.WriteString(strings.TrimRight(fmt.Sprintf("%08x  %-47s  %s", off, bytes, note), " ") + "\n")
	}
	field := func(off, n int, format string, args ...any) {
		for i := 0; i < n; i += 16 {
			end := min(i+16, n)
			line(off+i, fmt.Sprintf("% x", b[off+i:off+end]), fmt.Sprintf(format, args...))
			format, args = "", nil
		}
	}
	blank := func(off, end int) {
		if end > off && bytes.Count(b[off:end], []byte{0}) == end-off {
			line(off, "00 ...", fmt.Sprintf("zeros up to %08x", end-1))
		}
	}
	field(0, 8, "magic %q", b[:8])
	field(8, 4, "version %d", le.Uint32(b[8:]))
	field(12, 4, "")
	field(16, 16, "db %q", b[16:32])
	field(32, 8, "seq %d", le.Uint64(b[32:]))
	field(40, 8, "base %d", le.Uint64(b[40:]))
	field(48, 8, "size %d", le.Uint64(b[48:]))
	salt := le.Uint32(b[56:])
	field(56, 4, "salt %#x", salt)
	blank(60, fileformat.HeaderCRC)
	field(fileformat.HeaderCRC, 4, "crc of the header")
	off := headerSize
	for {
		h, ok := decodeFrame(b[off:], salt)
		if !ok {
			break
		}
		fmt.Fprintln(&s)
		field(off, 4, "magic %q", b[off:off+4])
		field(off+4, 4, "length %d", h.length)
		field(off+8, 8, "lsn %d", h.lsn)
		field(off+16, 8, "durable %d", h.durable)
		field(off+24, 4, "prev")
		field(off+28, 4, "payload crc")
		field(off+32, 4, "flags %d", h.flags)
		field(off+36, 4, "crc of the frame header")
		field(off+frameSize, int(h.length), "payload %q", b[off+frameSize:][:h.length])
		end := int(h.end(int64(off), groupAlign))
		blank(off+frameSize+int(h.length), end)
		off = end
	}
	fmt.Fprintln(&s)
	blank(off, len(b))
	return s.String()
}
