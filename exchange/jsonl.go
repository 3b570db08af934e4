package exchange

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"runtime"
	"sync"
	"unicode/utf8"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/docjson"
	"github.com/vecbolt/vecbolt/internal/document"
)

// ParseDocument reads one line of JSONL, an object with the keys
//
//	id        or _id: a string or an integer, stored as digits; without it the database assigns one
//	text      a string
//	metadata  an object
//	vector    or embedding: an array of numbers, each rounded to float64 and then to float32
//
// A line without a text may have it, as a string, under document, page_content, content or body,
// and one without a vector under values, as other stores write them. null means absent. Any other
// key becomes a field of the metadata, such as the title in a BEIR corpus. Numbers in the metadata
// are int64 when written without fraction and exponent, otherwise float64. named is the set of
// parts that have a key, also with null. Every error is a *FormatError, which names the key of a
// value that is refused; it wraps db.ErrInvalid or ErrNotFinite if the value has the right type and
// cannot be stored.
func ParseDocument(line []byte) (d db.Document, named db.Select, err error) {
	p := documentParser{scratch: new([]float32)}
	return p.parse(line)
}

// documentParser holds the memory that parsing reuses from line to line.
type documentParser struct{ scratch *[]float32 }

func (p documentParser) parse(line []byte) (d db.Document, named db.Select, err error) {
	const idKey db.Select = 1 << 7
	r := docjson.NewReader(line)
	var given db.Select      // parts with a value other than null
	var extra map[string]any // unknown keys
	err = r.Members(func(key string) (err error) {
		var part db.Select
		switch key {
		case "id", "_id":
			part = idKey
		case "text":
			part = db.WithText
		case "metadata":
			part = db.WithMetadata
		case "vector", "embedding":
			part = db.WithVector
		}
		if _, ok := extra[key]; ok || named&part != 0 {
			return fmt.Errorf("key %.40q repeats a part that another key has given", key)
		}
		named |= part
		if part != 0 && r.Null() {
			return nil
		}
		given |= part
		switch part {
		case idKey:
			d.ID, err = r.ID()
		case db.WithText:
			d.Text, err = r.String()
		case db.WithMetadata:
			d.Metadata, err = r.Metadata()
		case db.WithVector:
			d.Vector, err = r.OptionalVector(p.scratch)
		default:
			if extra == nil {
				extra = map[string]any{}
			}
			extra[key], err = r.Value()
		}
		if err != nil {
			return fmt.Errorf("%.40q: %w", key, err)
		}
		return nil
	})
	if err == nil {
		err = r.End()
	}
	if err == nil {
		err = adopt(&d, &given, extra)
		named |= given
	}
	for key, v := range extra {
		named |= db.WithMetadata
		if err == nil {
			err = addField(&d, key, v)
		}
	}
	if err != nil {
		return db.Document{ID: d.ID}, 0, &FormatError{Offset: r.Offset(), Err: err}
	}
	if len(d.Metadata) == 0 {
		d.Metadata = nil
	}
	return d, named &^ idKey, nil
}

// textKeys and vectorKeys are the names that other programs give to the text and the vector of a
// document, in order of preference. Unlike the names that ParseDocument prefers, they may as well
// be fields of the metadata.
var (
	textKeys   = []string{"document", "page_content", "content", "body"}
	vectorKeys = []string{"values"}
)

// addField adds a value that is given outside of the metadata.
func addField(d *db.Document, key string, v any) error {
	if _, ok := d.Metadata[key]; ok {
		return fmt.Errorf("key %.40q is given both inside and outside of the metadata", key)
	}
	if d.Metadata == nil {
		d.Metadata = db.Metadata{}
	}
	d.Metadata[key] = v
	return nil
}

// adopt takes the text and the vector of a document from other keys, if it has none. given is the
// set of parts that it has.
func adopt(d *db.Document, given *db.Select, extra map[string]any) error {
	for _, key := range textKeys {
		if text, ok := extra[key].(string); ok && *given&db.WithText == 0 {
			d.Text = text
			*given |= db.WithText
			delete(extra, key)
		}
	}
	for _, key := range vectorKeys {
		list, _ := extra[key].([]any)
		if len(list) == 0 || *given&db.WithVector != 0 {
			continue
		}
		vec := make([]float32, 0, len(list))
		for i, v := range list {
			switch v := v.(type) {
			case int64:
				vec = append(vec, float32(float64(v)))
			case float64:
				vec = append(vec, float32(v))
			}
			if len(vec) == i {
				break // not a vector
			}
		}
		if len(vec) < len(list) {
			continue
		}
		if i := notFinite(vec); i >= 0 {
			return fmt.Errorf("key %q, element %d: %w", key, i, ErrNotFinite)
		}
		d.Vector = vec
		*given |= db.WithVector
		delete(extra, key)
	}
	return nil
}

// onlyValue reports whether err, for a text that should be one object, concerns its values and not
// the structure of its file: the text is an object of JSON, or holds NaN or an infinity.
func onlyValue(text []byte, err error) bool {
	if errors.Is(err, db.ErrInvalid) || errors.Is(err, ErrNotFinite) {
		return true
	}
	first, _ := docjson.First(text)
	return first == '{' && utf8.Valid(text) && json.Valid(text)
}

// document parses one line. The document of a blank line is nil.
func (p documentParser) document(line []byte, pos Position) (*ImportedDocument, error) {
	if isBlank(line) {
		return nil, nil
	}
	d, named, err := p.parse(line)
	if err == nil {
		err = tooMuch(d.Metadata, line)
	}
	if err == nil {
		return &ImportedDocument{Document: d, Carries: named, Position: pos}, nil
	}
	if !onlyValue(line, err) {
		return nil, locate(err, pos.File, pos.N)
	}
	return &ImportedDocument{Document: db.Document{ID: d.ID}, Position: pos, Skip: withID(&d, err)}, nil
}

// tooMuch returns the error of the database for metadata beyond its limit, so that the values of a
// refused document do not stay in memory until its batch is written. Short lines are left to the
// database: the stored form of a number, of 9 bytes, is at most three times the text.
func tooMuch(m db.Metadata, line []byte) error {
	if len(line) <= db.MaxMetadataLen/3 {
		return nil
	}
	_, err := document.EncodeMetadata(m)
	return err
}

// withID adds the id of a document, if it has one, to the reason why it cannot be stored.
func withID(d *db.Document, err error) error {
	if err == nil || d.ID == "" {
		return err
	}
	return fmt.Errorf("document %.40q: %w", d.ID, err)
}

const (
	blockSize = 256 << 10 // bytes that are read at once
	maxLine   = 128 << 20 // bytes; enough for the largest document with all text escaped
)

// A block holds whole lines of a file.
type block struct {
	lines []byte
	first int64 // number of the first line; from 1
	end   int64 // file offset after the block
	err   error // of a failed read; lines is then empty
}

// all yields the lines of the block with their numbers, line ends included.
func (b block) all() iter.Seq2[int64, []byte] {
	return func(yield func(int64, []byte) bool) {
		n := b.first
		for line := range bytes.Lines(b.lines) {
			if !yield(n, line) {
				return
			}
			n++
		}
	}
}

// blockReader cuts a stream into blocks. It returns the result of a Read as soon as that holds a
// whole line, so that a slow stream is processed line by line.
type blockReader struct {
	r      io.Reader
	name   string
	rest   []byte // start of an incomplete line from the last Read
	line   int64  // lines handed out
	offset int64  // bytes handed out
	err    error
	spare  []byte // memory for the next block, if it is large enough
}

// next returns the next block, with io.EOF as its error at the end. The caller owns its memory
// until it becomes spare.
func (r *blockReader) next() block {
	buf := r.spare
	if cap(buf) < max(blockSize, 2*len(r.rest)) {
		buf = make([]byte, 0, max(blockSize, 2*len(r.rest)))
	}
	r.spare = nil
	buf = append(buf[:0], r.rest...)
	for empty := 0; r.err == nil; {
		if len(buf) == cap(buf) {
			if len(buf) >= maxLine {
				r.err = &FormatError{Name: r.name, Line: r.line + 1, Offset: int64(len(buf)),
					Err: errors.New("line too long")}
				break
			}
			buf = append(make([]byte, 0, 2*cap(buf)), buf...)
		}
		n, err := r.r.Read(buf[len(buf):cap(buf)])
		old := len(buf)
		buf = buf[:old+n]
		r.err = err
		if end := bytes.LastIndexByte(buf[old:], '\n') + 1; end > 0 {
			r.rest = buf[old+end:]
			return r.take(buf[:old+end])
		}
		if n > 0 {
			empty = 0
		} else if empty++; empty == 100 && r.err == nil {
			r.err = io.ErrNoProgress
		}
	}
	r.rest = nil
	if len(buf) > 0 && r.err == io.EOF {
		return r.take(buf)
	}
	return block{err: r.err}
}

func (r *blockReader) take(lines []byte) block {
	b := block{lines: lines, first: r.line + 1, end: r.offset + int64(len(lines))}
	if r.offset == 0 {
		if inUTF16(lines) {
			return block{err: &FormatError{Name: r.name, Line: 1, Err: errUTF16}}
		}
		b.lines = bytes.TrimPrefix(lines, []byte(byteOrderMark)) // Windows editors write it
	}
	r.offset = b.end
	r.line += int64(bytes.Count(lines, []byte{'\n'}))
	return b
}

// A JSONLReader reads documents from a stream, each as soon as its line has arrived.
type JSONLReader struct {
	blocks blockReader
	parser documentParser
	lines  []byte // of the current block, not yet read
	line   int64  // number of the next line
}

// NewJSONLReader returns a reader of the JSONL in r; name is its name in errors and positions.
func NewJSONLReader(r io.Reader, name string) *JSONLReader {
	return &JSONLReader{blocks: blockReader{r: r, name: name}, parser: documentParser{new([]float32)}, line: 1}
}

// Next returns the next document, or io.EOF. See ParseDocument for the lines; blank lines are
// skipped. A line that is an object of JSON but no document gives one with Skip set. Any other line
// is a *FormatError. Do not call Next after an error.
func (r *JSONLReader) Next() (*ImportedDocument, error) {
	for {
		for len(r.lines) == 0 {
			b := r.blocks.next()
			if b.err != nil {
				return nil, b.err
			}
			r.lines, r.blocks.spare = b.lines, b.lines // reused only after all its lines are read
		}
		line := r.lines
		if end := bytes.IndexByte(line, '\n') + 1; end > 0 {
			line = line[:end]
		}
		r.lines = r.lines[len(line):]
		doc, err := r.parser.document(line, Position{File: r.blocks.name, Unit: "line", N: r.line})
		r.line++
		if doc != nil || err != nil {
			return doc, err
		}
	}
}

// jsonlSource reads a JSONL file, parsing blocks of lines in parallel, or a file that is one array
// of objects.
type jsonlSource struct {
	in    *input
	procs int
}

func newJSONL(in *input) *jsonlSource { return &jsonlSource{in, runtime.GOMAXPROCS(0)} }

// Stream returns a Source of the JSONL, or the array of objects, in r, which can be read once; name
// is its name in errors and positions. A loop that ends early, or whose context does, waits for a
// Read that has begun: it ends if the caller closes r.
func Stream(r io.Reader, name string) Source {
	return newJSONL(&input{path: name, mode: fs.ModeIrregular, once: &stream{bufio.NewReader(r), io.NopCloser(r)}})
}

func (s *jsonlSource) Total() int64 { return s.in.size }

func (s *jsonlSource) Documents(ctx context.Context) iter.Seq2[*ImportedDocument, error] {
	return func(yield func(*ImportedDocument, error) bool) {
		ctx, cancel := context.WithCancel(ctx) // closes a pipe that is being read
		defer cancel()
		f, err := s.in.open(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		defer f.Close()
		in := bufio.NewReader(f)
		if startsArray(in) {
			s.array(ctx, in, yield)
			return
		}
		blocks := func(yield func(block) bool) {
			r := blockReader{r: in, name: s.in.path}
			for b := r.next(); b.err != io.EOF && ctx.Err() == nil && yield(b) && b.err == nil; b = r.next() {
			}
		}
		type result struct {
			docs []*ImportedDocument
			err  error
		}
		scratch := sync.Pool{New: func() any { return new([]float32) }}
		parse := func(b block) result {
			parser := documentParser{scratch.Get().(*[]float32)}
			defer scratch.Put(parser.scratch)
			res := result{err: b.err}
			for n, line := range b.all() {
				doc, err := parser.document(line, Position{File: s.in.path, Unit: "line", N: n})
				if err != nil {
					res.err = err
					break
				}
				if doc != nil {
					doc.Done = b.end
					res.docs = append(res.docs, doc)
				}
			}
			return res
		}
		for res := range ordered(s.procs, blocks, parse) {
			for _, doc := range res.docs {
				if !yield(doc, nil) {
					cancel()
					return
				}
			}
			if res.err != nil {
				cancel()
				yield(nil, res.err)
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(nil, err)
		}
	}
}

// AppendDocument appends d as one line of JSONL, newline included: the id, then the chosen parts in
// the order text, metadata, vector. Empty parts are written too, so that an import of the line
// restores exactly these parts. Zero means all parts. Map keys are sorted and vectors have the
// fewest digits that float32 allows: equal documents give equal bytes, and ParseDocument restores a
// stored document bit by bit. It fails, with db.ErrInvalid or ErrNotFinite, on values that the
// database refuses.
func AppendDocument(dst []byte, d *db.Document, parts db.Select) (_ []byte, err error) {
	if parts == 0 {
		parts = db.Everything
	}
	if dst, err = docjson.AppendValue(append(dst, `{"id":`...), d.ID); err != nil {
		return dst, err
	}
	if parts&db.WithText != 0 {
		if dst, err = docjson.AppendValue(append(dst, `,"text":`...), d.Text); err != nil {
			return dst, err
		}
	}
	if parts&db.WithMetadata != 0 {
		if dst, err = docjson.AppendValue(append(dst, `,"metadata":`...), map[string]any(d.Metadata)); err != nil {
			return dst, err
		}
	}
	if parts&db.WithVector != 0 {
		dst = append(dst, `,"vector":`...)
		if len(d.Vector) == 0 {
			dst = append(dst, "null"...)
		} else if dst, err = docjson.AppendVector(dst, d.Vector); err != nil {
			return dst, err
		}
	}
	return append(dst, "}\n"...), nil
}

// A JSONLWriter writes documents line by line.
type JSONLWriter struct {
	w     io.Writer
	parts db.Select
	buf   []byte
}

// NewJSONLWriter returns a writer of the given parts of documents to w, in the format of
// AppendDocument. Each document is one call of w.Write.
func NewJSONLWriter(w io.Writer, parts db.Select) *JSONLWriter {
	return &JSONLWriter{w: w, parts: parts}
}

// Write writes d.
func (w *JSONLWriter) Write(d *db.Document) error {
	b, err := AppendDocument(w.buf[:0], d, w.parts)
	w.buf = b[:0]
	if err == nil {
		_, err = w.w.Write(b)
	}
	if err != nil {
		return fmt.Errorf("write document %.40q: %w", d.ID, err)
	}
	return nil
}
