package fuzz_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/topk"
	"github.com/vecbolt/vecbolt/segment/terms"
	"github.com/vecbolt/vecbolt/text"
)

// The offsets of docs/format/terms.md.
const (
	termsHeader = 4096
	termsCRC    = 4092
	termsTable  = 96  // where the checksums begin
	termsSums   = 108 // checksum of checksums
)

// sealTerms makes magic, sizes and all checksums of any bytes right, so that the fuzzer gets behind
// them. The place of the checksums is left as it is if there can be any there.
func sealTerms(data []byte) []byte {
	b := append(slices.Clone(data), make([]byte, max(0, termsHeader+64-len(data)))...)
	le := binary.LittleEndian
	copy(b, "VECBOLTT\x01\x00\x00\x00")
	table := le.Uint64(b[termsTable:])
	if table < termsHeader+4 || table > uint64(len(b)) {
		table = uint64(len(b)) &^ 7
		le.PutUint64(b[termsTable:], table)
	}
	b = b[:table]
	for start := uint64(termsHeader); start < table; start += 65536 {
		b = le.AppendUint32(b, codec.CRC(b[start:min(start+65536, table)]))
	}
	le.PutUint64(b[40:], uint64(len(b)))
	le.PutUint32(b[termsSums:], codec.CRC(b[table:]))
	le.PutUint32(b[termsCRC:], codec.CRC(b[:termsCRC]))
	return b
}

// termsIdent reads what docs/format/terms.md says the file was made from.
func termsIdent(b []byte) (id terms.Ident) {
	if len(b) >= termsHeader {
		le := binary.LittleEndian
		id.Rows = int(int32(le.Uint32(b[12:])))
		copy(id.DB[:], b[16:32])
		id.Segment = le.Uint64(b[32:])
		copy(id.Analysis[:], b[48:64])
		id.CRC = le.Uint32(b[64:])
	}
	return id
}

func scanner(f testing.TB) (*text.Analyzer, *text.Scanner) {
	a, err := text.New("english")
	if err != nil {
		f.Fatal(err)
	}
	return a, a.Scanner()
}

func termsFile(f testing.TB, texts ...string) []byte {
	_, s := scanner(f)
	x := terms.NewIndex()
	for _, t := range texts {
		tokens, _ := s.Tokens(nil, t)
		x.Add(tokens)
	}
	b, err := terms.Build(terms.Ident{Segment: 3, Rows: len(texts)}, terms.Input{Source: x.View(len(texts))})
	if err != nil {
		f.Fatal(err)
	}
	return b
}

// FuzzTerms parses arbitrary bytes as they are and with sizes and checksums made right. What Parse
// accepts can be searched and merged; nothing panics, and Parse allocates a fraction of its input.
func FuzzTerms(f *testing.F) {
	many := make([]string, 300)
	for i := range many {
		many[i] = strings.Repeat("heat ", i%3) + strings.Repeat("layer flow ", i%2) + string(rune('a'+i%26)) + "x"
	}
	for _, texts := range [][]string{{""}, {"a wing in a slipstream", "heat heat", ""}, many} {
		b := termsFile(f, texts...)
		f.Add(b, "heat flow", false)
		for i := range 24 {
			bad := slices.Clone(b)
			bad[termsHeader*(i%2)+(len(b)-termsHeader*(i%2))*i/24] ^= 1 << (i % 8)
			f.Add(bad, `"heat layer" fl* -ax`, true)
		}
		for _, at := range []int{12, 68, 72, 80, 88, 96, 104} {
			bad := slices.Clone(b)
			binary.LittleEndian.PutUint32(bad[at:], math.MaxUint32>>(at%7))
			f.Add(bad, "+heat flow", true)
		}
		f.Add(b[:len(b)-1], "", false)
	}
	f.Add(bytes.Repeat([]byte{0xff}, 5000), "x", true)
	a, _ := scanner(f)
	f.Fuzz(func(t *testing.T, data []byte, query string, seal bool) {
		if seal {
			data = sealTerms(data)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		file, err := terms.Parse(data, termsIdent(data))
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > uint64(64<<10+len(data)) {
			t.Fatalf("%d bytes allocated for %d bytes of input", got, len(data))
		}
		if err != nil {
			return
		}
		intact := file.Verify() == nil
		q := a.Parse(query)
		live := bitset.New(file.Rows())
		live.Fill(file.Rows() / 2)
		for _, part := range []terms.Part{{Source: file}, {Source: file, Live: live}} {
			s, err := terms.Prepare(context.Background(), q, terms.Params{K1: 1.2, B: 0.75}, []terms.Part{part})
			if err == nil {
				_, err = s.Matches(0)
			}
			if err == nil {
				c := topk.New(3, math.Inf(-1))
				var buf terms.Buffer
				err = s.Scan(0, 0, file.Rows(), part.Live, c, &buf)
				for _, cand := range topk.Merge(c) {
					if _, err := s.Score(0, int(cand.Row)); err != nil && intact {
						t.Fatal(err)
					}
				}
			}
			if err != nil && intact {
				t.Fatal(err)
			}
		}
		if file.Rows() > 1<<16 {
			return
		}
		_, err = terms.Build(terms.Ident{Rows: file.Rows()}, terms.Input{Source: file})
		if err != nil && intact && !errors.Is(err, fileformat.ErrDamaged) {
			t.Fatal(err)
		}
	})
}

// FuzzText takes any text and query. Analysis, queries and passages do not fail, and what an index
// of the text finds is what the passage marks.
func FuzzText(f *testing.F) {
	for _, c := range [][2]string{
		{"The quick brown fox's parseHTTPHeader(os.ReadFile)", `quick +fox -dog "brown fox" pars*`},
		{"私は東京都に住む。カタカナ ｶﾞ 한국어", "東京 水"}, {"e\u0301 ﬁ ß İ \xff\xfe", `"`}, {"a-b_c.d'e", "+ - * \"\""},
	} {
		f.Add(c[0], c[1], 20)
		for i, document := range variants([]byte(c[0]), 12) {
			f.Add(string(document), string(variants([]byte(c[1]), 12)[i]), 5*i)
		}
	}
	a, s := scanner(f)
	f.Fuzz(func(t *testing.T, document, query string, width int) {
		tokens, positions := s.Tokens(nil, document)
		for _, tok := range tokens {
			if tok.Start < 0 || tok.End > len(document) || tok.Start >= tok.End || tok.Position < 0 || tok.Position >= positions || tok.Term == "" {
				t.Fatalf("%+v of %d bytes", tok, len(document))
			}
		}
		q := a.Parse(query)
		sn := s.Highlight(&q, document, width, nil)
		if sn.Start < 0 || sn.Start+len(sn.Text) > len(document) || document[sn.Start:sn.Start+len(sn.Text)] != sn.Text {
			t.Fatalf("%+v", sn)
		}
		x := terms.NewIndex()
		x.Add(tokens)
		search, err := terms.Prepare(context.Background(), q, terms.Params{K1: 1.2, B: 0.75}, []terms.Part{{Source: x.View(1)}})
		if err != nil {
			t.Fatal(err)
		}
		score, err := search.Score(0, 0)
		if err != nil || (score > 0) != (len(sn.Marks) > 0) {
			t.Fatalf("%q in %q: score %v, %v, marks %+v", query, document, score, err, sn)
		}
	})
}
