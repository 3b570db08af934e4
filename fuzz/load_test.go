package fuzz

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/vecbolt/vecbolt/rag/load"
)

// FuzzLoad reads any bytes as a file of any format: what comes is text, or a
// reason.
func FuzzLoad(f *testing.F) {
	names := []string{"a.txt", "a.md", "a.html", "a.pdf", "a.docx", "a.csv", "a.tsv", "a.jsonl", "a.go", "a",
		"a.pptx", "a.xlsx", "a.odt", "a.epub", "a.ipynb", "a.eml", "a.rtf"}
	pdf := "%PDF-1.4\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n2 0 obj\n<< /Type /Pages /Kids [3 0 R] /Count 1 >>\nendobj\n" +
		"3 0 obj\n<< /Type /Page /Parent 2 0 R /Resources << /Font << /F 4 0 R >> >> /Contents 5 0 R >>\nendobj\n" +
		"4 0 obj\n<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>\nendobj\n" +
		"5 0 obj\n<< /Length 44 >>\nstream\nBT /F 24 Tf 100 700 Td (Hello) Tj [(a) -300 (b)] TJ ET\nendstream\nendobj\ntrailer\n<< /Size 6 /Root 1 0 R >>\n%%EOF\n"
	seeds := []string{
		"", "plain text", "\xff\xfeh\x00i\x00", "caf\xe9", "---\ntitle: x\n---\n# H\n", "---\n&a [*a]\n---\n", "<p>a<table><tr><td>b", "<!doctype html><script>",
		"a,b\n1,2\n\"x\n", "text\ttitle\nq\tr\n", "{\"text\":\"a\"}\n{]\n", "{\"a\":{\"b\":[1,{}]}}", "[1]", "package a\n", "PK\x03\x04", pdf,
		strings.ReplaceAll(pdf, "700", "9e99"), strings.ReplaceAll(pdf, "/Kids [3 0 R]", "/Kids [2 0 R]"), strings.ReplaceAll(pdf, "Tj", "Do"),
	}
	for _, seed := range seeds {
		for i := range names {
			f.Add(uint8(i), []byte(seed))
		}
	}
	own, _ := filepath.Glob("../rag/load/testdata/*.*")
	for _, file := range own {
		i := slices.IndexFunc(names, func(name string) bool { return filepath.Ext(name) == filepath.Ext(file) })
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		if i >= 0 {
			f.Add(uint8(i), b)
		}
	}
	samples, _ := filepath.Glob("../../shared/data/loaders/office/*/share/tests/*/document.docx")
	for _, name := range samples {
		if b, err := os.ReadFile(name); err == nil {
			f.Add(uint8(4), b)
		}
	}
	f.Fuzz(func(t *testing.T, format uint8, b []byte) {
		if len(b) > 64<<10 {
			t.Skip("long enough")
		}
		name := names[int(format)%len(names)]
		for doc, err := range load.Read(t.Context(), name, strings.NewReader(string(b)), &load.Options{MaxBytes: 1 << 20, Timeout: time.Minute}) {
			var skip *load.SkipError
			if err != nil && !errors.As(err, &skip) {
				t.Fatal(err)
			}
			if err != nil {
				continue
			}
			if !utf8.ValidString(doc.Text) || strings.TrimSpace(doc.Text) == "" {
				t.Fatalf("text %q", doc.Text)
			}
			if doc.Exact() && string(b[doc.Base:doc.Base+len(doc.Text)]) != doc.Text {
				t.Fatal("not a part of the file")
			}
			if doc.Line(len(doc.Text)) < 0 || doc.Exact() && doc.Line(0) < 1 || doc.Page(0) < 0 {
				t.Fatal("position")
			}
		}
	})
}
