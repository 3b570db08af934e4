package inspector

import (
	"errors"
	"flag"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/internal/browsertest"
	"github.com/vecbolt/vecbolt/server"
)

var shots = flag.String("shots", "", "directory for screenshots of TestBrowser")

// A browser is a page in Chromium.
type browser struct {
	*testing.T
	*browsertest.Browser
}

// Helper implements testing.TB and browsertest.T.
func (b *browser) Helper() { b.T.Helper() }

// Fatalf implements testing.TB and browsertest.T.
func (b *browser) Fatalf(format string, args ...any) {
	b.T.Helper()
	b.T.Fatalf(format, args...)
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	b, err := browsertest.Open(t.Context(), t)
	if errors.Is(err, browsertest.ErrNone) {
		t.Skip("skipped: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	b.Shots = *shots
	return &browser{t, b}
}

// complaints reports errors of the page, apart from expected ones.
func (b *browser) complaints() {
	b.T.Helper()
	for _, e := range b.Errs {
		if !expected(e) {
			b.Errorf("the browser complains:\n%s", e)
		}
	}
}

// expected reports whether an entry of the log is an answer that a test provokes: 401 of a service
// that wants a token, mistakes in a question, a model that fails, and a service without bases.
func expected(entry string) bool {
	return strings.Contains(entry, "status of 401") || strings.Contains(entry, "status of 400") || strings.Contains(entry, "status of 502") ||
		strings.Contains(entry, "status of 404") && strings.Contains(entry, `/bases"`)
}

func TestBrowser(t *testing.T) {
	_, url := serve(t, nil)
	b := newBrowser(t)
	b.Call("Page.navigate", map[string]any{"url": url + "/"}, nil)

	// Health is seen first.
	b.Says("#status", "healthy")
	b.Says("#collections", "notes")
	b.Says("#collections tbody tr:last-child", "131") // documents
	b.Says("#collections tbody tr:last-child", "1 (1 %)")
	b.Says("#side", "empty")
	b.Shot("health")

	// Documents, by keys: the last collection, pages, a condition, a document.
	b.Press("C")
	b.Says("h2", "notes")
	b.Says("#range", "1 to 50 of 131")
	b.Press("]")
	b.Says("#range", "51 to 100 of 131")
	b.Press("]")
	b.Says("#range", "101 to 131 of 131")
	b.Until(`document.querySelector("#next").disabled`)
	b.Press("[")
	b.Says("#range", "51 to 100 of 131")
	b.Press("/")
	b.Until(`document.activeElement.name === "where"`)
	b.Insert(`{"lang":"go","n":{"$lt":30}}`)
	b.Press("Enter")
	b.Says("#range", "1 to 10 of 10")
	b.Press("Escape")
	b.Press("j")
	b.Press("j")
	b.Press("Enter")
	b.Says("#detail", "Note 3 about vectors")
	b.Says("#detail", "9007199254740993") // all digits
	b.Says("#detail", "8 components")
	b.Shot("documents")
	b.Click("#detail td button") // filter by the first field
	b.Until(`location.hash.includes("9007199254740993")`)
	b.Says("#range", "of 129")
	b.Press("c")
	b.Press("C")
	b.Says("#range", "1 to 50 of 131")

	// Texts of the database stay text.
	b.Says("tbody tr:first-child", evil)
	b.Click("tbody tr:first-child")
	b.Says("#detail h2", evil)
	b.Says("#detail", "rarely")
	if title := b.Eval(`document.title`); title == "owned" || b.Eval(`document.querySelectorAll("img").length`) != 0.0 {
		t.Errorf("markup from the database got into the page: title %q", title)
	}
	b.Press("Escape")
	b.Until(`document.querySelector("#detail").childElementCount === 0`)

	// Search: like a document, by words, by both, with reasons.
	b.Click("tbody tr:nth-child(3)")
	b.Says("#detail h2", "doc-000")
	b.Press("n")
	b.Says("#quality", "10 hits")
	b.Says("#quality", "exact")
	b.Says("#hits tbody tr:first-child", evil) // its twin, by id before it
	b.Says("#hits tbody tr:nth-child(2)", "doc-000")
	b.Until(`document.querySelector("#plan").innerText !== ""`)
	b.Eval(`go({ v: "search", mode: "text", text: "rarely segments", whynot: "doc-005,bare,nothing", k: 5 })`)
	b.Says("#hits tbody tr:first-child", "rarely")
	b.Says("#hits tbody mark", "rarely")
	b.Says("#whynot", "nothing")
	b.Shot("search")
	b.Eval(`go({ v: "search", mode: "hybrid", text: "python", id: "doc-001", where: '{"deep.year":{"$gte":2005}}' })`)
	b.Says("#hits", "vector")
	b.Says("#hits", "text #")
	b.Says("#quality", "exact")
	b.Eval(`go({ v: "search", mode: "vector", vector: "[1,2]" })`)
	b.Says("#out .error", "dimension")
	b.Eval(`go({ v: "search", mode: "vector", vector: "[1" })`)
	b.Says("#out .error", "vector:")
	b.Press("4")
	b.Says("h2", "Health")

	// The map, and a click on a point of it.
	b.Eval(`go({ c: "notes", v: "map", color: "lang" })`)
	b.Says("#legend", "python")
	b.Until(`document.querySelector("#canvas").width > 100`)
	b.Eval(`document.querySelector("#canvas").focus()`)
	b.Press("ArrowRight")
	b.Until(`!document.querySelector("#tip").hidden`)
	b.Shot("map")
	tip := b.Eval(`document.querySelector("#tip").textContent`)
	at, _ := b.Eval(`(() => { const t = document.querySelector("#tip"), r = document.querySelector("#canvas").getBoundingClientRect(); return [r.x + parseFloat(t.style.left) - 10, r.y + parseFloat(t.style.top) + 30]; })()`).([]any)
	b.ClickAt(at[0], at[1])
	b.Until(`document.querySelector("#detail h2") !== null`)
	if id := b.Eval(`document.querySelector("#detail h2").textContent`); id != tip {
		t.Errorf("the click opened %v, not %v", id, tip)
	}
	b.Press("Escape")

	// Nothing in an empty collection, and in one that is not there.
	b.Eval(`go({ c: "empty", v: "documents" })`)
	b.Says("#range", "none of 0")
	b.Eval(`go({ c: "empty", v: "map" })`)
	b.Says("#out", "No vectors")
	b.Eval(`go({ c: "gone", v: "documents" })`)
	b.Says("main", "no collection gone")
	b.Press("?")
	b.Says("#keys", "switch views")
	b.Press("Escape")
	b.Until(`!document.querySelector("#keys").open`)

	// In the dark, and on a small screen.
	b.Call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": "dark"}}}, nil)
	b.Eval(`go({ c: "notes", v: "map", color: "n" })`)
	b.Says("#legend", " to ")
	b.Shot("dark")
	b.Eval(`go({ c: "notes", v: "search", mode: "id", id: "doc-001" })`)
	b.Says("#hits", "doc-001")
	b.Shot("dark-search")
	b.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 420, "height": 800, "deviceScaleFactor": 1, "mobile": true}, nil)
	b.Eval(`go({ c: "notes", v: "documents" })`)
	b.Says("#range", "of 131")
	b.Shot("small")
	if wide := b.Eval(`document.documentElement.scrollWidth > innerWidth`); wide == true {
		t.Error("the page is wider than a small screen")
	}
	b.complaints()
}

// A service with tokens: the page asks for one, and goes on.
func TestBrowserAsksForToken(t *testing.T) {
	const token = "a token to read with"
	_, url := serve(t, &server.Options{ReadToken: token})
	b := newBrowser(t)
	b.Call("Page.navigate", map[string]any{"url": url + "/"}, nil)
	for _, try := range []string{"another token, a wrong one", token} {
		b.Until(`document.querySelector("#ask").open && document.activeElement.type === "password" && document.activeElement.value === ""`)
		b.Insert(try)
		b.Press("Enter")
	}
	b.Says("#status", "healthy")
	b.Call("Page.reload", nil, nil)
	b.Says("#status", "healthy")
	b.complaints()
}
