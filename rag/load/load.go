package load

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/gabriel-vasile/mimetype"

	"github.com/vecbolt/vecbolt/internal/vfs"
)

// A Document is a text with its position in a file.
type Document struct {
	Source   string // path, or the name given to Read
	Row      int    // row in a file with many documents, from 1; otherwise 0
	Format   Format
	Title    string         // if the file has one
	Text     string         // UTF-8, lines end with \n
	Metadata map[string]any // front matter, fields of a row; string, bool, int64, float64, lists and maps of these

	// Base is the number of bytes of the file before Text: a byte order mark, front matter. If the
	// text is not Exact, Base is an offset in the converted text of the file.
	Base  int
	exact bool  // Text is a part of the file
	line  int   // line of the file at which Text begins, from 0
	pages []int // offsets at which pages begin
}

// Exact reports whether the text is a part of the file, byte for byte, so that Base plus an offset
// in the text is an offset in the file.
func (d *Document) Exact() bool { return d.exact }

// Line returns the line of the file, from 1, at an offset in the text. Of a row it is the line at
// which the row begins. For converted formats, such as HTML, PDF and files of Office programs, it
// is 0: the lines of their text are not in the file.
func (d *Document) Line(offset int) int {
	switch {
	case d.Format.isConverted():
		return 0
	case d.Row > 0:
		return d.line + 1
	}
	return d.line + 1 + strings.Count(d.Text[:min(max(offset, 0), len(d.Text))], "\n")
}

// Page returns the page or slide, from 1, at an offset in the text, or 0 if the format has no
// pages.
func (d *Document) Page(offset int) int {
	return sort.SearchInts(d.pages, offset+1)
}

// A Format says how a file is read and how its text is best split: "text", "markdown", "pdf",
// "code", "csv" (a document per row; TSV too) and "jsonl"; and, read as Markdown, "html", "docx",
// "pptx" (a page per slide, with its notes), "xlsx" (a line per row), "odt", "epub", "ipynb"
// (without outputs), "eml" and "rtf".
type Format string

// Formats that are split in ways of their own.
const (
	Text     Format = "text"
	Markdown Format = "markdown"
	Code     Format = "code"
)

// IsMarkdown reports whether the text of a document of this format is Markdown: headings begin with
// number signs.
func (f Format) IsMarkdown() bool {
	return f == Markdown || f.isConverted() && f != "pdf"
}

// isConverted reports whether the text of a document is made from its file, rather than a part of
// it.
func (f Format) isConverted() bool {
	_, converted := converters[f]
	return converted || f == "html"
}

var extensions = map[string]Format{
	".txt": Text, ".text": Text, ".log": Text, ".rst": Text, ".org": Text, ".tex": Text, ".adoc": Text,
	".md": Markdown, ".markdown": Markdown, ".mdx": Markdown,
	".html": "html", ".htm": "html", ".xhtml": "html",
	".docx": "docx", ".docm": "docx", ".pptx": "pptx", ".pptm": "pptx", ".ppsx": "pptx",
	".xlsx": "xlsx", ".xlsm": "xlsx", ".odt": "odt", ".ott": "odt",
	".epub": "epub", ".ipynb": "ipynb", ".eml": "eml", ".rtf": "rtf",
	".pdf": "pdf", ".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl",
}

// languages of source code, by extension.
var languages = map[string]string{
	".go": "go", ".py": "python", ".js": "javascript", ".mjs": "javascript", ".jsx": "javascript", ".ts": "typescript",
	".tsx": "typescript", ".java": "java", ".kt": "kotlin", ".c": "c", ".h": "c", ".cc": "cpp",
	".cpp": "cpp", ".hpp": "cpp",
	".cs": "csharp", ".rs": "rust", ".rb": "ruby", ".php": "php", ".swift": "swift", ".scala": "scala", ".sh": "shell",
	".bash": "shell", ".sql": "sql", ".lua": "lua", ".pl": "perl", ".r": "r", ".jl": "julia",
	".hs": "haskell", ".ml": "ocaml",
	".ex": "elixir", ".erl": "erlang", ".clj": "clojure", ".zig": "zig", ".s": "assembly", ".proto": "protobuf",
	".yaml": "yaml", ".yml": "yaml", ".toml": "toml", ".json": "json", ".xml": "xml", ".css": "css", ".ini": "ini",
}

// Errors wrapped by a SkipError.
var (
	ErrUnsupported = errors.New("not a format that can be read")
	ErrTooLarge    = errors.New("too large")
	ErrBroken      = errors.New("broken")
	ErrEmpty       = errors.New("no text in it")

	// ErrScanned matches ErrEmpty too: text recognition (OCR) would find the text of the images.
	ErrScanned = fmt.Errorf("%w: its pages are images", ErrEmpty)
)

// A SkipError is the reason for skipping a file or one of its rows.
type SkipError struct {
	Source string
	Row    int // 0: the whole file
	Err    error
}

// Error names the file.
func (e *SkipError) Error() string {
	if e.Row > 0 {
		return fmt.Sprintf("load: skipped %s, row %d: %v", e.Source, e.Row, e.Err)
	}
	return fmt.Sprintf("load: skipped %s: %v", e.Source, e.Err)
}

// Unwrap returns the reason.
func (e *SkipError) Unwrap() error { return e.Err }

// Options tune reading. The zero value, like nil, is the default.
type Options struct {
	// MaxBytes is the maximum size of a file, and of the text taken from it; larger files are
	// skipped. 0 means 64 MiB.
	MaxBytes int64
	// Timeout is the maximum time for converting one file; 0 means a minute.
	Timeout time.Duration
	// Include, if not empty, restricts a directory to files that match one of the patterns. Exclude
	// leaves out files and directories. Patterns have the syntax of .gitignore.
	Include, Exclude []string
	// Skip, if set, reports whether a file or a directory is left out, with all below it.
	Skip func(path string) bool
	// Hidden includes files and directories whose names begin with a dot.
	Hidden bool
	// Ignored includes files and directories that .gitignore and .vecboltignore exclude. These are
	// files in the directory and below it and, if it is in a repository of Git, those above it up
	// to the directory with .git, info/exclude in there, and the user's file core.excludesFile.
	Ignored bool
	// WholePages keeps all of an HTML page. By default navigation and footers are left out, unless
	// they are most of the page, and other parts if the main content can be detected.
	WholePages bool
}

func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	c.MaxBytes = cmp.Or(c.MaxBytes, 64<<20)
	c.Timeout = cmp.Or(c.Timeout, time.Minute)
	return c
}

// Path reads a file, all files of a directory and its subdirectories, or standard input if path is
// "-". Directories are read in order of name. Reading continues after a *SkipError; any other error
// is the last.
func Path(ctx context.Context, path string, opts *Options) iter.Seq2[*Document, error] {
	o := opts.withDefaults()
	return func(yield func(*Document, error) bool) {
		if path == "-" {
			readAll(ctx, "-", os.Stdin, &o, yield)
			return
		}
		for name, err := range Files(ctx, path, opts) {
			if err != nil && !yield(nil, err) || err == nil && !file(ctx, name, &o, yield) {
				return
			}
		}
	}
}

// Files yields the names of the files that Path reads.
func Files(ctx context.Context, path string, opts *Options) iter.Seq2[string, error] {
	o := opts.withDefaults()
	return func(yield func(string, error) bool) {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			yield("", fmt.Errorf("load: %w", err))
		case info.IsDir():
			walk(ctx, path, &o, yield)
		default:
			yield(path, nil)
		}
	}
}

// Read reads the documents of one file from r. The extension of name determines the format; if it
// is unknown, the content does.
func Read(ctx context.Context, name string, r io.Reader, opts *Options) iter.Seq2[*Document, error] {
	o := opts.withDefaults()
	return func(yield func(*Document, error) bool) { readAll(ctx, name, r, &o, yield) }
}

// Bytes reads a whole file, unless it is larger than Options.MaxBytes. The error is a *SkipError
// that names source.
func Bytes(source string, r io.Reader, opts *Options) ([]byte, error) {
	most := opts.withDefaults().MaxBytes
	if f, ok := r.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Size() > most {
			return nil, &SkipError{Source: source,
				Err: fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLarge, info.Size(), most)}
		}
	}
	b, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%w: more than %d bytes", ErrTooLarge, most)
	}
	if err != nil {
		return nil, &SkipError{Source: source, Err: err}
	}
	return b, nil
}

func file(ctx context.Context, source string, o *Options, yield func(*Document, error) bool) bool {
	f, err := vfs.OpenFile(source)
	if err != nil {
		return yield(nil, &SkipError{Source: source, Err: err})
	}
	defer f.Close()
	return readAll(ctx, source, f, o, yield)
}

// readAll yields the documents of one file and reports whether the caller should continue.
func readAll(ctx context.Context, source string, r io.Reader, o *Options, yield func(*Document, error) bool) bool {
	if err := ctx.Err(); err != nil {
		yield(nil, err)
		return false
	}
	b, err := Bytes(source, r, o)
	if err != nil {
		return yield(nil, err)
	}
	ext := strings.ToLower(filepath.Ext(source))
	format, known := extensions[ext]
	language := languages[ext]
	switch {
	case known:
	case language != "":
		format = Code
	default:
		if format, err = sniff(b); err != nil {
			return yield(nil, &SkipError{Source: source, Err: err})
		}
	}
	rd := &reader{ctx: ctx, o: o, source: source, format: format, yield: yield}
	switch format {
	case "csv", "jsonl":
		return rd.rows(b, ext == ".tsv")
	}
	doc, err := rd.whole(b)
	if err == nil && strings.TrimSpace(doc.Text) == "" {
		err = ErrEmpty
	}
	if ctx.Err() != nil {
		yield(nil, ctx.Err())
		return false
	}
	if err != nil {
		return yield(nil, &SkipError{Source: source, Err: err})
	}
	if language != "" {
		doc.Metadata["language"] = language
	}
	return yield(doc, nil)
}

// sniff detects the format from the content.
func sniff(b []byte) (Format, error) {
	m := mimetype.Detect(b)
	for _, f := range []struct {
		mime   string
		format Format
	}{
		{"application/pdf", "pdf"}, {"text/html", "html"}, {"application/x-ndjson", "jsonl"}, {"text/csv", "csv"},
		{"application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"},
		{"application/vnd.openxmlformats-officedocument.presentationml.presentation", "pptx"},
		{"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"},
		{"application/vnd.oasis.opendocument.text", "odt"}, {"application/epub+zip", "epub"},
		{"text/rtf", "rtf"}, {"text/plain", Text},
	} {
		for at := m; at != nil; at = at.Parent() {
			if at.Is(f.mime) {
				return f.format, nil
			}
		}
	}
	return "", fmt.Errorf("%w: %s", ErrUnsupported, m)
}

// reader reads one file.
type reader struct {
	ctx    context.Context
	o      *Options
	source string
	format Format
	yield  func(*Document, error) bool
}

// converters read the formats that are no text. limit is the maximum size of the text.
var converters = map[Format]func(ctx context.Context, doc *Document, b []byte, limit int64) error{
	"pdf": readPDF, "docx": readDOCX, "pptx": readPPTX, "xlsx": readXLSX, "odt": readODT, "epub": readEPUB,
	"ipynb": readNotebook, "eml": readMail,
	"rtf": readRTF,
}

// whole reads a file that holds one document.
func (r *reader) whole(b []byte) (*Document, error) {
	doc := &Document{Source: r.source, Format: r.format, Metadata: map[string]any{}}
	if r.format == "html" {
		return doc, r.convert(func(context.Context) error { return readHTML(doc, b, r.o.WholePages, r.o.MaxBytes) })
	}
	if read := converters[r.format]; read != nil {
		return doc, r.convert(func(ctx context.Context) error { return read(ctx, doc, b, r.o.MaxBytes) })
	}
	text, err := decode(b)
	if err != nil {
		return nil, err
	}
	rest := bytes.TrimPrefix(b, []byte(mark))
	if doc.Text, doc.exact = text, text == string(rest); doc.exact {
		doc.Base = len(b) - len(rest)
	}
	if r.format == Markdown {
		err = r.convert(func(context.Context) error { return frontMatter(doc) })
	}
	return doc, err
}

// convert runs an untrusted conversion and turns its panics into errors. After the timeout convert
// returns; the conversion sees it at its next check and ends.
func (r *reader) convert(fn func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(r.ctx, r.o.Timeout)
	defer cancel()
	late := fmt.Errorf("%w: not read within %v", ErrTooLarge, r.o.Timeout)
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("%w: %v", ErrBroken, p)
			}
		}()
		done <- fn(ctx)
	}()
	select {
	case err := <-done:
		if err != nil && ctx.Err() != nil {
			return late
		}
		if err != nil && !errors.Is(err, ErrTooLarge) && !errors.Is(err, ErrUnsupported) &&
			!errors.Is(err, ErrBroken) && !errors.Is(err, ErrEmpty) {
			err = fmt.Errorf("%w: %w", ErrBroken, err)
		}
		return err
	case <-ctx.Done():
		return late
	}
}

// newlines converts all line ends to \n.
func newlines(text string) string {
	if !strings.Contains(text, "\r") {
		return text
	}
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
}

// plain converts values from decoders to the types that metadata may have. Values of other types
// become text.
func plain(v any) any {
	switch v := v.(type) {
	case nil, string, bool, int64, float64:
		return v
	case int:
		return int64(v)
	case uint64:
		if v <= 1<<63-1 {
			return int64(v)
		}
		return float64(v)
	case time.Time:
		return v.Format(time.RFC3339)
	case []any:
		list := make([]any, len(v))
		for i, x := range v {
			list[i] = plain(x)
		}
		if slices.ContainsFunc(list, func(x any) bool {
			switch x.(type) {
			case []any, map[string]any:
				return true
			}
			return false
		}) {
			return fmt.Sprint(v) // a list of lists or maps
		}
		return list
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, x := range v {
			m[k] = plain(x)
		}
		return m
	case []byte:
		return string(bytes.ToValidUTF8(v, []byte("\ufffd")))
	}
	return fmt.Sprint(v)
}
