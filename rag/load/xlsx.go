package load

import (
	"context"
	"encoding/xml"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxColumns is the number of columns of a sheet.
const maxColumns = 16_384

// readXLSX reads a workbook (ECMA-376) as Markdown: a heading for each sheet, and a line for each
// row. Rows below a row of names repeat the names, so that each line is understood by itself. Dates
// are written as ISO 8601, other numbers as stored, formulas as their last result. Hidden sheets
// are left out.
func readXLSX(ctx context.Context, doc *Document, b []byte, limit int64) error {
	a, err := openArchive(ctx, b, limit)
	if err != nil {
		return err
	}
	doc.Title = a.title()
	const main = "xl/workbook.xml"
	var book struct {
		Properties struct {
			Date1904 string `xml:"date1904,attr"`
		} `xml:"workbookPr"`
		Sheets []struct {
			Name  string `xml:"name,attr"`
			State string `xml:"state,attr"`
			Rel   string `xml:"http://schemas.openxmlformats.org/officeDocument/2006/relationships id,attr"`
			Old   string `xml:"http://purl.oclc.org/ooxml/officeDocument/relationships id,attr"`
		} `xml:"sheets>sheet"`
	}
	if err := a.unmarshal(main, &book); err != nil {
		return err
	}
	if len(book.Sheets) > maxParts {
		return fmt.Errorf("%w: %s: more than %d sheets", ErrTooLarge, main, maxParts)
	}
	rels, err := a.relations(main)
	if err != nil {
		return err
	}
	s := &sheet{text: newMarkdown(limit), from1904: book.Properties.Date1904 == "1" ||
		book.Properties.Date1904 == "true"}
	parts := map[string]string{}
	for _, r := range rels {
		switch {
		case r.is("worksheet"):
			parts[r.ID] = r.Target
		case r.is("sharedStrings"):
			err = a.walk(r.Target, &sharedStrings{sheet: s})
		case r.is("styles"):
			s.dates, err = a.dateStyles(r.Target)
		}
		if err != nil {
			return err
		}
	}
	for _, one := range book.Sheets {
		name, ok := parts[one.Rel+one.Old]
		if !ok || one.State == "hidden" || one.State == "veryHidden" { // a chart has no rows
			continue
		}
		s.name, s.row = one.Name, 0
		if err := a.walk(name, s); err != nil {
			return err
		}
		if err := inPart(name, s.endBlock()); err != nil {
			return err
		}
	}
	doc.Text = strings.TrimSpace(s.text.String())
	return nil
}

// sharedStrings reads the table of strings of a workbook.
type sharedStrings struct {
	sheet   *sheet
	size    int64
	text    strings.Builder
	inText  bool
	reading bool // inside a pronunciation, which is not text of the cell
}

func (s *sharedStrings) chars(text []byte) {
	if s.inText && !s.reading {
		s.text.Write(text)
	}
}

func (s *sharedStrings) start(t xml.StartElement) error {
	switch t.Name.Local {
	case "t":
		s.inText = true
	case "rPh":
		s.reading = true
	}
	return nil
}

func (s *sharedStrings) end(name string) error {
	switch name {
	case "t":
		s.inText = false
	case "rPh":
		s.reading = false
	case "si":
		text := oneLine(s.text.String())
		s.sheet.shared = append(s.sheet.shared, text)
		s.text.Reset()
		if s.size += int64(len(text)) + 16; s.size > s.sheet.text.limit { // 16: of a string in Go
			return fmt.Errorf("%w: more than %d bytes of text", ErrTooLarge, s.sheet.text.limit)
		}
	}
	return nil
}

// numberFormat matches the parts of a number format that are not a pattern: quoted and escaped
// text, colours and conditions (ECMA-376, part 1, 18.8.31).
var numberFormat = regexp.MustCompile(`"[^"]*"|\\.|_.|\*.|\[[^\]]*\]`)

// dateStyles returns, by style of a cell, whether its number is a date.
func (a *archive) dateStyles(name string) ([]bool, error) {
	var styles struct {
		Formats []struct {
			ID   int    `xml:"numFmtId,attr"`
			Code string `xml:"formatCode,attr"`
		} `xml:"numFmts>numFmt"`
		Cells []struct {
			ID int `xml:"numFmtId,attr"`
		} `xml:"cellXfs>xf"`
	}
	if err := a.unmarshal(name, &styles); err != nil {
		return nil, err
	}
	own := map[int]bool{}
	for _, f := range styles.Formats {
		code := strings.ToLower(numberFormat.ReplaceAllString(f.Code, ""))
		own[f.ID] = strings.ContainsAny(code, "ymdhs") && !strings.Contains(code, "general")
	}
	dates := make([]bool, len(styles.Cells))
	for i, c := range styles.Cells {
		date, custom := own[c.ID]
		builtin := c.ID >= 14 && c.ID <= 22 || c.ID >= 27 && c.ID <= 36 || c.ID >= 45 && c.ID <= 47 ||
			c.ID >= 50 && c.ID <= 58
		dates[i] = date || !custom && builtin
	}
	return dates, nil
}

// A cell is a cell with text.
type cell struct {
	column int
	text   string
	number bool
}

// sheet collects the rows of sheets. Rows without an empty row between them are a block.
type sheet struct {
	text     *markdown
	shared   []string
	dates    []bool
	from1904 bool

	name    string         // written before the first block
	row     int            // number of the last row, from 1
	cells   []cell         // of the row
	first   []cell         // of the block
	names   map[int]string // of the columns of the block
	open    bool           // the block has more than its first row
	column  int            // of the last cell, from 1
	kind    string         // of the cell
	style   int
	value   strings.Builder
	inText  bool
	reading bool // inside a pronunciation
}

func (s *sheet) chars(text []byte) {
	if s.inText && !s.reading {
		s.value.Write(text)
	}
}

func (s *sheet) start(t xml.StartElement) error {
	switch t.Name.Local {
	case "row":
		number := s.row + 1
		if n, err := strconv.Atoi(attr(t, "r")); err == nil && n > s.row {
			number = n
		}
		if number > s.row+1 {
			if err := s.endBlock(); err != nil {
				return err
			}
		}
		s.row, s.column = number, 0
	case "c":
		s.column++
		if n := columnNumber(attr(t, "r")); n > 0 {
			s.column = n
		}
		s.kind = attr(t, "t")
		s.style, _ = strconv.Atoi(attr(t, "s"))
		s.value.Reset()
	case "v", "t":
		s.inText = true
	case "rPh":
		s.reading = true
	}
	return nil
}

func (s *sheet) end(name string) error {
	switch name {
	case "v", "t":
		s.inText = false
	case "rPh":
		s.reading = false
	case "c":
		text, number, err := s.cell(strings.TrimSpace(s.value.String()))
		if err != nil {
			return fmt.Errorf("row %d: %w", s.row, err)
		}
		if text != "" && len(s.cells) == maxColumns {
			return fmt.Errorf("%w: row %d: more than %d cells", ErrBroken, s.row, maxColumns)
		}
		if text != "" {
			s.cells = append(s.cells, cell{s.column, text, number})
		}
	case "row":
		if len(s.cells) == 0 {
			return s.endBlock()
		}
		row := s.cells
		s.cells = nil
		return s.add(row)
	}
	return nil
}

// cell returns the text of a cell, and whether it is a number.
func (s *sheet) cell(value string) (text string, number bool, err error) {
	switch s.kind {
	case "s":
		i, err := strconv.Atoi(value)
		if err != nil || i < 0 || i >= len(s.shared) {
			return "", false, fmt.Errorf("%w: no shared string %.20q", ErrBroken, value)
		}
		return s.shared[i], false, nil
	case "b":
		return map[string]string{"0": "false", "1": "true"}[value], true, nil
	case "inlineStr", "str", "e":
		return oneLine(value), false, nil
	case "d":
		return value, true, nil
	}
	f, err := strconv.ParseFloat(value, 64)
	if err != nil || value == "" {
		return oneLine(value), false, nil
	}
	if s.style >= 0 && s.style < len(s.dates) && s.dates[s.style] {
		return date(f, s.from1904), true, nil
	}
	if math.Abs(f) < 1e15 { // Excel shows 15 digits, and stores 0.1+0.2 as 0.30000000000000004
		f, _ = strconv.ParseFloat(strconv.FormatFloat(f, 'g', 15, 64), 64)
		return strconv.FormatFloat(f, 'f', -1, 64), true, nil
	}
	return value, true, nil
}

// date returns a serial number of a workbook as a date, a time, or both (ECMA-376, part 1,
// 18.17.4).
func date(serial float64, from1904 bool) string {
	if !(serial >= 0 && serial < 2_958_466) { // after the year 9999
		return strconv.FormatFloat(serial, 'g', -1, 64)
	}
	day := time.Date(1899, 12, 30, 0, 0, 0, 0, time.UTC)
	switch {
	case from1904:
		day = time.Date(1904, 1, 1, 0, 0, 0, 0, time.UTC)
	case serial < 60: // the format counts 29 February 1900, which did not exist
		day = day.AddDate(0, 0, 1)
	}
	whole, part := math.Modf(serial)
	seconds := int(math.Round(part * 86400))
	t := day.AddDate(0, 0, int(whole)).Add(time.Duration(seconds) * time.Second)
	switch {
	case seconds == 0:
		return t.Format(time.DateOnly)
	case whole == 0:
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}

// columnNumber returns the column, from 1, of a cell name such as AB12, or 0.
func columnNumber(name string) int {
	n := 0
	for i := 0; i < len(name) && i < 4 && name[i] >= 'A' && name[i] <= 'Z'; i++ {
		n = n*26 + int(name[i]-'A') + 1
	}
	if n > maxColumns {
		return 0
	}
	return n
}

// add adds a row to its block. The first row waits for the second, to be told from a header.
func (s *sheet) add(row []cell) error {
	if s.first == nil && !s.open {
		s.first = row
		return nil
	}
	if !s.open {
		s.open = true
		if s.names = header(s.first); s.names == nil {
			if err := s.line(s.first); err != nil {
				return err
			}
		}
	}
	return s.line(row)
}

// endBlock ends the block of rows that is open, as an empty row does.
func (s *sheet) endBlock() error {
	if s.first == nil {
		return nil
	}
	if !s.open {
		if err := s.line(s.first); err != nil {
			return err
		}
	}
	s.first, s.names, s.open = nil, nil, false
	s.text.WriteByte('\n')
	return nil
}

// line writes a row.
func (s *sheet) line(row []cell) error {
	if s.name != "" {
		if err := s.text.heading(1, s.name); err != nil {
			return err
		}
		s.name = ""
	}
	for i, c := range row {
		if i > 0 {
			s.text.WriteString("; ")
		}
		if name := s.names[c.column]; name != "" {
			s.text.WriteString(name + ": ")
		}
		s.text.WriteString(c.text)
		if err := s.text.full(); err != nil {
			return err
		}
	}
	s.text.WriteByte('\n')
	return nil
}

// header returns the names in the first row of a block by column, or nil if the row has numbers or
// fewer than two names.
func header(row []cell) map[int]string {
	if len(row) < 2 || slices.ContainsFunc(row, func(c cell) bool { return c.number }) {
		return nil
	}
	names := map[int]string{}
	for _, c := range row {
		names[c.column] = c.text
	}
	return names
}
