package server_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// docs/http.md shows what the service answers.
func TestDocumentation(t *testing.T) {
	page, err := os.ReadFile("../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, nil)
	exchange := regexp.MustCompile("(?ms)^```http\n([A-Z]+) (\\S+)(?: (\\S+))?\n(.*?)^```\n```json (\\d+)\n(.*?)^```$")
	all := exchange.FindAllStringSubmatch(strings.ReplaceAll(string(page), "\r\n", "\n"), -1)
	if n := strings.Count(string(page), "```http"); n != len(all) || n < 15 {
		t.Fatalf("%d exchanges, %d of them complete", n, len(all))
	}
	for _, m := range all {
		method, path, body := m[1], m[2], m[4]
		if before, query, ok := strings.Cut(path, "?"); ok {
			var given []string
			for _, p := range strings.Split(query, "&") {
				name, value, _ := strings.Cut(p, "=")
				given = append(given, name+"="+url.QueryEscape(value))
			}
			path = before + "?" + strings.Join(given, "&")
		}
		var header []string
		if m[3] != "" {
			header = []string{"Content-Type", m[3]}
		}
		a := s.ask(method, path, body, header...)
		if strconv.Itoa(a.status) != m[5] {
			t.Errorf("%s %s: status %d, the page says %s: %s", method, path, a.status, m[5], a.body)
		}
		var shown, got any
		if err := json.Unmarshal([]byte(m[6]), &shown); err != nil {
			t.Errorf("%s %s: the page shows no JSON: %v", method, path, err)
			continue
		}
		if err := json.Unmarshal([]byte(a.body), &got); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(shown, leaveOut(shown, got)); diff != "" {
			t.Errorf("%s %s (-page +answer):\n%s", method, path, diff)
		}
	}
}

// leaveOut replaces what the page does not show.
func leaveOut(shown, got any) any {
	if shown == "…" && got != nil {
		return "…"
	}
	switch shown := shown.(type) {
	case []any:
		if list, ok := got.([]any); ok {
			for i := range min(len(list), len(shown)) {
				list[i] = leaveOut(shown[i], list[i])
			}
		}
	case map[string]any:
		if m, ok := got.(map[string]any); ok {
			for name, v := range m {
				m[name] = leaveOut(shown[name], v)
			}
		}
	}
	return got
}

// The page names every status that errors have.
func TestDocumentedStatuses(t *testing.T) {
	page, err := os.ReadFile("../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, status := range []int{400, 401, 403, 404, 405, 408, 409, 413, 415, 421, 429, 503, 507} {
		if !regexp.MustCompile(fmt.Sprintf(`(?m)^\|[ \d,]*\b%d\b`, status)).Match(page) {
			t.Errorf("%d is not on the page", status)
		}
	}
}
