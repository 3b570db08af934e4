package exchange

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/csvhead"
	"github.com/vecbolt/vecbolt/internal/docjson"
)

// csvSource reads rows under a header of names (RFC 4180). The names are keys of ParseDocument: a
// vector is a JSON array in its cell, metadata a JSON object, and null removes either. Other
// columns become fields of the metadata: int64 or float64 if the cell is a number of JSON,
// otherwise a string. An empty cell is absent, and so is a column without a name, where some
// programs write row numbers. In a quoted cell, encoding/csv reads the line break \r\n as \n.
type csvSource struct{ in *input }

func (s *csvSource) Total() int64 { return s.in.size }

func (s *csvSource) Documents(ctx context.Context) iter.Seq2[*ImportedDocument, error] {
	return func(yield func(*ImportedDocument, error) bool) {
		f, err := s.in.open(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		defer f.Close()
		r, err := s.reader(f)
		if err != nil {
			yield(nil, &FormatError{Name: s.in.path, Line: 1, Err: err})
			return
		}
		for {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			doc, err := r.next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(doc, nil) {
				return
			}
		}
	}
}

// A csvReader reads the rows of one file.
type csvReader struct {
	name  string
	csv   *csv.Reader
	names []string
	// Columns that give a part, in order of preference: the first with a cell does.
	id, text, vector, metadata []int
	scratch                    []float32
}

// reader reads the header.
func (s *csvSource) reader(f io.Reader) (*csvReader, error) {
	in := bufio.NewReader(f)
	switch head, _ := in.Peek(len(byteOrderMark)); {
	case string(head) == byteOrderMark:
		_, _ = in.Discard(len(byteOrderMark))
	case inUTF16(head):
		return nil, errUTF16
	}
	r := &csvReader{name: s.in.path, csv: csv.NewReader(in)}
	head, _ := in.Peek(in.Size())
	var stated bool
	r.csv.Comma, stated = csvhead.Separator(string(head), strings.EqualFold(filepath.Ext(s.in.path), ".tsv"))
	if stated { // read as a row, so that lines are counted
		if _, err := r.csv.Read(); err != nil {
			return nil, err
		}
		r.csv.FieldsPerRecord = 0 // the number of names counts
	}
	names, err := r.csv.Read()
	if errors.Is(err, io.EOF) {
		err = errors.New("no header")
	}
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool, len(names))
	for i, name := range names {
		if !utf8.ValidString(name) { // no row could be stored
			return nil, fmt.Errorf("the name of column %d is not valid UTF-8", i+1)
		}
		names[i] = strings.TrimSpace(name)
		if seen[names[i]] {
			return nil, fmt.Errorf("two columns are named %.40q", names[i])
		}
		seen[names[i]] = names[i] != ""
	}
	columns := func(keys ...string) (at []int) {
		for _, key := range keys {
			if i := slices.Index(names, key); i >= 0 {
				at = append(at, i)
			}
		}
		return at
	}
	r.names = names
	r.id, r.metadata = columns("id", "_id"), columns("metadata")
	r.text = columns(append([]string{"text"}, textKeys...)...)
	r.vector = columns(append([]string{"vector", "embedding"}, vectorKeys...)...)
	return r, nil
}

// next reads a row.
func (r *csvReader) next() (*ImportedDocument, error) {
	record, err := r.csv.Read()
	if err != nil && (len(record) == 0 || !errors.Is(err, csv.ErrFieldCount)) {
		if parse, ok := errors.AsType[*csv.ParseError](err); ok {
			return nil, &FormatError{Name: r.name, Line: int64(parse.Line), Offset: int64(parse.Column), Err: parse.Err}
		}
		return nil, err
	}
	line, _ := r.csv.FieldPos(0)
	doc := &ImportedDocument{Position: Position{File: r.name, Unit: "line", N: int64(line)}, Done: r.csv.InputOffset()}
	if err != nil {
		doc.Skip = fmt.Errorf("%d cells under %d names", len(record), len(r.names))
		return doc, nil
	}
	doc.Skip = withID(&doc.Document, r.fill(doc, record))
	return doc, nil
}

// fill copies the cells of a row to a document.
func (r *csvReader) fill(doc *ImportedDocument, record []string) error {
	d := &doc.Document
	cell := func(columns []int) int {
		for _, i := range columns {
			if record[i] != "" {
				return i
			}
		}
		return -1
	}
	id, text, vector, metadata := cell(r.id), cell(r.text), cell(r.vector), cell(r.metadata)
	if id >= 0 {
		d.ID = record[id]
	}
	if text >= 0 {
		doc.Carries |= db.WithText
		d.Text = record[text]
	}
	if vector >= 0 {
		doc.Carries |= db.WithVector
		v := docjson.NewReader([]byte(record[vector]))
		var err error
		if d.Vector, err = v.OptionalVector(&r.scratch); err == nil {
			err = v.End()
		}
		if err != nil {
			return fmt.Errorf("column %q: %w", r.names[vector], err)
		}
	}
	if metadata >= 0 {
		doc.Carries |= db.WithMetadata
		m, err := docjson.ReadMetadata([]byte(record[metadata]))
		if err != nil {
			return fmt.Errorf("column %q: %w", r.names[metadata], err)
		}
		d.Metadata = m
	}
	for i, value := range record {
		if value == "" || r.names[i] == "" || i == id || i == text || i == vector || i == metadata {
			continue
		}
		doc.Carries |= db.WithMetadata
		if err := addField(d, r.names[i], cellValue(value)); err != nil {
			return err
		}
	}
	if len(d.Metadata) == 0 {
		d.Metadata = nil
	}
	return nil
}

// cellValue returns a number if the cell is written as JSON writes numbers, otherwise the text: 007
// and +4 are no numbers, nor is what int64 and float64 cannot hold.
func cellValue(cell string) any {
	if c := cell[0]; c != '-' && (c < '0' || c > '9') {
		return cell
	}
	r := docjson.NewReader([]byte(cell))
	v, err := r.Value()
	if err != nil || r.Offset() < int64(len(cell)) {
		return cell
	}
	return v
}
