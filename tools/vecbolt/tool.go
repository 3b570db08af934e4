package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/exchange"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// A tool is the environment of a verb: input, output and messages.
type tool struct {
	json   bool          // answer with JSON objects, one per line
	in     io.Reader     // a read ends when the verb is interrupted
	out    *bufio.Writer // the answer; flushed when the verb returns
	report io.Writer     // messages for people
}

// line answers with one JSON object.
func (t *tool) line(v any) error {
	enc := json.NewEncoder(t.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// answer answers with v as JSON, or with text for people.
func (t *tool) answer(v any, format string, args ...any) error {
	if t.json {
		return t.line(v)
	}
	_, err := fmt.Fprintf(t.out, format+"\n", args...)
	return err
}

// notef prints a message that is not part of the answer.
func (t *tool) notef(format string, args ...any) {
	fmt.Fprintf(t.report, "vecbolt: "+format+"\n", args...)
}

// table answers with a table for people. Columns of numbers are aligned to the right.
func (t *tool) table(header table.Row, rows []table.Row) error {
	w := newTable()
	w.AppendHeader(header)
	w.AppendRows(rows)
	return t.render(w)
}

// newTable returns an empty table without lines between its cells.
func newTable() table.Writer {
	w := table.NewWriter()
	style := table.StyleLight
	style.Options = table.OptionsNoBordersAndSeparators
	style.Format.Header = text.FormatDefault
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	w.SetStyle(style)
	return w
}

func (t *tool) render(w table.Writer) error {
	for line := range strings.Lines(w.Render()) {
		if _, err := fmt.Fprintln(t.out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// A longTable answers with a table in parts, so that only one is in memory. Its cells are texts of
// one line.
type longTable struct {
	header  table.Row
	columns []table.ColumnConfig // nil before the first part
}

// add prints the next rows. Columns are as wide as in earlier parts, or wider.
func (l *longTable) add(t *tool, rows []table.Row) error {
	w := newTable()
	shown := rows
	if l.columns == nil {
		w.AppendHeader(l.header)
		l.columns = make([]table.ColumnConfig, len(l.header))
		shown = append([]table.Row{l.header}, rows...)
	}
	for i := range l.columns {
		c := &l.columns[i]
		c.Number = i + 1
		for _, row := range shown {
			c.WidthMin = max(c.WidthMin, text.StringWidthWithoutEscSequences(fmt.Sprint(row[i])))
		}
	}
	w.SetColumnConfigs(l.columns)
	w.AppendRows(rows)
	return t.render(w)
}

// terminal returns the file behind w if it is a terminal.
func terminal(w io.Writer) (*os.File, bool) {
	f, ok := w.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}

// open opens a file to read; "-" is the standard input. To open a pipe waits for its writer, and so
// do reads: both end with ctx.
func (t *tool) open(ctx context.Context, name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(t.in), nil
	}
	f, err := await(ctx, func() (*os.File, error) { return os.Open(name) })
	if err != nil {
		return nil, err
	}
	return vfs.Interruptible(ctx, f), nil
}

// openSource is exchange.Open, and ends with ctx.
func openSource(ctx context.Context, name string, o exchange.OpenOptions) (exchange.Source, error) {
	return await(ctx, func() (exchange.Source, error) { return exchange.Open(name, &o) })
}

// await returns what fn returns, or the error of ctx if that ends first. Then fn goes on until the
// process ends.
func await[T any](ctx context.Context, fn func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := fn()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// A waitingInput is an input whose reads end with ctx, even those that wait for more.
type waitingInput struct {
	*io.PipeReader
	begin func()
}

func newWaitingInput(ctx context.Context, in io.Reader) *waitingInput {
	r, w := io.Pipe()
	context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) })
	return &waitingInput{r, sync.OnceFunc(func() { // a verb without input takes none from the shell
		go func() { // ends with the process, if in never does
			_, err := io.Copy(w, in)
			w.CloseWithError(err)
		}()
	})}
}

// Read implements io.Reader.
func (w *waitingInput) Read(b []byte) (int, error) {
	w.begin()
	return w.PipeReader.Read(b)
}

// inputName returns the name of an input file for messages.
func inputName(name string) string {
	if name == "-" {
		return "standard input"
	}
	return name
}

// parts are the flags for the shown parts of a document.
type parts struct {
	WithVector bool `help:"Show vectors."`
	NoText     bool `help:"Omit texts."`
	NoMetadata bool `help:"Omit metadata."`
}

func (p parts) selection() db.Select {
	s := db.Everything
	if !p.WithVector {
		s &^= db.WithVector
	}
	if p.NoText {
		s &^= db.WithText
	}
	if p.NoMetadata {
		s &^= db.WithMetadata
	}
	return cmp.Or(s, db.IDsOnly)
}

// columns returns the header and the cells of documents in tables.
func (p parts) columns() table.Row {
	row := table.Row{"id"}
	if !p.NoText {
		row = append(row, "text")
	}
	if !p.NoMetadata {
		row = append(row, "metadata")
	}
	if p.WithVector {
		row = append(row, "vector")
	}
	return row
}

func (p parts) cells(d *db.Document) table.Row {
	row := table.Row{brief(d.ID)}
	if !p.NoText {
		row = append(row, brief(d.Text))
	}
	if !p.NoMetadata {
		row = append(row, brief(metadataJSON(d.Metadata)))
	}
	if p.WithVector {
		row = append(row, brief(vectorText(d.Vector)))
	}
	return row
}

// document answers with one document: a line of JSON that import reads, or a paragraph for people.
func (t *tool) document(d *db.Document, p parts) error {
	if t.json {
		line, err := exchange.AppendDocument(nil, d, p.selection())
		if err != nil {
			return err
		}
		_, err = t.out.Write(line)
		return err
	}
	fmt.Fprintln(t.out, d.ID)
	for _, part := range []struct {
		name, value string
	}{{"text", d.Text}, {"metadata", metadataJSON(d.Metadata)}, {"vector", vectorText(d.Vector)}} {
		if part.value != "" {
			fmt.Fprintf(t.out, "  %-8s  %s\n", part.name, strings.ReplaceAll(part.value, "\n", "\n            "))
		}
	}
	return nil
}

func vectorText(v []float32) string {
	if len(v) == 0 {
		return ""
	}
	return fmt.Sprint(v)
}

// brief shortens s to one line, without characters that a terminal would obey.
func brief(s string) string {
	const width = 60
	if len(s) > 8*width {
		s = s[:8*width]
	}
	words := strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
	return text.Snip(strings.Join(words, " "), width, "…")
}

// metadataJSON returns m as JSON that distinguishes an integer from a float64; empty for no
// metadata.
func metadataJSON(m db.Metadata) string {
	if len(m) == 0 {
		return ""
	}
	line, err := exchange.AppendDocument(nil, &db.Document{Metadata: m}, db.WithMetadata)
	if err != nil {
		return err.Error()
	}
	_, object, _ := strings.Cut(string(line), `"metadata":`)
	return strings.TrimSuffix(object, "}\n")
}
