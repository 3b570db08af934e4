package main

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/db"
)

// What is measured has the graphs that it is due; where somebody else has the database open, that
// is said.
func TestBenchMakesGraphs(t *testing.T) {
	const rows, dim = 10_000, 1000 // large enough for a graph, and quickly made, because most rows are the same
	dir := t.TempDir()
	name, base, queries := filepath.Join(dir, "db"), filepath.Join(dir, "base.fvecs"), filepath.Join(dir, "queries.fvecs")
	rng := rand.New(rand.NewPCG(7, 8))
	few := make([][]byte, 50)
	for i := range few {
		few[i] = binary.LittleEndian.AppendUint32(nil, dim)
		for range dim {
			few[i], _ = binary.Append(few[i], binary.LittleEndian, rng.Float32()-0.5)
		}
	}
	vectors := func(n int) (file []byte) {
		for i := range n {
			file = append(file, few[i%len(few)]...)
		}
		return file
	}
	for file, content := range map[string][]byte{base: vectors(rows), queries: vectors(3)} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	vecbolt := func(args ...string) (said string) {
		var stdout, stderr bytes.Buffer
		if status := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr); status != statusOK {
			t.Fatalf("%v: status %d, %s", args, status, &stderr)
		}
		return stderr.String()
	}
	bench := []string{"bench", name, "c", "--fvecs", queries, "--recall", "0.9", "--for", "0s", "--json"}
	var stdout, stderr bytes.Buffer
	last := regexp.MustCompile(`^added 10,000, .*; 1 graph to build, which takes about \d+ (s|min): "vecbolt compact .*", or import with --wait\n$`)
	if status := run(t.Context(), []string{"import", name, "c", base}, strings.NewReader(""), &stdout, &stderr); status != statusOK || !last.MatchString(stdout.String()) {
		t.Fatalf("import: status %d, %s%s", status, &stdout, &stderr)
	}
	if said := vecbolt("import", name+"2", "c", base, "--wait"); !strings.HasPrefix(said, "vecbolt: 1 graph to build, which takes about ") {
		t.Errorf("import --wait: %q", said)
	}
	if said := vecbolt("info", name+"2"); said != "" {
		t.Errorf("info after import --wait: %q", said)
	}

	if said := vecbolt("info", name); !strings.Contains(said, "1 of 1 segments of \"c\" have no graph yet") || !strings.Contains(said, "\"vecbolt compact "+name+"\" builds the graphs now") {
		t.Errorf("info: %q", said)
	}
	reader, err := db.Open(name, &db.Options{ReadOnly: true, Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	if said := vecbolt(bench...); !strings.Contains(said, "1 of \"c\" are due") || !strings.Contains(said, "cannot be built") {
		t.Errorf("beside a reader that keeps writers out: %q", said)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	if said := vecbolt(bench...); !strings.Contains(said, "1 of \"c\" are due") || strings.Contains(said, "cannot") {
		t.Errorf("at first: %q", said)
	}
	if said := vecbolt(bench...); said != "" {
		t.Errorf("with graphs: %q", said)
	}
	if said := vecbolt("info", name); said != "" {
		t.Errorf("info with graphs: %q", said)
	}
}
