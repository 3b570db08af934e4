package load

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/vecbolt/vecbolt/internal/csvhead"
)

// textFields are the usual names of the text field, in order of preference.
var textFields = []string{"text", "content", "body", "page_content", "document"}

// rows reads a file with a document in each row. It reports whether the caller should continue.
func (r *reader) rows(b []byte, tabs bool) bool {
	text, err := decode(b)
	if err != nil {
		return r.yield(nil, &SkipError{Source: r.source, Err: err})
	}
	if r.format == "jsonl" {
		return r.jsonl(text)
	}
	return r.csv(text, tabs)
}

// emit yields the document of a row and reports whether the caller should continue.
func (r *reader) emit(row, line int, fields map[string]any, names []string, err error) bool {
	doc := &Document{Source: r.source, Row: row, Format: r.format, Metadata: map[string]any{}, line: line - 1}
	if err == nil {
		doc.fill(fields, names)
		if strings.TrimSpace(doc.Text) == "" {
			err = ErrEmpty
		}
	}
	if err != nil {
		return r.yield(nil, &SkipError{Source: r.source, Row: row, Err: err})
	}
	return r.yield(doc, nil)
}

// fill takes the text from the text field of a row, or builds it from all fields. The remaining
// fields become metadata.
func (d *Document) fill(fields map[string]any, names []string) {
	for _, name := range textFields {
		if text, ok := fields[name].(string); ok {
			d.Text = newlines(text)
			delete(fields, name)
			break
		}
	}
	d.Title, _ = fields["title"].(string)
	whole := d.Text == ""
	var all strings.Builder
	for _, name := range names {
		v, ok := fields[name]
		if !ok || name == "" {
			continue
		}
		d.Metadata[name] = plain(v)
		if whole && v != nil && v != "" {
			fmt.Fprintf(&all, "%s: %v\n", name, v)
		}
	}
	if whole {
		d.Text = all.String()
	}
}

func (r *reader) csv(text string, tabs bool) bool {
	comma, stated := csvhead.Separator(text, tabs)
	var names []string
	row := -1 // of the names
	if stated {
		row-- // the line is read as a row, so that lines are counted
	}
	for line, record := range records(text, comma) {
		row++
		if r.ctx.Err() != nil {
			r.yield(nil, r.ctx.Err())
			return false
		}
		var err error
		switch {
		case record == nil:
			err = fmt.Errorf("%w: line %d: a quote without an end", ErrBroken, line)
		case row > 0 && len(record) > len(names):
			err = fmt.Errorf("%w: %d fields under %d names", ErrBroken, len(record), len(names))
		}
		if row < 0 {
			continue
		}
		if row == 0 && err != nil {
			return r.yield(nil, &SkipError{Source: r.source, Err: err})
		}
		if row == 0 {
			names = distinct(record)
			continue
		}
		fields := make(map[string]any, len(record))
		for i, v := range record[:min(len(record), len(names))] {
			fields[names[i]] = v
		}
		if !r.emit(row, line, fields, names, err) {
			return false
		}
	}
	return true
}

// records yields the rows of a CSV file, each with its line. A row with a quote that has no end is
// nil, with the line of the quote, and the next row begins below. From there on each line is a row:
// if other quotes reached across lines, the first one would end there.
func records(text string, comma rune) iter.Seq2[int, []string] {
	// end follows the rows. If it becomes a part of a cell, the quote of the cell has no end. No
	// text has zero characters.
	const end = "\x00"
	return func(yield func(int, []string) bool) {
		above, single := 0, false // above: lines before text
		buffer := bufio.NewReader(nil)
		for text != "" {
			rows := text
			if single {
				rows, _, _ = strings.Cut(text, "\n")
			}
			buffer.Reset(io.MultiReader(strings.NewReader(rows), strings.NewReader("\n"+end)))
			dec := csv.NewReader(buffer)
			dec.Comma, dec.FieldsPerRecord, dec.LazyQuotes = comma, -1, true
			below := 1 // lines, after which reading continues
			for {
				record, err := dec.Read()
				if err != nil { // with LazyQuotes there are no errors
					yield(above+below, nil)
					return
				}
				line, _ := dec.FieldPos(0)
				last := len(record) - 1
				if last == 0 && record[0] == end {
					break
				}
				if strings.HasSuffix(record[last], end) {
					line, _ = dec.FieldPos(last) // of the quote
					record, below, single = nil, line, true
				}
				if !yield(above+line, record) {
					return
				}
				if record == nil {
					break
				}
			}
			if !single {
				return
			}
			above += below
			for range below {
				_, text, _ = strings.Cut(text, "\n")
			}
		}
	}
}

// distinct numbers the columns that repeat a name: n, n_2, n_3. pandas keeps them too, as n.1 and
// n.2, which in metadata would be parts of n.
func distinct(columns []string) []string {
	taken := map[string]bool{}
	for _, name := range columns {
		taken[name] = true
	}
	names, last := make([]string, len(columns)), map[string]int{} // last number of a name, 0 if it is new
	for i, column := range columns {
		names[i] = column
		n := last[column]
		for n > 0 && column != "" {
			n++
			if names[i] = fmt.Sprintf("%s_%d", column, n); !taken[names[i]] {
				break
			}
		}
		taken[names[i]], last[column] = true, max(n, 1)
	}
	return names
}

func (r *reader) jsonl(text string) bool {
	row, line := 0, 0
	for s := range strings.Lines(text) {
		line++
		if strings.TrimSpace(s) == "" {
			continue
		}
		row++
		if r.ctx.Err() != nil {
			r.yield(nil, r.ctx.Err())
			return false
		}
		fields, names, err := object(s)
		if !r.emit(row, line, fields, names, err) {
			return false
		}
	}
	return true
}

// object decodes one JSON object; names is the order of its fields. Of fields with the same name,
// the last one counts.
func object(s string) (fields map[string]any, names []string, err error) {
	dec := json.NewDecoder(strings.NewReader(s))
	dec.UseNumber()
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, nil, fmt.Errorf("%w: not a JSON object", ErrBroken)
	}
	fields = map[string]any{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %w", ErrBroken, err)
		}
		var v any
		if err := dec.Decode(&v); err != nil {
			return nil, nil, fmt.Errorf("%w: %w", ErrBroken, err)
		}
		name, _ := key.(string)
		if _, again := fields[name]; !again {
			names = append(names, name)
		}
		fields[name] = numbers(v)
	}
	if _, err := dec.Token(); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	if rest, _ := io.ReadAll(dec.Buffered()); len(bytes.TrimSpace(rest)) > 0 {
		return nil, nil, fmt.Errorf("%w: more than one JSON value", ErrBroken)
	}
	return fields, names, nil
}

// numbers converts whole numbers to integers.
func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
		return v.String()
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	}
	return v
}
