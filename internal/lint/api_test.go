package lint

import (
	"bytes"
	"flag"
	"go/ast"
	"go/build"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
)

var updateAPI = flag.Bool("update", false, "rewrite testdata/api from the code")

// public lists the packages that other programs import. Their exported declarations are compared
// with testdata/api, so that no change of the API goes unnoticed: run
//
//	go test ./internal/lint -run TestAPI -update
//
// and name the change in CHANGELOG.md.
var public = []string{
	"db", "filter", "text", "simd", "wal", "segment", "segment/codes", "segment/columns",
	"segment/graph", "segment/graph/levels", "segment/terms", "exchange", "store", "store/migrate", "store/storetest",
	"store/weaviate", "server", "server/bases",
	"server/chroma", "server/inspector", "mcp", "rag", "rag/chat",
	"rag/embed", "rag/embed/bert", "rag/embed/models", "rag/embed/static", "rag/embed/static/english",
	"rag/eval", "rag/knowledge", "rag/load", "rag/provider", "rag/rerank", "rag/split", "rag/vectorize",
	"rag/xray",
}

// TestAPI compares the exported declarations of every public package with the listing in
// testdata/api.
func TestAPI(t *testing.T) {
	for _, pkg := range public {
		got, err := listing(filepath.Join(root, filepath.FromSlash(pkg)))
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join("testdata", "api", strings.ReplaceAll(pkg, "/", "_")+".txt")
		if *updateAPI {
			if err := os.WriteFile(name, got, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("package %s has another API than %s:\n%s\nIf that is meant, see the comment of public.",
				pkg, name, differences(string(want), string(got)))
		}
	}
}

// TestPublicIsComplete holds the list of public packages to the tree: every package of the module
// that is not below internal, not a program and not a test is in it.
func TestPublicIsComplete(t *testing.T) {
	for _, f := range files(t) {
		if f.test || f.ast.Name.Name == "main" || slices.Contains(public, f.dir) ||
			strings.Contains(f.dir, "/internal/") {
			continue
		}
		switch top, _, _ := strings.Cut(f.dir, "/"); top {
		case "internal", "fuzz", "docs":
		default:
			t.Errorf("package %s is missing in the list of public packages", f.dir)
		}
	}
}

// TestExamples holds every public package to an Example, which go doc and pkg.go.dev show. The
// packages of the storage formats need none: their API is for package db and the tools.
func TestExamples(t *testing.T) {
	missing := map[string]bool{}
	for _, pkg := range public {
		missing[pkg] = pkg != "wal" && pkg != "segment" && !strings.HasPrefix(pkg, "segment/")
	}
	for _, f := range files(t) {
		if !f.test {
			continue
		}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Example") {
				missing[f.dir] = false
			}
		}
	}
	for pkg, is := range missing {
		if is {
			t.Errorf("package %s has no Example", pkg)
		}
	}
}

// differences lists the lines that only one of two texts has.
func differences(want, got string) string {
	var b strings.Builder
	in := func(line, text string) bool { return strings.Contains("\n"+text, "\n"+line+"\n") }
	for line := range strings.Lines(want) {
		if line = strings.TrimSuffix(line, "\n"); !in(line, got) {
			b.WriteString("- " + line + "\n")
		}
	}
	for line := range strings.Lines(got) {
		if line = strings.TrimSuffix(line, "\n"); !in(line, want) {
			b.WriteString("+ " + line + "\n")
		}
	}
	return b.String()
}

// listing returns the exported declarations of the package in a directory, one paragraph each,
// sorted, without comments and bodies: as amd64 on Linux sees it.
func listing(dir string) ([]byte, error) {
	ctx := build.Default
	ctx.GOOS, ctx.GOARCH, ctx.CgoEnabled = "linux", "amd64", false
	pkg, err := ctx.ImportDir(dir, 0)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	var out []string
	add := func(n any) error {
		var b bytes.Buffer
		cfg := printer.Config{Mode: printer.UseSpaces | printer.TabIndent, Tabwidth: 4}
		if err := cfg.Fprint(&b, fset, n); err != nil {
			return err
		}
		out = append(out, b.String())
		return nil
	}
	for _, name := range pkg.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		if !ast.FileExports(f) {
			continue
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				if fn.Recv != nil && !ast.IsExported(receiver(fn)) {
					continue
				}
				fn.Body = nil
			}
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT {
				continue
			}
			if err := add(d); err != nil {
				return nil, err
			}
		}
	}
	sort.Strings(out)
	return []byte(strings.Join(out, "\n\n") + "\n"), nil
}

// receiver returns the name of the type that a method belongs to.
func receiver(fn *ast.FuncDecl) string {
	t := fn.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if generic, ok := t.(*ast.IndexExpr); ok {
		t = generic.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// maxRagNames is the most exported names that the packages below rag may have. There were 343
// before bases got their configuration, server, evaluation and vectors on write, and 412 after it.
// Types and functions that nobody outside of their package used made the difference: with them
// gone, 312 are left. A new name needs a caller: a base, or a program of docs/examples.
const maxRagNames = 342

// TestRagNames counts the exported top-level names of rag/..., its nested modules included.
func TestRagNames(t *testing.T) {
	total := 0
	for _, f := range separate(t) { // all modules of rag
		if strings.HasPrefix(f.path, "rag/") && !f.test && !strings.Contains(f.path, "/internal/") {
			total += exportedNames(f.ast)
		}
	}
	t.Logf("rag/... exports %d names", total)
	if total > maxRagNames {
		t.Errorf("rag/... exports %d names, more than %d", total, maxRagNames)
	}
	if total < 200 { // the packages were not found
		t.Errorf("rag/... exports only %d names", total)
	}
}

// exportedNames counts the exported types, functions, constants and variables of a file.
func exportedNames(f *ast.File) (n int) {
	count := func(names ...*ast.Ident) {
		for _, name := range names {
			if name.IsExported() {
				n++
			}
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				count(d.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					count(s.Name)
				case *ast.ValueSpec:
					count(s.Names...)
				}
			}
		}
	}
	return n
}

func TestExportedNames(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "", `package p
		const A, b = 1, 2
		var (C int; d int)
		type E struct{ F int }
		type g struct{}
		func H() {}
		func (g) I() {}
		func j() {}`, 0)
	if err != nil {
		t.Fatal(err)
	}
	if n := exportedNames(f); n != 4 {
		t.Errorf("%d names, want 4", n)
	}
}
