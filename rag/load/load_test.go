package load

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// read returns the documents and the skipped rows of one file.
func read(t testing.TB, name, content string, o *Options) (docs []*Document, skipped []error) {
	t.Helper()
	for doc, err := range Read(t.Context(), name, strings.NewReader(content), o) {
		var skip *SkipError
		switch {
		case err == nil:
			docs = append(docs, doc)
		case errors.As(err, &skip):
			skipped = append(skipped, err)
		default:
			t.Fatal(err)
		}
	}
	return docs, skipped
}

// Front matter that would take minutes to read is refused. So much prose between two rules is text.
func TestLongFrontMatter(t *testing.T) {
	numbered := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for name, tt := range map[string]struct {
		matter string
		large  bool
		fields int
	}{
		"fields":             {numbered(maxTokens/3-1, "k%d: 1\n"), false, maxTokens/3 - 1},
		"more fields":        {numbered(100_000, "k%d: 1\n"), true, 0},
		"fields in braces":   {"t: 1\na: {" + numbered(20_000, "k%d: 1, ") + "z: 1}\n", true, 0},
		"many lists":         {"a: 1\nb: " + strings.Repeat("[", 1<<20) + strings.Repeat("]", 1<<20) + "\n", true, 0},
		"lists in lists":     {"a:\n  " + strings.Repeat("- ", 1<<20) + "1\n", true, 0},
		"a long text":        {"a: |\n" + strings.Repeat("  Note: words\n", 50_000), false, 1},
		"more than is read":  {"a: |\n" + strings.Repeat("  Note: words\n", maxMatter/14+1), true, 0},
		"prose":              {strings.Repeat("Some words, and more.\n\n", 200_000), false, 0},
		"prose with a colon": {"It says: this.\n" + strings.Repeat("- Some words.\n", 50_000), false, 0},
		"an image":           {"![x](data:image/png;base64," + strings.Repeat("QUJD", maxMatter/4) + ")\n\nwords\n", false, 0},
		"headings":           {strings.Repeat("# Words\n", maxTokens+1), false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			docs, skipped := read(t, "a.md", "---\n"+tt.matter+"---\ntext\n", nil)
			if tt.large {
				if len(skipped) != 1 || !errors.Is(skipped[0], ErrTooLarge) || !strings.Contains(skipped[0].Error(), "a.md: too large: front matter of more than") {
					t.Errorf("%d documents, %.300v", len(docs), skipped)
				}
				return
			}
			if len(docs) != 1 || len(docs[0].Metadata) != tt.fields || (docs[0].Text == "text\n") != (tt.fields > 0) {
				t.Errorf("%d documents, %.300v", len(docs), skipped)
			}
		})
	}
}

// TestDeepFrontMatter: YAML that is nested too deep for metadata stays in the text, and takes no
// memory to speak of.
func TestDeepFrontMatter(t *testing.T) {
	repeat := strings.Repeat
	var blocks, keys strings.Builder
	for i := range 1500 {
		fmt.Fprintf(&blocks, "%sa:\n", repeat(" ", i))
		fmt.Fprintf(&keys, "%s: {b: [1, {c: 2, long: 3}]}\n", repeat("k", i+1)[:1+i%100]+fmt.Sprint(i))
	}
	for name, tt := range map[string]struct {
		matter string
		fields int
	}{
		"brackets":         {repeat("[", 29_900) + "\n", 0},
		"brackets in a":    {"a: " + repeat("[", 14_000) + repeat("]", 14_000) + "\n", 0},
		"braces":           {"a: " + repeat("{a: ", 9000) + "\n", 0},
		"dashes":           {repeat("- ", 29_900) + "\n", 0},
		"dashes in a":      {"a:\n  " + repeat("- ", 20_000) + "1\n", 0},
		"explicit keys":    {repeat("? ", 20_000) + "a\n", 0},
		"maps":             {blocks.String(), 0},
		"not deep":         {keys.String(), 1500},
		"lists in columns": {"a:\n  - - - 1\n      - 2\n    - 3\n" + repeat("  - - 1\n", 100), 1},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			docs, skipped := read(t, "a.md", "---\n"+tt.matter+"---\ntext\n", nil)
			runtime.ReadMemStats(&after)
			if len(docs) != 1 || len(docs[0].Metadata) != tt.fields || (docs[0].Text == "text\n") != (tt.fields > 0) {
				t.Errorf("%d documents, %.300v", len(docs), skipped)
			}
			t.Logf("%d MB", (after.TotalAlloc-before.TotalAlloc)>>20)
			if got := after.TotalAlloc - before.TotalAlloc; got > 128<<20 {
				t.Errorf("%d MB allocated", got>>20)
			}
		})
	}
}

func TestFormats(t *testing.T) {
	utf16 := "\xff\xfeh\x00\xe9\x00\r\x00\n\x00"
	tests := []struct {
		name, file, content string
		want                []Document
	}{
		{"text", "a.txt", "one\r\ntwo\rthree", []Document{{Format: Text, Text: "one\ntwo\nthree"}}},
		{"mark", "a.txt", "\xef\xbb\xbfone", []Document{{Format: Text, Text: "one", Base: 3}}},
		{"mark and front matter", "a.md", "\xef\xbb\xbf---\na: b\n---\ntext\n", []Document{{Format: Markdown, Text: "text\n", Metadata: map[string]any{"a": "b"}, Base: 3 + len("---\na: b\n---\n")}}},
		{"windows-1252", "a.txt", "caf\xe9 \x80", []Document{{Format: Text, Text: "café €"}}},
		{"windows-1252 with a pair", "a.txt", "caf\xe9 \xc3\xa9 na\xefve", []Document{{Format: Text, Text: "café Ã© naïve"}}},
		{"utf-8 with a bad byte", "a.txt", "café über \xff alles", []Document{{Format: Text, Text: "café über \ufffd alles"}}},
		{"utf-8 with a broken character", "a.txt", "1 € or \xe2\x82 – no", []Document{{Format: Text, Text: "1 € or \ufffd – no"}}},
		{"utf-8, cut", "a.txt", "cafés cost 3 \xe2\x82", []Document{{Format: Text, Text: "cafés cost 3 \ufffd"}}},
		{"utf-8, cut in its only character", "a.txt", "3 \xe2\x82", []Document{{Format: Text, Text: "3 \ufffd"}}},
		{"utf-8, cut after a byte", "a.txt", "cafés na\xc3", []Document{{Format: Text, Text: "cafés na\ufffd"}}},
		{"utf-16", "a.txt", utf16, []Document{{Format: Text, Text: "hé\n"}}},
		{"utf-16 unmarked", "a.txt", "\x00h\x00i\x00 \x00y\x00o\x00u", []Document{{Format: Text, Text: "hi you"}}},
		{"utf-32", "a.txt", "\xff\xfe\x00\x00h\x00\x00\x00\xe9\x00\x00\x00\r\x00\x00\x00\n\x00\x00\x00", []Document{{Format: Text, Text: "hé\n"}}},
		{"utf-32, big endian", "README", "\x00\x00\xfe\xff\x00\x00\x00h\x00\x01\xf6\x00", []Document{{Format: Text, Text: "h😀"}}},
		{"no extension", "README", "just words", []Document{{Format: Text, Text: "just words"}}},
		{"markdown", "a.md", "---\ntitle: T\ntags: [a, b]\nn: 3\nwhen: 2024-01-02\n---\n# H\ntext\n", []Document{{Format: Markdown, Title: "T", Text: "# H\ntext\n",
			Metadata: map[string]any{"title": "T", "tags": []any{"a", "b"}, "n": int64(3), "when": "2024-01-02"}, Base: len("---\ntitle: T\ntags: [a, b]\nn: 3\nwhen: 2024-01-02\n---\n")}}},
		{"a rule is no front matter", "a.md", "---\ntext: [\n---\nmore\n", []Document{{Format: Markdown, Text: "---\ntext: [\n---\nmore\n"}}},
		{"html", "a.html", "<html><head><title> A  page </title><style>x{}</style></head><body><nav>menu</nav><h1>Head</h1><p>Some <b>bold</b> text.</p>" +
			"<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table><script>no()</script></body></html>",
			[]Document{{Format: "html", Title: "A page", Text: "# Head\n\nSome **bold** text.\n\n| a | b |\n|---|---|\n| 1 | 2 |"}}},
		{"html without encoding", "a.html", strings.Repeat(" ", 2000) + "<p>“naïve”</p>", []Document{{Format: "html", Text: "“naïve”"}}},
		{"html with an old encoding", "a.html", "<meta charset=iso-8859-1><p>caf\xe9</p>", []Document{{Format: "html", Text: "café"}}},
		{"html in an old encoding, unsaid", "a.html", "<p>caf\xe9</p>", []Document{{Format: "html", Text: "café"}}},
		{"html in utf-16", "a.html", "\xfe\xff\x00<\x00p\x00>\x00c\x00a\x00f\x00\xe9", []Document{{Format: "html", Text: "café"}}},
		{"html in utf-32", "a.html", "\xff\xfe\x00\x00<\x00\x00\x00p\x00\x00\x00>\x00\x00\x00\xe9\x00\x00\x00", []Document{{Format: "html", Text: "é"}}},
		{"csv", "a.csv", "id,text,year\n1,hello,2020\n\"2\",\"multi\nline\",2021\n", []Document{
			{Format: "csv", Row: 1, Text: "hello", Metadata: map[string]any{"id": "1", "year": "2020"}},
			{Format: "csv", Row: 2, Text: "multi\nline", Metadata: map[string]any{"id": "2", "year": "2021"}}}},
		{"equal columns", "a.csv", "n,n,,,n_2,n\n1,2,3,4,5,6\n", []Document{{Format: "csv", Row: 1, Text: "n: 1\nn_3: 2\nn_2: 5\nn_4: 6\n",
			Metadata: map[string]any{"n": "1", "n_2": "5", "n_3": "2", "n_4": "6"}}}},
		{"equal columns of text", "a.csv", "text,text\na,b\n", []Document{{Format: "csv", Row: 1, Text: "a", Metadata: map[string]any{"text_2": "b"}}}},
		{"equal keys", "a.jsonl", `{"a":1,"b":2,"a":3}`, []Document{{Format: "jsonl", Row: 1, Text: "a: 3\nb: 2\n", Metadata: map[string]any{"a": int64(3), "b": int64(2)}}}},
		{"semicolons", "a.csv", "name;city\nAnn;Bonn\n", []Document{{Format: "csv", Row: 1, Text: "name: Ann\ncity: Bonn\n", Metadata: map[string]any{"name": "Ann", "city": "Bonn"}}}},
		{"tabs", "a.tsv", "text\tn\nx,y\t1\n", []Document{{Format: "csv", Row: 1, Text: "x,y", Metadata: map[string]any{"n": "1"}}}},
		{"jsonl", "a.jsonl", `{"content":"c","n":12345678901234567,"f":1.5,"l":["x",null],"m":{"k":true},"title":"T"}` + "\n\n" + `{"a":1}`, []Document{
			{Format: "jsonl", Row: 1, Title: "T", Text: "c", Metadata: map[string]any{"n": int64(12345678901234567), "f": 1.5, "l": []any{"x", nil}, "m": map[string]any{"k": true}, "title": "T"}},
			{Format: "jsonl", Row: 2, Text: "a: 1\n", Metadata: map[string]any{"a": int64(1)}}}},
		{"code", "a.go", "package a\n", []Document{{Format: Code, Text: "package a\n", Metadata: map[string]any{"language": "go"}}}},
		{"docx", "a.docx", docx(t), []Document{{Format: "docx", Title: "My title", Text: "# Head\n\nA sentence.\n\n- item\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n|  | two parts |\n\nOnce."}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, skipped := read(t, tt.file, tt.content, nil)
			if len(skipped) > 0 {
				t.Fatal(skipped)
			}
			for i := range tt.want {
				tt.want[i].Source = tt.file
				if tt.want[i].Metadata == nil {
					tt.want[i].Metadata = map[string]any{}
				}
			}
			var have []Document
			for _, d := range got {
				have = append(have, *d)
				if d.Exact() && tt.content[d.Base:d.Base+len(d.Text)] != d.Text {
					t.Error("text is not a part of the file")
				}
			}
			if diff := cmp.Diff(tt.want, have, cmpopts.IgnoreUnexported(Document{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// docx makes a small Word document.
func docx(t testing.TB) string {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, content := range map[string]string{
		"docProps/core.xml": `<cp:coreProperties xmlns:cp="c" xmlns:dc="d"><dc:title>My title</dc:title></cp:coreProperties>`,
		"word/document.xml": `<w:document xmlns:w="w"><w:body>
			<w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>Head</w:t></w:r></w:p>
			<w:p><w:r><w:t>A sen</w:t></w:r><w:r><w:t>tence.</w:t></w:r></w:p><w:p/>
			<w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t>item</w:t></w:r></w:p>
			<w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>b</w:t></w:r></w:p></w:tc></w:tr>
			<w:tr><w:tc><w:p><w:r><w:t>1</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>2</w:t></w:r></w:p></w:tc></w:tr>
			<w:tr><w:tc><w:p/></w:tc><w:tc><w:p><w:r><w:t>two</w:t></w:r></w:p><w:tbl><w:tr><w:tc><w:p><w:r><w:t>parts</w:t></w:r></w:p></w:tc></w:tr></w:tbl></w:tc></w:tr></w:tbl>
			<w:p><w:r><mc:AlternateContent xmlns:mc="mc"><mc:Choice><w:t>Once.</w:t></mc:Choice><mc:Fallback><w:p><w:r><w:t>Once.</w:t></w:r></w:p></mc:Fallback></mc:AlternateContent></w:r></w:p>
			</w:body></w:document>`,
	} {
		w, err := z.Create(name)
		if err == nil {
			_, err = w.Write([]byte(content))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestSkipped(t *testing.T) {
	var bomb bytes.Buffer
	z := zip.NewWriter(&bomb)
	w, err := z.Create("word/document.xml")
	if err != nil {
		t.Fatal(err)
	}
	for range 300 {
		if _, err := w.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, file, content string
		want                error
		docs                int
	}{
		{"binary", "a.txt", "ab\x00cd", ErrUnsupported, 0},
		{"binary, like utf-16", "a.txt", "\xff\xfea\x00\x00\x00b\x00", ErrUnsupported, 0},
		{"binary, like utf-16 unmarked", "a.txt", "a\x00b\x00c\x00\x00\x00", ErrUnsupported, 0},
		{"binary, like utf-32", "a.txt", "\xff\xfe\x00\x00a\x00\x00\x00\x00\x00\x00\x00", ErrUnsupported, 0},
		{"image", "a.dat", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", ErrUnsupported, 0},
		{"empty", "a.md", " \n", ErrEmpty, 0},
		{"front matter alone", "a.md", "---\na: 1\n---", ErrEmpty, 0},
		{"not a pdf", "a.pdf", "hello", ErrBroken, 0},
		{"not a docx", "a.docx", "hello", ErrBroken, 0},
		{"bomb", "a.docx", bomb.String(), ErrTooLarge, 0},
		{"large", "a.txt", strings.Repeat("x", 2<<20), ErrTooLarge, 0},
		{"row", "a.jsonl", "{\"text\":\"a\"}\nnot json\n{\"text\":\"b\"} {}\n{\"text\":\"c\"}\n", ErrBroken, 2},
		{"fields", "a.csv", "text\na\nb,c\nd\n", ErrBroken, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			docs, skipped := read(t, tt.file, tt.content, &Options{MaxBytes: 1 << 20})
			if len(skipped) == 0 || !errors.Is(skipped[0], tt.want) || !strings.Contains(skipped[0].Error(), tt.file) || len(docs) != tt.docs {
				t.Errorf("%d documents, skipped %v", len(docs), skipped)
			}
		})
	}
}

func TestPositions(t *testing.T) {
	docs, _ := read(t, "a.md", "---\na: 1\n---\nfirst\nsecond\n", nil)
	d := docs[0]
	if got := []int{d.Line(0), d.Line(6), d.Line(100), d.Line(-1), d.Page(0)}; !cmp.Equal(got, []int{4, 5, 6, 4, 0}) {
		t.Error(got)
	}
	if rows, _ := read(t, "a.csv", "text\na\n\"b\nb\"\nc\n", nil); rows[2].Line(0) != 5 {
		t.Error(rows[2].Line(0))
	}
	for _, name := range []string{"a.html", "a.eml", "a.ipynb"} {
		content := map[string]string{"a.html": "<p>\n\none</p><p>two</p>", "a.eml": "Subject: s\n\none\n\ntwo\n",
			"a.ipynb": `{"nbformat":4,"metadata":{},"cells":[{"cell_type":"markdown","source":["one\n","\n","two"]}]}`}[name]
		docs, _ := read(t, name, content, nil)
		if d := docs[0]; !strings.Contains(d.Text, "two") || d.Line(0) != 0 || d.Line(len(d.Text)) != 0 {
			t.Errorf("%s: %q, lines %d and %d", name, d.Text, d.Line(0), d.Line(len(d.Text)))
		}
	}
	d = &Document{Text: "one\n\ntwo", pages: []int{0, 5}}
	if got := []int{d.Page(0), d.Page(4), d.Page(5), d.Page(7)}; !cmp.Equal(got, []int{1, 1, 2, 2}) {
		t.Error(got)
	}
}

func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"a.txt": "a", "b.md": "b", "empty.txt": "", "c.bin": "\x00\x01", ".hidden": "h", ".git/config": "g",
		".gitignore": "*.log\n/build/\n!keep.log\n# comment\nsub/**/x?.txt\n", "x.log": "l", "keep.log": "k", "build/out.txt": "o",
		"sub/.vecboltignore": "private\n", "sub/private/s.txt": "s", "sub/deep/x1.txt": "x", "sub/deep/y.txt": "y", "sub/build/z.txt": "z",
		"vendor/v.go": "package v",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list := func(o *Options) (found, skipped []string) {
		for doc, err := range Path(t.Context(), dir, o) {
			var skip *SkipError
			if errors.As(err, &skip) {
				rel, _ := filepath.Rel(dir, skip.Source)
				skipped = append(skipped, filepath.ToSlash(rel))
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			rel, _ := filepath.Rel(dir, doc.Source)
			found = append(found, filepath.ToSlash(rel))
		}
		return found, skipped
	}
	for _, tt := range []struct {
		name string
		o    *Options
		want []string
	}{
		{"default", nil, []string{"a.txt", "b.md", "keep.log", "sub/build/z.txt", "sub/deep/y.txt", "vendor/v.go"}},
		{"patterns", &Options{Include: []string{"*.txt", "*.go"}, Exclude: []string{"vendor/", "sub/deep"}}, []string{"a.txt", "sub/build/z.txt"}},
		{"everything", &Options{Hidden: true, Ignored: true}, []string{".gitignore", ".hidden", "a.txt", "b.md", "build/out.txt", "keep.log",
			"sub/.vecboltignore", "sub/build/z.txt", "sub/deep/x1.txt", "sub/deep/y.txt", "sub/private/s.txt", "vendor/v.go", "x.log"}},
	} {
		found, skipped := list(tt.o)
		if diff := cmp.Diff(tt.want, found); diff != "" {
			t.Errorf("%s (-want +got)\n%s", tt.name, diff)
		}
		if tt.name == "default" && !cmp.Equal(skipped, []string{"c.bin", "empty.txt"}) {
			t.Errorf("skipped %v", skipped)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range Path(ctx, dir, nil) {
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	for _, err := range Path(t.Context(), filepath.Join(dir, "nothing"), nil) {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
}

const shared = "../../../shared/data/loaders"

// TestPDFsLikePoppler compares with another reader on real files, many of them
// malformed.
func TestPDFsLikePoppler(t *testing.T) {
	poppler, err := exec.LookPath("pdftotext")
	if err != nil {
		t.Skip("pdftotext (Debian: poppler-utils) is not installed")
	}
	if _, err := os.Stat(shared); err != nil {
		t.Skip("no sample files:", err)
	}
	files, read, words, same := 0, 0, 0, 0
	err = filepath.WalkDir(shared, func(path string, e fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".pdf" {
			return err
		}
		have := map[string]int{}
		for doc, err := range Path(t.Context(), path, nil) {
			var skip *SkipError
			if err != nil && !errors.As(err, &skip) {
				return fmt.Errorf("%s: %w", path, err)
			}
			if err == nil {
				for _, w := range strings.Fields(doc.Text) {
					have[w]++
				}
			}
		}
		out, _ := exec.Command(poppler, path, "-").Output() // it fails where it can read nothing
		want := strings.Fields(string(out))
		if len(want) == 0 {
			return nil
		}
		files++
		if len(have) > 0 {
			read++
		} else {
			t.Logf("no text: %s, in which poppler finds %d words", filepath.Base(path), len(want))
		}
		for _, w := range want {
			words++
			if have[w] > 0 {
				have[w]--
				same++
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("text from %d of the %d files that poppler reads; %.1f %% of its %d words", read, files, 100*float64(same)/float64(words), words)
	if files < 50 || float64(read) < 0.95*float64(files) || float64(same) < 0.75*float64(words) {
		t.Error("too little")
	}
}

// TestPDFCharacters reads fonts that say UTF-16, and ligatures.
func TestPDFCharacters(t *testing.T) {
	for name, want := range map[string]string{
		"pdfminer/samples/contrib/issue-625-identity-cmap.pdf":             "Sprzedawca",
		"py-pdf-sample-files/009-pdflatex-geotopo/GeoTopo-komprimiert.pdf": "Definition",
	} {
		path := filepath.Join(shared, "pdf", filepath.FromSlash(name))
		if _, err := os.Stat(path); err != nil {
			t.Skip("no sample files:", err)
		}
		for doc, err := range Path(t.Context(), path, nil) {
			if err != nil || !strings.Contains(doc.Text, want) || strings.ContainsAny(doc.Text, "\ufb01\x00") {
				t.Errorf("%s: no %q, %v", name, want, err)
			}
		}
	}
}

func TestRealDocuments(t *testing.T) {
	if _, err := os.Stat(shared); err != nil {
		t.Skip("no sample files:", err)
	}
	for name, want := range map[string][]string{
		"html/go_mem.html":  {"## Introduction", "happens before", "```"},
		"html/go_spec.html": {"## Introduction", "Lexical elements", "goroutine"},
		"office/terrier-simplefilecollection/share/tests/simplefilecollection/document.docx": {"Lorem ipsum dolor sit amet"},
		"office/terrier-simplefilecollection/share/tests/simplefilecollection/document.txt":  {"Lorem ipsum dolor sit amet"},
	} {
		for doc, err := range Path(t.Context(), filepath.Join(shared, name), nil) {
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range want {
				if !strings.Contains(doc.Text, s) {
					t.Errorf("%s: no %q", name, s)
				}
			}
			if strings.Contains(doc.Text, "<script") || strings.Contains(doc.Text, "function(") {
				t.Errorf("%s holds a script", name)
			}
		}
	}
}

// TestLinesOfRows: a chunk of a row has the line at which the row begins, whatever lines its text
// has.
func TestLinesOfRows(t *testing.T) {
	for _, tt := range []struct{ name, content string }{
		{"a.jsonl", "{\"text\":\"one\\ntwo\\nthree\"}\n\n{\"text\":\"four\\nfive\"}\n{\"a\":1,\"b\":2}\n"},
		{"a.csv", "text,n\n\"one\ntwo\",1\nfour,2\n"},
		{"b.csv", "a,b\n1,2\n\"3\n\",4\n5,6\n"},
	} {
		var lines []int
		docs, _ := read(t, tt.name, tt.content, nil)
		for _, d := range docs {
			lines = append(lines, d.Line(0), d.Line(len(d.Text)))
		}
		want := map[string][]int{"a.jsonl": {1, 1, 3, 3, 4, 4}, "a.csv": {2, 2, 4, 4}, "b.csv": {2, 2, 3, 3, 5, 5}}[tt.name]
		if !cmp.Equal(lines, want) {
			t.Errorf("%s: %v, want %v", tt.name, lines, want)
		}
	}
}
