package columns

import (
	"fmt"
	"sync"
	"testing"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/bitset"
)

const benchRows = 1_000_000

// benchMeta is a row of a large segment: columns of few, some and many values, and lists.
func benchMeta(row int) map[string]any {
	h := uint64(row) * 0x9e3779b97f4a7c15 >> 32
	return map[string]any{
		"lang":  [...]string{"go", "c", "rust", "java", "python", "zig", "lua", "ada"}[h%8],
		"year":  int64(1990 + h%35),
		"page":  int64(h % 10_000),
		"time":  1_700_000_000_000 + int64(row)*1000 + int64(h%1000),
		"score": float64(h) / (1 << 32),
		"url":   fmt.Sprintf("https://example.org/%08x", h),
		"tags":  []any{fmt.Sprint("tag", h%5), fmt.Sprint("tag", h%1000)},
	}
}

var benchFile = sync.OnceValue(func() []byte {
	b := NewBuilder()
	for row := range benchRows {
		if err := b.Add(row, benchMeta(row)); err != nil {
			panic(err)
		}
	}
	return b.Bytes(benchRows, identOf(benchRows))
})

func benchColumns(b *testing.B) *Columns {
	c, err := Parse(benchFile(), identOf(benchRows))
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func BenchmarkEval(b *testing.B) {
	c := benchColumns(b)
	in := func(n, step int) []any {
		var vs []any
		for i := range n {
			vs = append(vs, int64(i*step))
		}
		return vs
	}
	mid := benchMeta(benchRows / 2)
	for _, bench := range []struct {
		name string
		expr filter.Expr
	}{
		{"eq/8values", filter.Eq("lang", "go")},
		{"eq/10000values", filter.Eq("page", 77)},
		{"eq/int", filter.Eq("time", mid["time"])},
		{"eq/float", filter.Eq("score", mid["score"])},
		{"eq/string", filter.Eq("url", mid["url"])},
		{"range/35values", filter.Gte("year", 2010)},
		{"range/10000values", filter.Lt("page", 2500)},
		{"range/int", filter.Gte("time", mid["time"])},
		{"range/float", filter.Range("score", 0.25, 0.5)},
		{"range/prefix", filter.Prefix("url", "https://example.org/a")},
		{"in/3", filter.In("lang", "go", "c", "lua")},
		{"in/10", filter.In("page", in(10, 3)...)},
		{"in/30", filter.In("page", in(30, 3)...)},
		{"in/50", filter.In("page", in(50, 3)...)},
		{"in/1000", filter.In("page", in(1000, 3)...)},
		{"in/10000", filter.In("page", in(10000, 1)...)},
		{"contains/frequent", filter.Contains("tags", "tag1")},
		{"contains/rare", filter.Contains("tags", "tag777")},
		{"exists", filter.Exists("tags")},
		{"ne", filter.Ne("lang", "go")},
		{"and", filter.And(filter.Eq("lang", "go"), filter.Gte("year", 2010), filter.Contains("tags", "tag3"))},
		{"or", filter.Or(filter.Eq("lang", "go"), filter.And(filter.Lt("page", 100), filter.Ne("year", 2000)))},
	} {
		b.Run(bench.name, func(b *testing.B) {
			dst := bitset.New(benchRows)
			b.ReportAllocs()
			for b.Loop() {
				c.Eval(bench.expr, dst)
			}
			b.ReportMetric(float64(dst.Count()), "hits")
		})
	}
}

func BenchmarkParse(b *testing.B) {
	file := benchFile()
	b.SetBytes(int64(len(file)))
	for b.Loop() {
		benchColumns(b)
	}
}

func BenchmarkAdd(b *testing.B) {
	rows := make([]map[string]any, 100_000)
	for i := range rows {
		rows[i] = benchMeta(i)
	}
	for b.Loop() {
		builder := NewBuilder()
		for i, m := range rows {
			if err := builder.Add(i, m); err != nil {
				b.Fatal(err)
			}
		}
		builder.Bytes(len(rows), identOf(len(rows)))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(rows)), "ns/row")
}

// BenchmarkAddFrom merges four parts of 1 M rows, of which every tenth row is dropped.
func BenchmarkAddFrom(b *testing.B) {
	c := benchColumns(b)
	var runs [4][]int
	for row := range benchRows {
		if row%10 != 0 {
			runs[row*len(runs)/benchRows] = append(runs[row*len(runs)/benchRows], row)
		}
	}
	for b.Loop() {
		builder := NewBuilder()
		at := 0
		for _, rows := range runs {
			if err := builder.AddFrom(c, rows, at); err != nil {
				b.Fatal(err)
			}
			at += len(rows)
		}
		builder.Bytes(at, identOf(at))
	}
}
