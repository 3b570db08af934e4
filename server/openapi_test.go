package server

import (
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/db"
)

// The document has the routes, and the routes are in the document.
func TestOpenAPIHasTheRoutes(t *testing.T) {
	var doc struct {
		OpenAPI    string
		Paths      map[string]map[string]operation
		Components map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(openapi, &doc); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1.") {
		t.Errorf("version %q", doc.OpenAPI)
	}
	seen := map[string]bool{}
	for _, r := range (&Server{}).routes() {
		method, path, _ := strings.Cut(r.pattern, " ")
		op, ok := doc.Paths[path][strings.ToLower(method)]
		if !ok {
			t.Errorf("%s is not in the document", r.pattern)
			continue
		}
		if (op.Security != nil) != (r.access == public) {
			t.Errorf("%s: the document and the server disagree about whether it is public", r.pattern)
		}
		if seen[op.OperationID] || op.OperationID == "" {
			t.Errorf("%s: operationId %q", r.pattern, op.OperationID)
		}
		seen[op.OperationID] = true
		var declared []string
		for _, p := range op.Parameters {
			declared = append(declared, strings.TrimPrefix(p["$ref"], "#/components/parameters/"))
		}
		for _, m := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(path, -1) {
			if !slices.Contains(declared, m[1]) {
				t.Errorf("%s: parameter %s is not declared", r.pattern, m[1])
			}
		}
		delete(doc.Paths[path], strings.ToLower(method))
	}
	for path, rest := range doc.Paths {
		for method := range rest {
			t.Errorf("%s %s is in the document, but no route", method, path)
		}
	}
	refs := regexp.MustCompile(`"\$ref": "#/components/(\w+)/(\w+)"`).FindAllSubmatch(openapi, -1)
	if len(refs) < 50 {
		t.Errorf("only %d references", len(refs))
	}
	for _, m := range refs {
		if _, ok := doc.Components[string(m[1])][string(m[2])]; !ok {
			t.Errorf("%s leads nowhere", m[0])
		}
	}
}

type operation struct {
	OperationID string
	Security    []any
	Parameters  []map[string]string
}

// The document has the keys of the statistics that the server answers with, and no others.
func TestOpenAPIHasTheStatistics(t *testing.T) {
	var doc struct {
		Components struct {
			Schemas map[string]struct{ Properties map[string]json.RawMessage }
		}
	}
	if err := json.Unmarshal(openapi, &doc); err != nil {
		t.Fatal(err)
	}
	var recall struct {
		Items struct{ Properties map[string]any }
	}
	if err := json.Unmarshal(doc.Components.Schemas["CollectionStats"].Properties["recall"], &recall); err != nil {
		t.Fatal(err)
	}
	compare := func(name string, got []string, want reflect.Type, hidden ...string) {
		keys := slices.DeleteFunc(jsonKeys(want), func(k string) bool { return slices.Contains(hidden, k) })
		slices.Sort(keys)
		slices.Sort(got)
		if !slices.Equal(got, keys) {
			t.Errorf("%s: the document has %q, the server answers %q", name, got, keys)
		}
	}
	schemas := doc.Components.Schemas
	compare("Stats", slices.Collect(maps.Keys(schemas["Stats"].Properties)), reflect.TypeFor[figures](), "dir", "trouble")
	compare("CollectionStats", slices.Collect(maps.Keys(schemas["CollectionStats"].Properties)),
		reflect.TypeFor[collectionFigures](), "metadata")
	compare("recall", slices.Collect(maps.Keys(recall.Items.Properties)), reflect.TypeFor[db.MeasuredRecall]())
}

// jsonKeys returns the keys of a struct in JSON.
func jsonKeys(t reflect.Type) (keys []string) {
	for _, f := range reflect.VisibleFields(t) {
		if key, _, _ := strings.Cut(f.Tag.Get("json"), ","); key != "" && key != "-" {
			keys = append(keys, key)
		}
	}
	return keys
}
