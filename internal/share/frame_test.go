package share

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
)

func TestRoundTrip(t *testing.T) {
	for number, k := range kinds {
		if k.decode == nil {
			continue
		}
		t.Run(k.name, rapid.MakeCheck(func(t *rapid.T) {
			m := drawMessage(t, number)
			if diff := cmp.Diff(m, crosses(t, m), same); diff != "" {
				t.Fatal(diff)
			}
		}))
	}
}

// Frames follow each other in a stream, however it is cut, and end with io.EOF.
func TestStream(t *testing.T) {
	all := examples(t)
	var stream bytes.Buffer
	for _, m := range all {
		if err := Write(&stream, m); err != nil {
			t.Fatal(err)
		}
	}
	for name, r := range map[string]io.Reader{
		"whole":   bytes.NewReader(stream.Bytes()),
		"bytes":   iotest.OneByteReader(bytes.NewReader(stream.Bytes())),
		"halves":  iotest.HalfReader(bytes.NewReader(stream.Bytes())),
		"end too": iotest.DataErrReader(bytes.NewReader(stream.Bytes())),
	} {
		for i, want := range all {
			got, err := Read(r)
			if err != nil {
				t.Fatalf("%s: message %d: %v", name, i, err)
			}
			if diff := cmp.Diff(want, got, same); diff != "" {
				t.Errorf("%s: message %d: %s", name, i, diff)
			}
		}
		if m, err := Read(r); err != io.EOF {
			t.Errorf("%s: at the end: %v, %v", name, m, err)
		}
	}
}

// A pausing reader gives a byte at a time, and an error before each.
type pausing struct {
	in     io.Reader
	paused bool
}

func (p *pausing) Read(b []byte) (int, error) {
	if p.paused = !p.paused; p.paused {
		return 0, errNothing
	}
	return p.in.Read(b[:1])
}

// A reader goes on where it was when nothing had arrived, and knows when a message has.
func TestReader(t *testing.T) {
	all := examples(t)
	var stream bytes.Buffer
	for _, m := range all {
		if err := Write(&stream, m); err != nil {
			t.Fatal(err)
		}
	}
	for name, r := range map[string]*reader{
		"pauses": newReader(&pausing{in: bytes.NewReader(stream.Bytes())}, false),
		"whole":  newReader(bytes.NewReader(stream.Bytes()), true),
	} {
		for i, want := range all {
			got, err := r.next()
			for err == errNothing {
				if r.ready() {
					t.Fatalf("%s: message %d is ready, and does not come", name, i)
				}
				got, err = r.next()
			}
			if err != nil {
				t.Fatalf("%s: message %d: %v", name, i, err)
			}
			if diff := cmp.Diff(want, got, same); diff != "" {
				t.Errorf("%s: message %d: %s", name, i, diff)
			}
			if more := name == "whole" && i+1 < len(all); r.ready() != more {
				t.Errorf("%s: after message %d, another one is ready: %v", name, i, !more)
			}
		}
	}
}

// Frames of all sizes fit into pieces of memory, or have their own. A reader that does not reuse
// memory leaves messages as they are.
func TestPieces(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	var all [][]byte
	var stream bytes.Buffer
	for i := range 400 {
		n := 1 + rng.IntN(3000)
		if i%20 == 0 {
			n = 1 + rng.IntN(2*pieceBytes)
		}
		record := make([]byte, n)
		for j := range record {
			record[j] = byte(rng.Uint32())
		}
		all = append(all, record)
		if err := Write(&stream, Records{First: 1, Records: [][]byte{record}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, reuses := range []bool{false, true} {
		for name, in := range map[string]io.Reader{
			"whole":  bytes.NewReader(stream.Bytes()),
			"halves": iotest.HalfReader(bytes.NewReader(stream.Bytes())),
			"pauses": &pausing{in: iotest.HalfReader(bytes.NewReader(stream.Bytes()))},
		} {
			r, got := newReader(in, reuses), [][]byte(nil)
			for i, want := range all {
				m, err := r.next()
				for err == errNothing {
					m, err = r.next()
				}
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, m.(Records).Records[0])
				if !bytes.Equal(want, got[i]) {
					t.Fatalf("%s, reuses %v: message %d differs", name, reuses, i)
				}
			}
			if !reuses && !slices.EqualFunc(all, got, bytes.Equal) {
				t.Errorf("%s: messages have changed", name)
			}
		}
	}
}

// Append keeps the content of the buffer, and gives it back unchanged when it fails.
func TestAppend(t *testing.T) {
	var b []byte
	for _, m := range examples(t) {
		before := bytes.Clone(b)
		got, err := Append(b, m)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, append(before, frame(t, m)...)) {
			t.Errorf("%T is another frame behind %d bytes", m, len(before))
		}
		b = got
	}
	if got, err := Append(b, Call{}); err == nil || !bytes.Equal(got, b) {
		t.Errorf("%d bytes, want %d: %v", len(got), len(b), err)
	}
	r, w := io.Pipe()
	r.Close()
	if err := Write(w, Bye{}); err != io.ErrClosedPipe {
		t.Errorf("written to a closed pipe: %v", err)
	}
}

func TestCutFrames(t *testing.T) {
	for _, m := range examples(t) {
		b := frame(t, m)
		for n := range b {
			want := io.ErrUnexpectedEOF
			if n == 0 {
				want = io.EOF
			}
			if got, err := Read(bytes.NewReader(b[:n])); err != want {
				t.Errorf("%T cut to %d of %d bytes: %v, %v", m, n, len(b), got, err)
			}
			broken := errors.New("broken")
			if got, err := Read(io.MultiReader(bytes.NewReader(b[:n]), iotest.ErrReader(broken))); err != broken {
				t.Errorf("%T broken after %d of %d bytes: %v, %v", m, n, len(b), got, err)
			}
		}
	}
}

func TestDamagedFrames(t *testing.T) {
	for _, m := range examples(t) {
		b := frame(t, m)
		for i := range b {
			for bit := range 8 {
				bad := bytes.Clone(b)
				bad[i] ^= 1 << bit
				got, err := Read(bytes.NewReader(bad))
				if !errors.Is(err, fileformat.ErrChecksum) && !errors.Is(err, fileformat.ErrFormat) && err != io.ErrUnexpectedEOF {
					t.Errorf("%T, byte %d, bit %d: %v, %v", m, i, bit, got, err)
				}
			}
		}
	}
}

// sealed makes a frame of any payload.
func sealed(kind uint8, payload []byte) []byte {
	e := codec.Encoder{}
	e.U32(uint32(len(payload)))
	e.U8(kind)
	e.U32(codec.CRC(e.B, payload))
	e.Raw(payload)
	return e.B
}

// allocated returns the bytes that fn allocates, the least of three times: small objects are
// counted late.
func allocated(fn func()) uint64 {
	least := uint64(math.MaxUint64)
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	for range 3 {
		metrics.Read(sample)
		before := sample[0].Value.Uint64()
		fn()
		metrics.Read(sample)
		least = min(least, sample[0].Value.Uint64()-before)
	}
	return least
}

// A length is a claim: it costs no memory before the bytes arrive.
func TestLongClaims(t *testing.T) {
	for number, k := range kinds {
		if k.decode == nil {
			continue
		}
		b := sealed(uint8(number), make([]byte, 10))
		binary.LittleEndian.PutUint32(b, 512<<20)
		want := fileformat.ErrFormat
		if k.limit > 512<<20 {
			want = io.ErrUnexpectedEOF
		}
		used := allocated(func() {
			if m, err := Read(bytes.NewReader(b)); !errors.Is(err, want) {
				t.Errorf("%s: %v, %v, want %v", k.name, m, err, want)
			}
		})
		if used > 1<<20 {
			t.Errorf("%s: %d bytes allocated", k.name, used)
		}
		binary.LittleEndian.PutUint32(b, uint32(k.limit+1))
		if m, err := Read(bytes.NewReader(b)); !errors.Is(err, fileformat.ErrFormat) {
			t.Errorf("%s: above the limit: %v, %v", k.name, m, err)
		}
	}
}

// Large frames arrive whole: the buffer grows several times on the way.
func TestLargeFrame(t *testing.T) {
	record := bytes.Repeat([]byte("0123456789abcdef"), 20*pieceBytes/16+1)
	m := Records{First: 1, Records: [][]byte{record[1:], record}}
	got := crosses(t, m).(Records)
	if len(got.Records) != 2 || !bytes.Equal(got.Records[0], record[1:]) || !bytes.Equal(got.Records[1], record) {
		t.Error("records differ")
	}
}

func TestUnknownKinds(t *testing.T) {
	for number := range 256 {
		if number < len(kinds) && kinds[number].decode != nil {
			continue
		}
		if m, err := Read(bytes.NewReader(sealed(uint8(number), nil))); !errors.Is(err, fileformat.ErrFormat) {
			t.Errorf("kind %d: %v, %v", number, m, err)
		}
	}
}

// A process of another version is told so, whatever follows the number.
func TestOtherVersions(t *testing.T) {
	for _, m := range examples(t)[:2] {
		for _, v := range []uint32{0, Version + 1, 1 << 31} {
			payload := frame(t, m)[headerSize:]
			binary.LittleEndian.PutUint32(payload, v)
			for _, p := range [][]byte{payload, payload[:4], append(payload, 1, 2, 3)} {
				got, err := Read(bytes.NewReader(sealed(m.kind(), p)))
				if !errors.Is(err, fileformat.ErrVersion) || errors.Is(err, fileformat.ErrFormat) ||
					!strings.Contains(err.Error(), fmt.Sprintf("has %d, ", v)) {
					t.Errorf("%T of version %d: %v, %v", m, v, got, err)
				}
			}
		}
	}
}
