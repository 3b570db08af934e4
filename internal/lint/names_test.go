package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// declared holds the names that a tree of Go files declares: "package.Name" and "Type.Member", with
// the members of embedded types. known holds the packages and types themselves.
type declared struct {
	names, known map[string]bool
	embedded     map[string][]string // types by the type that embeds them
}

func declarations(files []file) declared {
	d := declared{names: map[string]bool{}, known: map[string]bool{}, embedded: map[string][]string{}}
	for _, f := range files {
		if f.test || f.ast.Name.Name == "main" {
			continue
		}
		pkg := f.ast.Name.Name
		d.known[pkg] = true
		for _, decl := range f.ast.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Recv == nil {
					d.names[pkg+"."+decl.Name.Name] = true
				} else {
					d.names[typeName(decl.Recv.List[0].Type)+"."+decl.Name.Name] = true
				}
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					d.spec(pkg, spec)
				}
			}
		}
	}
	return d
}

func (d *declared) spec(pkg string, spec ast.Spec) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			d.names[pkg+"."+name.Name] = true
		}
	case *ast.TypeSpec:
		name := spec.Name.Name
		d.names[pkg+"."+name], d.known[name] = true, true
		var fields *ast.FieldList
		switch t := spec.Type.(type) {
		case *ast.StructType:
			fields = t.Fields
		case *ast.InterfaceType:
			fields = t.Methods
		default: // a definition or an alias by another type
			d.embedded[name] = append(d.embedded[name], typeName(t))
			return
		}
		for _, field := range fields.List {
			for _, member := range field.Names {
				d.names[name+"."+member.Name] = true
			}
			if len(field.Names) == 0 {
				d.embedded[name] = append(d.embedded[name], typeName(field.Type))
				d.names[name+"."+typeName(field.Type)] = true
			}
		}
	}
}

// typeName returns the name of a type without package, pointer and parameters.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// has reports whether owner, a package or a type, has a member; depth limits the embedded types.
func (d *declared) has(owner, member string, depth int) bool {
	if d.names[owner+"."+member] {
		return true
	}
	for _, t := range d.embedded[owner] {
		if depth > 0 && d.has(t, member, depth-1) {
			return true
		}
	}
	return false
}

// missing returns the names in the code spans of a page that no file declares. Spans whose first
// part is no package and no type of the tree are not names of it.
func (d *declared) missing(page string) (names []string) {
	span := regexp.MustCompile("`([A-Za-z][A-Za-z0-9]*(?:\\.[A-Z][A-Za-z0-9]*)+)(?:\\([^`]*\\))?`")
	for _, m := range span.FindAllStringSubmatch(page, -1) {
		parts := strings.Split(m[1], ".")
		for i := range len(parts) - 1 {
			if d.known[parts[i]] && !d.has(parts[i], parts[i+1], 3) {
				names = append(names, m[1])
				break
			}
		}
	}
	return names
}

// separate returns the files of the modules outside of go.work, as far as git tracks them.
func separate(t *testing.T) (all []file) {
	t.Helper()
	fset := token.NewFileSet()
	for _, name := range tracked(t) {
		dir, _, _ := strings.Cut(name, "/")
		if !strings.HasSuffix(name, ".go") || strings.Contains(name, "/testdata/") ||
			!slices.Contains([]string{"adapters", "store", "rag"}, dir) {
			continue
		}
		parsed, err := parser.ParseFile(fset, filepath.Join(root, name), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, file{path: name, test: strings.HasSuffix(name, "_test.go"), ast: parsed, fset: fset})
	}
	return all
}

// The pages name packages, types and members that exist. Decisions and reports of benchmarks speak
// of their time.
func TestNamesInPages(t *testing.T) {
	d := declarations(append(files(t), separate(t)...))
	for _, name := range pages(t) {
		if strings.HasPrefix(name, "docs/decisions/") || strings.HasPrefix(name, "docs/bench/") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, missing := range d.missing(string(b)) {
			t.Errorf("%s names %s, which is not declared", name, missing)
		}
	}
}

func TestNamesAreFound(t *testing.T) {
	d := declarations(files(t))
	page := "`db.Query` `Query.Near` `db.Query.Accuracy` `Query.Recall` `db.Nothing` `http.ServeMux`" +
		" `MeasuredRecall.Low` `DB.Close()` `db.DB.Nothing(x)` `notes.vdb`"
	want := "Query.Recall db.Nothing db.DB.Nothing"
	if got := strings.Join(d.missing(page), " "); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
