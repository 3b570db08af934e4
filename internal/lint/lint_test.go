// Package lint holds the rules of the repository as tests.
package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module = "github.com/vecbolt/vecbolt/"
	root   = "../.."
)

// imports lists the packages of the module, and the packages outside of the standard library, that
// a package may import. Arrows point down. Packages that are not listed (tools, fuzz,
// docs/examples, this one) are free.
var imports = map[string][]string{
	"server/internal/rest": {"db", "filter", "internal/docjson", "internal/errtext"},
	"rag/vectorize":        {"db", "rag/embed", "text"},
	"rag/provider":         {"db", "rag", "rag/embed", "store", "store/weaviate"},
	"server": {"db", "filter", "golang.org/x/net/netutil", "exchange", "internal/docjson", "rag/embed", "rag/provider",
		"rag/vectorize", "rag/xray", "server/internal/rest"},

	"simd":                {"golang.org/x/sys/cpu", "github.com/viterin/vek/vek32"},
	"filter":              {"internal/jsontext"},
	"internal/codec":      {},
	"internal/fileformat": {"internal/codec"},
	"internal/bitset":     {},
	"internal/jsontext":   {},
	"internal/mmr":        {},
	"internal/manifest":   {"internal/codec", "internal/fileformat"},
	"internal/topk":       {},
	"internal/needs64bit": {},
	"internal/vfs":        {"golang.org/x/sys/unix", "golang.org/x/sys/windows", "internal/needs64bit"},
	"internal/blocks":     {"internal/codec", "internal/fileformat", "internal/vfs"},
	"internal/boltcheck":  {},

	"internal/browsertest": {},

	"internal/formattest": {"internal/codec", "internal/fileformat", "simd", "github.com/google/go-cmp/cmp"},
	"internal/meta": {"go.etcd.io/bbolt", "go.etcd.io/bbolt/errors", "internal/boltcheck", "internal/codec", "internal/fileformat",
		"internal/vfs", "segment", "simd"},
	"segment/terms": {"internal/bitset", "internal/blocks", "internal/codec", "internal/fileformat", "internal/topk", "text"},
	"text": append(stemmers, "github.com/blevesearch/snowballstem", "github.com/clipperhouse/uax29/v2/words",
		"golang.org/x/text/cases", "golang.org/x/text/unicode/norm"),
	"wal":           {"internal/codec", "internal/fileformat", "internal/vfs"},
	"segment":       {"internal/codec", "internal/fileformat", "internal/vfs", "simd"},
	"segment/codes": {"internal/blocks", "internal/codec", "internal/fileformat", "simd"},
	"segment/graph": {"internal/bitset", "internal/blocks", "internal/codec", "internal/fileformat", "internal/synthetic", "internal/vfs",
		"segment/codes", "segment/graph/levels", "simd"},
	"segment/graph/levels": {"internal/synthetic"},
	"internal/synthetic":   {"internal/fileformat", "segment/codes", "simd"},
	"segment/columns":      {"filter", "internal/bitset", "internal/codec", "internal/fileformat", "simd"},
	"internal/dbtest":      {"internal/vfs"},
	"internal/document":    {"filter", "internal/jsontext", "simd", "github.com/google/uuid", "github.com/vmihailenco/msgpack/v5"},
	"db": {"filter", "internal/bitset", "internal/fileformat", "internal/dbtest", "internal/document", "internal/meta",
		"internal/vfs", "segment/graph", "simd", "text",
		"internal/engine", "internal/fsck", "internal/fusion", "internal/match", "internal/nearest", "internal/query", "internal/replica", "internal/share"},
	"internal/query": {"filter", "internal/bitset", "internal/document", "internal/engine", "internal/fileformat", "internal/fusion",
		"internal/match", "internal/meta", "internal/mmr", "internal/nearest", "internal/score", "internal/topk", "internal/vfs",
		"segment/terms", "simd", "text", "github.com/viterin/vek"},
	"internal/fusion": {},
	"internal/score":  {"internal/fileformat", "simd"},
	"internal/engine": {"filter", "internal/bitset", "internal/blocks", "internal/codec", "internal/document",
		"internal/errtext", "internal/fileformat", "internal/manifest", "internal/meta", "internal/score", "internal/vfs",
		"segment", "segment/codes", "segment/columns", "segment/graph", "segment/terms", "text", "wal",
		"github.com/google/uuid", "github.com/vmihailenco/msgpack/v5"},
	"internal/nearest": {"internal/bitset", "internal/codec", "internal/engine", "internal/fileformat", "internal/meta", "internal/score", "internal/topk",
		"internal/vfs", "segment/codes", "segment/graph", "segment/graph/levels", "simd"},
	"internal/match": {"filter", "internal/bitset", "internal/document", "internal/engine", "internal/fileformat", "internal/meta",
		"segment/terms", "text"},
	"internal/fsck": {"filter", "internal/bitset", "internal/blocks", "internal/boltcheck", "internal/document", "internal/engine", "internal/fileformat",
		"internal/manifest", "internal/match", "internal/meta", "internal/vfs", "segment", "segment/columns", "segment/terms", "wal"},
	"internal/share": {"internal/codec", "internal/document", "internal/engine", "internal/fileformat", "internal/meta",
		"internal/vfs", "wal", "golang.org/x/sys/unix"},
	"internal/replica": {"internal/document", "internal/engine", "internal/fileformat", "internal/manifest", "internal/vfs",
		"segment", "wal"},
	"internal/docjson": {"internal/document", "internal/jsontext"},
	"internal/csvhead": {},
	"internal/errtext": {},
	"exchange":         {"db", "internal/csvhead", "internal/docjson", "internal/document", "internal/vfs"},
	"mcp": {"db", "filter", "exchange", "internal/docjson", "internal/errtext", "internal/jsontext", "rag", "rag/embed", "rag/knowledge", "rag/vectorize", "github.com/google/jsonschema-go/jsonschema",
		"github.com/modelcontextprotocol/go-sdk/jsonrpc", "github.com/modelcontextprotocol/go-sdk/mcp"},
	"store":            {"db", "filter", "internal/docjson", "internal/errtext", "internal/fusion", "simd", "text"},
	"store/weaviate":   {"db", "filter", "internal/document", "internal/errtext", "store", "text", "github.com/google/uuid"},
	"store/migrate":    {"db", "simd", "store"},
	"store/storetest":  {"db", "filter", "simd", "store", "github.com/google/go-cmp/cmp", "github.com/google/go-cmp/cmp/cmpopts"},
	"server/inspector": {"server"},
	"server/bases": {"db", "filter", "internal/docjson", "internal/errtext", "rag", "rag/embed", "rag/eval", "rag/knowledge", "server",
		"server/internal/rest"},
	"server/chroma": {"db", "filter", "exchange", "internal/docjson", "internal/document", "internal/jsontext", "rag/embed", "rag/vectorize", "server/internal/rest", "simd", "github.com/google/uuid"},
	"rag":           {"db", "filter", "exchange", "internal/document", "rag/embed", "rag/split", "simd", "text"},
	"rag/knowledge": {"db", "filter", "internal/errtext", "internal/httpjson", "internal/retry", "internal/vfs", "rag", "rag/chat", "rag/embed", "rag/embed/bert", "rag/eval", "rag/load", "rag/rerank", "rag/split",
		"text", "github.com/goccy/go-yaml", "golang.org/x/sync/semaphore"},
	"rag/chat":   {"internal/httpjson"},
	"rag/rerank": {"internal/httpjson", "internal/mmr", "internal/retry", "rag", "rag/embed", "simd"},
	"rag/embed": {"internal/errtext", "internal/httpjson", "internal/retry", "internal/vfs", "rag/embed/bert", "rag/embed/models", "rag/embed/static", "github.com/google/uuid",
		"golang.org/x/crypto/blake2b"},
	"rag/eval":      {"db", "exchange", "internal/document", "internal/page", "github.com/viterin/vek"},
	"rag/xray":      {"db", "filter", "internal/page", "rag/eval", "simd", "github.com/viterin/vek"},
	"internal/page": {},

	"rag/embed/bert":           {"internal/vfs", "internal/tokenizer", "internal/weights", "simd", "github.com/viterin/vek"},
	"rag/embed/models":         {"internal/errtext"},
	"rag/embed/static":         {"internal/vfs", "internal/tokenizer", "internal/weights", "github.com/viterin/vek"},
	"internal/tokenizer":       {"golang.org/x/text/unicode/norm"},
	"internal/weights":         {"internal/codec", "internal/vfs"},
	"rag/embed/static/english": {"rag/embed", "rag/embed/static"},
	"rag/load": {"internal/csvhead", "internal/vfs", "codeberg.org/readeck/go-readability", "github.com/JohannesKaufmann/html-to-markdown/v2/converter",
		"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base", "github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark",
		"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table", "github.com/gabriel-vasile/mimetype", "github.com/goccy/go-yaml", "github.com/goccy/go-yaml/lexer", "github.com/goccy/go-yaml/token",
		"github.com/ledongthuc/pdf", "golang.org/x/net/html", "golang.org/x/net/html/atom", "golang.org/x/net/html/charset", "golang.org/x/text/encoding", "golang.org/x/text/encoding/charmap",
		"golang.org/x/text/encoding/unicode", "golang.org/x/text/encoding/unicode/utf32"},
	"internal/httpjson": {"internal/errtext", "internal/retry"},
	"internal/retry":    {},
	"rag/split": {"simd", "github.com/clipperhouse/uax29/v2/sentences", "github.com/clipperhouse/uax29/v2/words",
		"github.com/yuin/goldmark/ast", "github.com/yuin/goldmark/parser", "github.com/yuin/goldmark/text"},
}

var stemmers = func() (paths []string) {
	for _, language := range []string{"arabic", "danish", "dutch", "english", "finnish", "french", "german", "hungarian", "irish",
		"italian", "norwegian", "porter", "portuguese", "romanian", "russian", "spanish", "swedish", "tamil", "turkish"} {
		paths = append(paths, "github.com/blevesearch/snowballstem/"+language)
	}
	return paths
}()

// core lists every module that a program which imports db links.
var core = []string{
	"github.com/blevesearch/snowballstem", "github.com/chewxy/math32", "github.com/clipperhouse/uax29/v2",
	"github.com/google/uuid", "github.com/vecbolt/vecbolt",
	"github.com/viterin/partial", "github.com/viterin/vek", "github.com/vmihailenco/msgpack/v5",
	"github.com/vmihailenco/tagparser/v2", "go.etcd.io/bbolt", "golang.org/x/exp", "golang.org/x/sys", "golang.org/x/text",
}

// A file is a parsed Go file of the module.
type file struct {
	path string // below the root, with slashes
	dir  string
	test bool
	ast  *ast.File
	fset *token.FileSet
	text string
}

// line returns the number of the line at a position.
func (f *file) line(pos token.Pos) int { return f.fset.Position(pos).Line }

func files(t *testing.T) []file {
	t.Helper()
	var all []file
	var together []string
	for _, dir := range workspace(t) {
		together = append(together, filepath.Join(root, dir))
	}
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			name := e.Name()
			if path != root && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "node_modules") {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && !slices.Contains(together, path) {
				return filepath.SkipDir // a module outside of go.work
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(fset, path, text, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		rel = filepath.ToSlash(rel)
		all = append(all, file{rel, filepath.ToSlash(filepath.Dir(rel)), strings.HasSuffix(path, "_test.go"), parsed, fset, string(text)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Fatalf("only %d files found", len(all))
	}
	return all
}

func TestImportsPointDown(t *testing.T) {
	for _, f := range files(t) {
		allowed, listed := imports[f.dir]
		top, _, _ := strings.Cut(f.dir, "/")
		if !listed && !slices.Contains([]string{"tools", "fuzz", "docs"}, top) && f.dir != "internal/lint" {
			t.Errorf("%s: the table does not say what package %s may import", f.path, f.dir)
		}
		if !listed || f.test {
			continue
		}
		for _, spec := range f.ast.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			path = strings.TrimPrefix(path, module)
			std := !strings.Contains(strings.Split(path, "/")[0], ".") && !strings.HasPrefix(spec.Path.Value, `"`+module)
			if !std && !slices.Contains(allowed, path) {
				t.Errorf("%s imports %s, which the table does not allow", f.path, path)
			}
		}
	}
}

// TestInternalIsBelowDB: what imports db stands above it in the tree, not below internal.
func TestInternalIsBelowDB(t *testing.T) {
	below := []string{"filter", "internal", "segment", "simd", "text", "wal"}
	for _, f := range files(t) {
		if top, _, _ := strings.Cut(f.dir, "/"); top != "internal" || f.test {
			continue
		}
		for _, spec := range f.ast.Imports {
			path, own := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module)
			if top, _, _ := strings.Cut(path, "/"); own && !slices.Contains(below, top) {
				t.Errorf("%s imports %s, which is not below db", f.path, path)
			}
		}
	}
}

func TestEveryImportRuleIsUsed(t *testing.T) {
	used := map[string]bool{}
	for _, f := range files(t) {
		for _, spec := range f.ast.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			if !f.test {
				used[f.dir+" "+strings.TrimPrefix(path, module)] = true
			}
		}
	}
	for dir, allowed := range imports {
		for _, path := range allowed {
			if !used[dir+" "+path] {
				t.Errorf("the table allows %s to import %s, which it does not", dir, path)
			}
		}
	}
}

func TestCoreDependencies(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", module+"db").Output()
	if err != nil {
		t.Fatal(err)
	}
	got := slices.DeleteFunc(strings.Split(string(out), "\n"), func(s string) bool { return s == "" })
	slices.Sort(got)
	if got = slices.Compact(got); !slices.Equal(got, core) {
		t.Errorf("db links\n%q\nwant\n%q", got, core)
	}
}

func TestOnePackageComment(t *testing.T) {
	count := map[string]int{}
	for _, f := range files(t) {
		key := f.dir + " " + strings.TrimSuffix(f.ast.Name.Name, "_test")
		count[key] += 0
		if f.ast.Doc != nil && (!f.test || f.dir == "fuzz" || f.dir == "internal/lint") {
			count[key]++
		}
	}
	for pkg, n := range count {
		if n != 1 {
			t.Errorf("package %s has %d package comments", pkg, n)
		}
	}
}

// Numbers on disk are literals: a value must not change when a line moves.
func TestFormatsAreLiteral(t *testing.T) {
	for _, f := range files(t) {
		if strings.HasSuffix(f.path, "/format.go") {
			for _, word := range []string{"iota", "unsafe"} {
				if regexp.MustCompile(`\b` + word + `\b`).MatchString(f.text) {
					t.Errorf("%s uses %s", f.path, word)
				}
			}
		}
	}
}

func TestUnsafeStaysBelow(t *testing.T) {
	allowed := []string{"simd", "internal/codec", "internal/vfs"}
	for _, f := range files(t) {
		for _, spec := range f.ast.Imports {
			if spec.Path.Value == `"unsafe"` && !f.test && !slices.Contains(allowed, f.dir) {
				t.Errorf("%s imports unsafe", f.path)
			}
		}
	}
}

// Stored bytes go through vfs, which syncs in the right order and can inject failures.
func TestStorageUsesVFS(t *testing.T) {
	raw := regexp.MustCompile(`\bos\.(Create|OpenFile|Rename|WriteFile|Remove|RemoveAll|Truncate)\(`)
	for _, f := range files(t) {
		if f.test || !slices.Contains([]string{"db", "segment", "segment/columns", "wal", "internal/engine",
			"internal/fsck", "internal/meta", "internal/replica"}, f.dir) {
			continue
		}
		if call := raw.FindString(f.text); call != "" {
			t.Errorf("%s calls %s directly", f.path, call)
		}
	}
}

func TestErrorsAreWrapped(t *testing.T) {
	lost := regexp.MustCompile(`Errorf\([^)\n]*%[sv][^)\n]*,\s*err\)`)
	kept := regexp.MustCompile(`invalidf\(|\bt\.Errorf\(`)
	for _, f := range files(t) {
		if f.test {
			continue
		}
		for i, line := range strings.Split(f.text, "\n") {
			if lost.MatchString(line) && !kept.MatchString(line) && !strings.Contains(line, "%w") {
				t.Errorf("%s:%d: an error is printed, not wrapped", f.path, i+1)
			}
		}
	}
}

// Only package text knows the syntax of queries: other packages call text.Plain for a question.
func TestSyntaxOfQueriesIsInOnePlace(t *testing.T) {
	signs := regexp.MustCompile(`[“„«「]|^\+-$`)
	for _, f := range files(t) {
		if f.test || f.dir == "text" {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if value, err := strconv.Unquote(lit.Value); err == nil && signs.MatchString(value) {
					t.Errorf("%s: %s looks like the syntax of queries, which belongs to package text", f.path, lit.Value)
				}
			}
			return true
		})
	}
}

// spoken lists the calls whose strings are errors or messages to users.
var spoken = map[string]bool{"Errorf": true, "New": true, "invalidf": true, "fail": true, "failf": true,
	"notef": true, "answer": true, "Fprint": true, "Fprintf": true, "Fprintln": true}

// Users of the tool, the service or an agent do not see Go: errors state the mistake, and programs
// give advice in their own terms, commands and flags.
func TestErrorsDoNotSpeakGo(t *testing.T) {
	all := files(t)
	packages, exported := map[string]bool{}, map[string]bool{}
	for _, f := range all {
		if f.test {
			continue
		}
		packages[f.ast.Name.Name] = f.ast.Name.Name != "main"
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				exported[n.Name.Name] = n.Name.IsExported()
				return false
			case *ast.TypeSpec:
				exported[n.Name.Name] = n.Name.IsExported()
			case *ast.Field:
				for _, name := range n.Names {
					exported[name.Name] = name.IsExported()
				}
			case *ast.ValueSpec:
				for _, name := range n.Names {
					exported[name.Name] = name.IsExported()
				}
			}
			return true
		})
	}
	qualified := regexp.MustCompile(`\b(\w+)\.([A-Z]\w+)`)
	camel := regexp.MustCompile(`\b[A-Z][a-z0-9]+[A-Z]\w*`)
	speaksGo := func(text string) string {
		for _, m := range qualified.FindAllStringSubmatch(text, -1) {
			if exported[m[2]] && (packages[m[1]] || exported[m[1]]) {
				return m[0]
			}
		}
		for _, word := range camel.FindAllString(text, -1) {
			if exported[word] {
				return word
			}
		}
		return ""
	}
	for text, want := range map[string]string{
		"call db.Repair first":         "db.Repair",
		"see Schema.Text":              "Schema.Text",
		"SetText changes it":           "SetText",
		"a PDF of LangChain holds NaN": "",
	} {
		if got := speaksGo(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for _, f := range all {
		// For developers only: figures and trials, and simd, which panics at programmers.
		own := f.dir == "simd" || f.dir == "tools/bench" || strings.HasPrefix(f.dir, "fuzz/") || strings.HasPrefix(f.dir, "docs/")
		if f.test || own {
			continue
		}
		tool := f.dir == "tools/vecbolt" || f.dir == "mcp"
		check := func(e ast.Expr) {
			if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil && speaksGo(text) != "" {
					t.Errorf("%s: %s tells users of %s", f.path, lit.Value, speaksGo(text))
				}
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if tool { // help, descriptions
					check(n)
				}
			case *ast.CallExpr:
				name := ""
				switch fun := n.Fun.(type) {
				case *ast.Ident:
					name = fun.Name
				case *ast.SelectorExpr:
					name = fun.Sel.Name
				}
				if spoken[name] && !tool {
					for _, arg := range n.Args {
						check(arg)
					}
				}
			}
			return true
		})
	}
}

func TestNamesOfPackages(t *testing.T) {
	for _, f := range files(t) {
		switch f.ast.Name.Name {
		case "common", "util", "utils", "helpers", "types", "base", "misc":
			t.Errorf("%s: package name says nothing", f.path)
		}
		if f.dir == "." {
			t.Errorf("%s: no Go file belongs at the root", f.path)
		}
	}
}

// freeGoroutines lists the places that start a goroutine without vfs.Group, directly or by a call.
// The reason says why neither a fault of mapped memory nor a panic can end the process there, or
// why the goroutine does not belong to the engine.
var freeGoroutines = map[string]struct {
	places int
	reason string
}{
	"internal/vfs/group.go":         {1, "is the helper"},
	"internal/vfs/interruptible.go": {1, "closes a pipe"},
	"internal/engine/background.go": {1, "a timer that leaves a note in a channel"},
	"internal/engine/compact.go":    {1, "ends a context"},
	"internal/engine/files.go":      {1, "ends a context"},
	"internal/engine/folder.go":     {1, "ends a context"},
	"segment/terms/compare.go":      {1, "iter.Pull2 passes panics on to its caller, and faults are made panics there"},
	"exchange/rows.go":              {1, "iter.Pull2 passes panics on to its caller, and reads no mapped memory"},
	"internal/share/follower.go":    {3, "close a connection; end a context"},
	"internal/share/leader.go":      {2, "end the reading from a connection, and a connection"},
	"mcp/http.go":                   {1, "ends a context"},
	"mcp/stdio.go":                  {1, "reads what the user gave, into the heap, and is left behind while a read blocks"},
	"server/slots.go":               {2, "recovers, and passes panics on to the goroutine of the request; ends a context"},
	"server/listen.go":              {1, "http.Server recovers in its own goroutines, and maps nothing"},
	"rag/knowledge/gate.go":         {1, "closes a database that nobody reads"},
	"rag/load/load.go":              {1, "recovers by itself, and is left behind when it takes too long"},
	"rag/rerank/rerank.go":          {1, "calls what the user gave, in memory of the heap"},
	"rag/embed/batch.go":            {1, "calls what the user gave, in memory of the heap"},
	"rag/embed/local.go":            {1, "multiplies weights that were read into the heap"},
	"rag/embed/models/download.go":  {1, "ends a context"},
	"rag/embed/bert/team.go":        {1, "multiplies weights that were packed in the heap"},
	"store/weaviate/collection.go":  {1, "speaks HTTP"},
}

// A fault of mapped memory (a truncated file, an unreadable sector), or a panic, in an unguarded
// goroutine ends the process. So only vfs.Group starts goroutines.
func TestGoroutinesAreGuarded(t *testing.T) {
	seen := map[string]int{}
	for _, f := range files(t) {
		if f.test || strings.HasPrefix(f.dir, "tools/") || strings.HasPrefix(f.dir, "fuzz") ||
			strings.HasPrefix(f.dir, "docs/") || strings.Contains(f.dir, "/cmd/") {
			continue // programs
		}
		for _, place := range goroutines(f.ast) {
			if seen[f.path]++; seen[f.path] > freeGoroutines[f.path].places {
				t.Errorf("%s: %s starts a goroutine that is not guarded: use vfs.Group", f.path, place)
			}
		}
	}
	for path, free := range freeGoroutines {
		if seen[path] != free.places {
			t.Errorf("%s starts %d goroutines of its own, the table says %d", path, seen[path], free.places)
		}
	}
}

// goroutines returns the statements of a file that start a goroutine without vfs.Group.
func goroutines(f *ast.File) (places []string) {
	groups := map[string]bool{} // names declared, in any scope, as a sync.WaitGroup or the like
	declared := func(names []*ast.Ident, of ast.Expr) {
		if star, ok := of.(*ast.StarExpr); ok {
			of = star.X
		}
		if sel, ok := of.(*ast.SelectorExpr); ok {
			if pkg, ok := sel.X.(*ast.Ident); ok && (pkg.Name == "sync" && sel.Sel.Name == "WaitGroup" || pkg.Name == "errgroup") {
				for _, name := range names {
					groups[name.Name] = true
				}
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			declared(n.Names, n.Type)
		case *ast.Field:
			declared(n.Names, n.Type)
		case *ast.AssignStmt:
			for i, value := range n.Rhs {
				switch v := value.(type) {
				case *ast.UnaryExpr:
					value = v.X
				case *ast.CallExpr: // new(sync.WaitGroup), errgroup.WithContext(ctx)
					if value = v.Fun; len(v.Args) > 0 {
						if name, ok := v.Fun.(*ast.Ident); ok && name.Name == "new" {
							value = v.Args[0]
						}
					}
				}
				if lit, ok := value.(*ast.CompositeLit); ok {
					value = lit.Type
				}
				if name, ok := n.Lhs[i].(*ast.Ident); ok {
					declared([]*ast.Ident{name}, value)
				}
			}
		}
		return true
	})
	// Functions of other packages that run their argument in a goroutine of their own.
	starters := []string{"time.AfterFunc", "context.AfterFunc", "iter.Pull", "iter.Pull2"}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			places = append(places, "a go statement")
		case *ast.SelectorExpr:
			name := ""
			switch x := n.X.(type) {
			case *ast.Ident:
				name = x.Name
			case *ast.SelectorExpr:
				name = x.Sel.Name
			}
			if whole := name + "." + n.Sel.Name; slices.Contains(starters, whole) || groups[name] && (n.Sel.Name == "Go" || n.Sel.Name == "TryGo") {
				places = append(places, whole)
			}
		}
		return true
	})
	return places
}

// The rule detects each forbidden form.
func TestGoroutinesAreFound(t *testing.T) {
	const head = "package p\nimport (\"sync\"; \"golang.org/x/sync/errgroup\"; \"context\"; \"time\"; \"iter\")\n"
	for code, want := range map[string]int{
		"func f() { go f() }":                                                                       1,
		"func f() { go func() {}() }":                                                               1,
		"func f() { var wg sync.WaitGroup; wg.Go(f) }":                                              1,
		"func f() { wg := sync.WaitGroup{}; wg.Go(f) }":                                             1,
		"func f() { wg := &sync.WaitGroup{}; g := wg.Go; g(f) }":                                    1,
		"func f() { wg := new(sync.WaitGroup); wg.Go(f) }":                                          1,
		"type s struct { wait sync.WaitGroup }; func (b *s) f() { b.wait.Go(nil); b.wait.Go(nil) }": 2,
		"func f(wg *sync.WaitGroup) { wg.Go(nil) }":                                                 1,
		"func f() { g, _ := errgroup.WithContext(nil); g.Go(nil) }":                                 1,
		"func f() { var g errgroup.Group; g.TryGo(nil) }":                                           1,
		"func f() { time.AfterFunc(0, nil); context.AfterFunc(nil, nil); iter.Pull[int](nil) }":     3,
		"func f() { var g vfs.Group; g.Go(\"\", nil); g.Wait() }":                                   0,
		"func f() { var wg sync.WaitGroup; wg.Wait() }":                                             0,
	} {
		parsed, err := parser.ParseFile(token.NewFileSet(), "p.go", head+code, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := goroutines(parsed); len(got) != want {
			t.Errorf("%s: found %q, want %d", code, got, want)
		}
	}
}

// bbolt's own check reads the mapped file in an unguarded goroutine; boltcheck covers all its
// checks.
func TestNoCheckOfBolt(t *testing.T) {
	call := regexp.MustCompile(`\b(b|tx|bolt)\.Check\(`)
	for _, f := range files(t) {
		if !f.test && f.dir == "internal/meta" && call.MatchString(f.text) {
			t.Errorf("%s calls bbolt's Check", f.path)
		}
	}
}
