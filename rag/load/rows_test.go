package load

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestDistinctColumns: columns that repeat a name get the next free number, in linear time.
func TestDistinctColumns(t *testing.T) {
	for _, c := range []struct{ columns, want []string }{
		{[]string{"a", "b", "a", "", "a", ""}, []string{"a", "b", "a_2", "", "a_3", ""}},
		{[]string{"a", "a", "a_2", "a_2", "a"}, []string{"a", "a_3", "a_2", "a_2_2", "a_4"}},
	} {
		if got := distinct(c.columns); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.columns, got, c.want)
		}
	}
	names := distinct(slices.Repeat([]string{"a"}, 200_000))
	if slices.Sort(names); len(slices.Compact(names)) != 200_000 {
		t.Error("names repeat")
	}
}

// TestOpenQuotes: a quote without an end breaks its own row, not the rows below.
func TestOpenQuotes(t *testing.T) {
	many := strings.Repeat("\"a\n", 5000)
	for _, tt := range []struct {
		name, file, content string
		rows                []int // with documents
		lines               []int
		skipped             []string
	}{
		{"tabs", "a.tsv", "id\ttext\n1\t\"Hello she said\n2\tsecond\n3\tthird\n", []int{2, 3}, []int{3, 4}, []string{"row 1: broken: line 2: a quote without an end"}},
		{"no line end", "a.csv", "id,text\n1,one\n2,\"two", []int{1}, []int{2}, []string{"row 2: broken: line 3: a quote"}},
		{"only a quote", "a.csv", "id,text\n1,\"\n2,two\n", []int{2}, []int{3}, []string{"row 1: broken: line 2: a quote"}},
		{"cells of several lines", "a.csv", "id,text\n1,\"two\nlines\"\n\"two\nlines\",\"open\n\n4,four\n", []int{1, 3}, []int{2, 7}, []string{"row 2: broken: line 5: a quote"}},
		{"several", "a.csv", "id,text\n1,\"one\n2,\"two\n3,three\n4,\"four\"\"\n5,5\" wide\n", []int{3, 5}, []int{4, 6}, []string{"line 2:", "line 3:", "line 5:"}},
		{"quotes in cells", "a.csv", "id,text\n1,5\" wide\n2,\"say \"hi\" to\nme\"\n", []int{1, 2}, []int{2, 3}, nil},
		{"header", "a.csv", "id,\"text\n1,one\n", nil, nil, []string{"a.csv: broken: line 1: a quote without an end"}},
		{"separator", "a.csv", "sep=;\r\nid;text\r\n1;one\r\n2;\"two\r\n3;three\r\n", []int{1, 3}, []int{3, 5}, []string{"row 2: broken: line 4:"}},
		{"only a separator", "a.csv", "sep=;\n", nil, nil, nil},
		{"many", "a.csv", "text\n" + many + "b\n", []int{5001}, []int{5002}, slices.Repeat([]string{"a quote without an end"}, 5000)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			docs, skipped := read(t, tt.file, tt.content, nil)
			var rows, lines []int
			for _, d := range docs {
				rows, lines = append(rows, d.Row), append(lines, d.Line(0))
				if d.Metadata["id"] == nil && tt.name != "many" || d.Text == "" {
					t.Errorf("%v", d)
				}
			}
			if !slices.Equal(rows, tt.rows) || !slices.Equal(lines, tt.lines) {
				t.Errorf("rows %v in lines %v", rows, lines)
			}
			if len(skipped) != len(tt.skipped) {
				t.Fatalf("%d skipped, %.300v", len(skipped), skipped)
			}
			for i, want := range tt.skipped {
				if !strings.Contains(skipped[i].Error(), want) || !errors.Is(skipped[i], ErrBroken) {
					t.Errorf("%v, want %q", skipped[i], want)
				}
			}
		})
	}
}

// TestOpenQuotesTakeLittle: the lines below a quote without an end are read with one buffer.
func TestOpenQuotesTakeLittle(t *testing.T) {
	const n = 20_000
	content := "text\n\"open\n" + strings.Repeat("a\n", n)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	docs, skipped := read(t, "a.csv", content, nil)
	runtime.ReadMemStats(&after)
	if len(docs) != n || len(skipped) != 1 {
		t.Fatalf("%d documents, %v", len(docs), skipped)
	}
	if got := (after.TotalAlloc - before.TotalAlloc) / n; got > 3000 {
		t.Errorf("%d bytes for each line", got)
	}
}
