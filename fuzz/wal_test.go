package fuzz_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime/metrics"
	"slices"
	"testing"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/wal"
)

// walFile builds a file of a log from docs/format/wal.md alone. Each group is a list of payload
// sizes.
func walFile(seq, base uint64, size int, salt uint32, groups ...[]int) []byte {
	b := make([]byte, size)
	copy(b, "VECBOLTW")
	b[8] = 1
	le := binary.LittleEndian
	le.PutUint64(b[32:], seq)
	le.PutUint64(b[40:], base)
	le.PutUint64(b[48:], uint64(size))
	le.PutUint32(b[56:], salt)
	lsn, off := base, 4096
	for _, g := range groups {
		durable := lsn - 1
		for i, n := range g {
			h := b[off:]
			copy(h, "FRAM")
			le.PutUint32(h[4:], uint32(n))
			le.PutUint64(h[8:], lsn)
			le.PutUint64(h[16:], durable)
			copy(h[40:], walPayload(lsn, n))
			off = (off + 40 + n + 7) / 8 * 8
			if i == len(g)-1 {
				h[32] = 1
				off = (off + 511) / 512 * 512
			}
			lsn++
		}
	}
	walSign(b)
	return b
}

func walPayload(lsn uint64, n int) []byte {
	return bytes.Repeat([]byte{byte(lsn), 0x55, byte(lsn >> 8), 0xaa}, n/4+1)[:n]
}

// walSign makes all checksums of a file right, as far as its lengths lead, so that arbitrary bytes
// reach the code behind the checksums.
func walSign(b []byte) {
	if len(b) < 4096 {
		return
	}
	le := binary.LittleEndian
	le.PutUint32(b[4092:], codec.CRC(b[:4092]))
	salt, prev := le.Uint32(b[56:]), le.Uint32(b[4092:])
	for off := 4096; len(b)-off >= 40; {
		h := b[off:]
		n := int64(le.Uint32(h[4:]))
		if n > int64(len(h)-40) {
			n = 0
		}
		le.PutUint32(h[24:], prev)
		le.PutUint32(h[28:], codec.Update(salt, h[40:40+n]))
		prev = codec.Update(salt, h[:36])
		le.PutUint32(h[36:], prev)
		off = (off + 40 + int(n) + 7) / 8 * 8
		if h[32]&1 != 0 {
			off = (off + 511) / 512 * 512
		}
	}
}

// walDir returns an FS on a directory that holds wal/, in memory where there is such a thing.
func walDir(f *testing.F) *vfs.FS {
	dir, err := os.MkdirTemp("/dev/shm", "fuzz")
	if err != nil {
		dir = f.TempDir()
	}
	f.Cleanup(func() { os.RemoveAll(dir) })
	fsys, err := vfs.Open(dir, nil)
	if err != nil {
		f.Fatal(err)
	}
	if err := fsys.Mkdir("wal"); err != nil {
		f.Fatal(err)
	}
	return fsys
}

func walPut(t *testing.T, fsys *vfs.FS, files ...[]byte) {
	names, err := fsys.ReadDir("wal")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := fsys.Remove("wal/" + name); err != nil {
			t.Fatal(err)
		}
	}
	for i, b := range files {
		name := filepath.Join(fsys.Dir(), "wal", "0000000"+string(rune('1'+i))+".wal")
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

type walRecord struct {
	lsn     uint64
	payload string
}

// walReplay replays and checks what holds for any bytes.
func walReplay(t *testing.T, o wal.Options, after uint64, input int) ([]walRecord, wal.Tail, error) {
	allocs := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(allocs)
	before := allocs[0].Value.Uint64()
	var records []walRecord
	var copied uint64
	tail, err := wal.Replay(o, after, func(lsn uint64, payload []byte) error {
		if lsn != after+uint64(len(records))+1 {
			t.Fatalf("record %d is number %d after %d", lsn, len(records)+1, after)
		}
		records = append(records, walRecord{lsn, string(payload)})
		copied += 100 + uint64(len(payload))
		return nil
	})
	metrics.Read(allocs)
	if used := allocs[0].Value.Uint64() - before; used > 2<<20+8*(copied+uint64(input)) {
		t.Fatalf("%d bytes allocated for an input of %d", used, input)
	}
	if tail.Last != after+uint64(len(records)) {
		t.Fatalf("tail %+v, %d records after %d", tail, len(records), after)
	}
	var c *fileformat.CorruptError
	if err != nil && !errors.Is(err, fileformat.ErrVersion) && (!errors.As(err, &c) || c.File == "" || c.Offset < 0) {
		t.Fatalf("%v", err)
	}
	return records, tail, err
}

// FuzzWALFile replays a directory whose first file holds arbitrary bytes: head and then body.
// Unless it is raw, they are laid over the beginning and over the frames of a file of 8 KiB, and
// all checksums are made right. A second file begins with record base. If the replay gives no
// error, the log can be continued, and gives the same records and the new one.
func FuzzWALFile(f *testing.F) {
	f.Add([]byte(nil), []byte(nil), uint64(0), uint64(0), true)
	for i, groups := range [][][]int{nil, {{0}}, {{100}}, {{1, 2, 3}}, {{472}, {473}}, {{1000}, {0, 7}, {30}}, {{900, 1}}} {
		for _, first := range []uint64{1, 5, 1 << 40} {
			b := walFile(1, first, 8192, uint32(i)*0x9e3779b9, groups...)
			n := uint64(len(slices.Concat(groups...)))
			body := bytes.TrimRight(b[4096:], "\x00")
			f.Add(b[:60], body, first-1, uint64(0), false)
			f.Add(b[:60], body, first-1, first+n, false)
			f.Add(b[:60], body, first, first+1, false)
		}
	}
	f.Add(walFile(1, 1, 8192, 7, []int{5}), []byte(nil), uint64(0), uint64(0), true)
	fsys := walDir(f)
	f.Fuzz(func(t *testing.T, head, body []byte, after, base uint64, raw bool) {
		if len(head)+len(body) > 1<<20 {
			t.Skip("nothing new in more bytes")
		}
		b := slices.Concat(head, body)
		if !raw {
			b = append(make([]byte, 4096), body...)
			b = append(b, make([]byte, max(0, 8192-len(b)))...)
			copy(b[:4092], head)
			walSign(b)
		}
		files := [][]byte{b}
		if base > 0 {
			files = append(files, walFile(2, base, 8192, 77, []int{9}, []int{0, 600}))
		}
		walPut(t, fsys, files...)
		o := wal.Options{FS: fsys, FileSize: 8192}
		records, tail, err := walReplay(t, o, after, len(b)+8192)
		if err != nil || tail.Last == 1<<64-1 {
			return
		}
		l, err := wal.Create(o, tail.Last+1, after)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append([]wal.Record{{Parts: [][]byte{[]byte("new")}}}); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		again, tail, err := walReplay(t, o, after, len(b)+2*8192)
		if err != nil || tail.Torn || !slices.Equal(again, append(records, walRecord{tail.Last, "new"})) {
			t.Fatalf("continued: %v, %+v, %d records, before %d", err, tail, len(again), len(records))
		}
	})
}

// FuzzWALMutation changes a sound log of two files: each 5 bytes of the script overwrite a byte,
// copy a sector or cut a file. Whatever is delivered was written, under the same LSN.
func FuzzWALMutation(f *testing.F) {
	sizes := [][]int{{100}, {10, 700, 472}, {600}, {30}, {900, 0}}
	all := slices.Concat(sizes...)
	one := walFile(1, 1, 8192, 0xdead, sizes[:3]...)
	two := walFile(2, 6, 8192, 0xbeef, sizes[3:]...)
	f.Add([]byte(nil), uint8(0))
	for i := range 13 {
		for kind := range byte(4) {
			f.Add([]byte{kind, byte(i * 37), byte(0x10 + i), byte(i), byte(i * 3)}, uint8(i))
		}
	}
	f.Add([]byte{0, 40, 16, 0, 1, 4, 1, 16, 9, 8}, uint8(2))
	fsys := walDir(f)
	f.Fuzz(func(t *testing.T, script []byte, after uint8) {
		files := [][]byte{slices.Clone(one), slices.Clone(two)}
		for s := script; len(s) >= 5; s = s[5:] {
			b := files[s[0]&1]
			if len(b) == 0 {
				continue
			}
			off := int(binary.LittleEndian.Uint16(s[1:])) % len(b)
			switch s[0] >> 1 % 3 {
			case 0:
				b[off] ^= s[3]
			case 1: // a sector of either file, of this time
				from := files[s[4]&1]
				copy(b[off/512*512:], from[min(int(s[3])*512, len(from)):min(int(s[3])*512+512, len(from))])
			case 2:
				files[s[0]&1] = b[:off]
			}
		}
		walPut(t, fsys, files...)
		records, tail, err := walReplay(t, wal.Options{FS: fsys}, uint64(after), 2*8192)
		for _, r := range records {
			if r.lsn > uint64(len(all)) || r.payload != string(walPayload(r.lsn, all[r.lsn-1])) {
				t.Fatalf("record %d was not written: %q", r.lsn, r.payload)
			}
		}
		// What is durable by the word of a later file or frame is delivered or missed.
		var durable uint64
		if len(files[1]) == len(two) {
			durable = 5
			for _, off := range []int{4608, 5552} { // records 7 and 8
				if bytes.Equal(files[1][off:][:40], two[off:][:40]) {
					durable = 6
				}
			}
		}
		if err == nil && uint64(after) < durable && tail.Last < durable {
			t.Fatalf("the log ends with record %d, without an error", tail.Last)
		}
	})
}
