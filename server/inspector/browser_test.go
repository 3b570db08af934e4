package inspector

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/server"
)

var shots = flag.String("shots", "", "directory for screenshots of TestBrowser")

// A browser is a headless Chromium with one page, driven over pipes by the DevTools protocol.
type browser struct {
	*testing.T
	in      io.Writer
	out     *bufio.Reader
	id      int
	session string
	errs    []string // exceptions, and what the policy stopped
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("skipped: the browser is driven over file descriptors, which this system does not hand on")
	}
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("skipped: there is no Chromium")
	}
	toRead, toWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, answer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	// Not t.TempDir: what a helper that outlives Wait still writes must not fail the test.
	profile, err := os.MkdirTemp("", "vecbolt-browser-")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
		"--disable-background-networking", "--hide-scrollbars", "--user-data-dir="+profile, "--remote-debugging-pipe")
	cmd.ExtraFiles = []*os.File{toRead, answer}
	cmd.Stderr = &bytes.Buffer{} // a pipe that the helpers inherit: Wait waits for them too
	t.Cleanup(func() { _ = os.RemoveAll(profile) })
	if err := cmd.Start(); err != nil {
		t.Skip("skipped: Chromium does not start: ", err)
	}
	toRead.Close()
	answer.Close()
	b := &browser{T: t, in: toWrite, out: bufio.NewReaderSize(answers, 1<<20)}
	t.Cleanup(func() {
		b.session = ""
		fmt.Fprintf(b.in, `{"id":0,"method":"Browser.close"}`+"\x00")
		_, _ = io.Copy(io.Discard, b.out) // until it is gone
		toWrite.Close()
		answers.Close()
		_ = cmd.Wait()
	})
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank", "newWindow": true, "width": 1280, "height": 860}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

// call calls a method and waits for its result.
func (b *browser) call(method string, params map[string]any, into any) {
	b.Helper()
	b.id++
	message := map[string]any{"id": b.id, "method": method}
	if params != nil {
		message["params"] = params
	}
	if b.session != "" {
		message["sessionId"] = b.session
	}
	text, err := json.Marshal(message)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := b.in.Write(append(text, 0)); err != nil {
		b.Fatal(err)
	}
	for {
		text, err := b.out.ReadBytes(0)
		if err != nil {
			b.Fatalf("%s: the browser is gone: %v", method, err)
		}
		var m struct {
			ID     int
			Method string
			Error  json.RawMessage
			Result json.RawMessage
			Params json.RawMessage
		}
		if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
			b.Fatal(err)
		}
		// 401 of a service that wants a token is an entry of the log.
		if m.Method == "Runtime.exceptionThrown" || m.Method == "Log.entryAdded" && !strings.Contains(string(m.Params), "status of 401") && !strings.Contains(string(m.Params), "status of 400") {
			b.errs = append(b.errs, string(m.Params))
		}
		if m.ID != b.id {
			continue
		}
		if m.Error != nil {
			b.Fatalf("%s: %s", method, m.Error)
		}
		if into != nil {
			if err := json.Unmarshal(m.Result, into); err != nil {
				b.Fatal(err)
			}
		}
		return
	}
}

// eval evaluates an expression, and waits if it is a promise.
func (b *browser) eval(expression string) any {
	b.Helper()
	var r struct {
		Result           struct{ Value any }
		ExceptionDetails json.RawMessage
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}, &r)
	if r.ExceptionDetails != nil {
		b.Fatalf("%s: %s", expression, r.ExceptionDetails)
	}
	return r.Result.Value
}

// until waits until an expression is true.
func (b *browser) until(condition string) {
	b.Helper()
	if b.eval(`new Promise((done) => { let n = 0; const look = () => { let ok = false; try { ok = `+condition+`; } catch {} if (ok) done(true); else if (++n > 3000) done(false); else setTimeout(look, 20); }; look(); })`) != true {
		b.shot("failed")
		b.Fatalf("never: %s\n%v\n%v", condition, b.eval(`document.body.innerText`), b.errs)
	}
}

// says waits until an element has a text.
func (b *browser) says(selector, text string) {
	b.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		b.Fatal(err)
	}
	b.until(`document.querySelector('` + selector + `').innerText.includes(` + string(quoted) + `)`)
}

// press presses a key.
func (b *browser) press(key string) {
	b.Helper()
	down := map[string]any{"type": "keyDown", "key": key}
	switch {
	case len(key) == 1:
		down["text"] = key
	case key == "Enter":
		down["text"], down["windowsVirtualKeyCode"] = "\r", 13
	case key == "Escape":
		down["windowsVirtualKeyCode"] = 27
	}
	b.call("Input.dispatchKeyEvent", down, nil)
	b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key}, nil)
}

func (b *browser) click(selector string) {
	b.Helper()
	b.until(`!!document.querySelector('` + selector + `')`)
	at, _ := b.eval(`(() => { const e = document.querySelector('` + selector + `'); e.scrollIntoView({block: "nearest"}); const r = e.getBoundingClientRect(); return [r.x + Math.min(r.width / 2, 40), r.y + r.height / 2]; })()`).([]any)
	b.clickAt(at[0], at[1])
}

func (b *browser) clickAt(x, y any) {
	b.Helper()
	for _, kind := range []string{"mouseMoved", "mousePressed", "mouseReleased"} {
		b.call("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1}, nil)
	}
}

func (b *browser) insert(text string) {
	b.Helper()
	b.call("Input.insertText", map[string]any{"text": text}, nil)
}

// shot takes a screenshot, if there is a place for it.
func (b *browser) shot(name string) {
	b.Helper()
	if *shots == "" {
		return
	}
	var r struct{ Data string }
	b.call("Page.captureScreenshot", nil, &r)
	png, err := base64.StdEncoding.DecodeString(r.Data)
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*shots, name+".png"), png, 0o600); err != nil {
		b.Fatal(err)
	}
}

func TestBrowser(t *testing.T) {
	_, url := serve(t, nil)
	b := newBrowser(t)
	b.call("Page.navigate", map[string]any{"url": url + "/"}, nil)

	// Health is what is seen first.
	b.says("#status", "healthy")
	b.says("#collections", "notes")
	b.says("#collections tbody tr:last-child", "131") // documents
	b.says("#collections tbody tr:last-child", "1 (1 %)")
	b.says("#side", "empty")
	b.shot("health")

	// Documents, by keys: the last collection, pages, a condition, a document.
	b.press("C")
	b.says("h2", "notes")
	b.says("#range", "1 to 50 of 131")
	b.press("]")
	b.says("#range", "51 to 100 of 131")
	b.press("]")
	b.says("#range", "101 to 131 of 131")
	b.until(`document.querySelector("#next").disabled`)
	b.press("[")
	b.says("#range", "51 to 100 of 131")
	b.press("/")
	b.until(`document.activeElement.name === "where"`)
	b.insert(`{"lang":"go","n":{"$lt":30}}`)
	b.press("Enter")
	b.says("#range", "1 to 10 of 10")
	b.press("Escape")
	b.press("j")
	b.press("j")
	b.press("Enter")
	b.says("#detail", "Note 3 about vectors")
	b.says("#detail", "9007199254740993") // all digits
	b.says("#detail", "8 components")
	b.shot("documents")
	b.click("#detail td button") // filter by the first field
	b.until(`location.hash.includes("9007199254740993")`)
	b.says("#range", "of 129")
	b.press("c")
	b.press("C")
	b.says("#range", "1 to 50 of 131")

	// What is in the database stays text.
	b.says("tbody tr:first-child", evil)
	b.click("tbody tr:first-child")
	b.says("#detail h2", evil)
	b.says("#detail", "rarely")
	if title := b.eval(`document.title`); title == "owned" || b.eval(`document.querySelectorAll("img").length`) != 0.0 {
		t.Errorf("markup from the database got into the page: title %q", title)
	}
	b.press("Escape")
	b.until(`document.querySelector("#detail").childElementCount === 0`)

	// Search: like a document, by words, by both, with reasons.
	b.click("tbody tr:nth-child(3)")
	b.says("#detail h2", "doc-000")
	b.press("n")
	b.says("#quality", "10 hits")
	b.says("#quality", "exact")
	b.says("#hits tbody tr:first-child", evil) // its twin, by id before it
	b.says("#hits tbody tr:nth-child(2)", "doc-000")
	b.until(`document.querySelector("#plan").innerText !== ""`)
	b.eval(`go({ v: "search", mode: "text", text: "rarely segments", whynot: "doc-005,bare,nothing", k: 5 })`)
	b.says("#hits tbody tr:first-child", "rarely")
	b.says("#hits tbody mark", "rarely")
	b.says("#whynot", "nothing")
	b.shot("search")
	b.eval(`go({ v: "search", mode: "hybrid", text: "python", id: "doc-001", where: '{"deep.year":{"$gte":2005}}' })`)
	b.says("#hits", "vector")
	b.says("#hits", "text #")
	b.says("#quality", "exact")
	b.eval(`go({ v: "search", mode: "vector", vector: "[1,2]" })`)
	b.says("#out .error", "dimension")
	b.eval(`go({ v: "search", mode: "vector", vector: "[1" })`)
	b.says("#out .error", "vector:")
	b.press("4")
	b.says("h2", "Health")

	// The map, and a click on a point of it.
	b.eval(`go({ c: "notes", v: "map", color: "lang" })`)
	b.says("#legend", "python")
	b.until(`document.querySelector("#canvas").width > 100`)
	b.eval(`document.querySelector("#canvas").focus()`)
	b.press("ArrowRight")
	b.until(`!document.querySelector("#tip").hidden`)
	b.shot("map")
	tip := b.eval(`document.querySelector("#tip").textContent`)
	at, _ := b.eval(`(() => { const t = document.querySelector("#tip"), r = document.querySelector("#canvas").getBoundingClientRect(); return [r.x + parseFloat(t.style.left) - 10, r.y + parseFloat(t.style.top) + 30]; })()`).([]any)
	b.clickAt(at[0], at[1])
	b.until(`document.querySelector("#detail h2") !== null`)
	if id := b.eval(`document.querySelector("#detail h2").textContent`); id != tip {
		t.Errorf("the click opened %v, not %v", id, tip)
	}
	b.press("Escape")

	// Nothing in an empty collection, and in one that is not there.
	b.eval(`go({ c: "empty", v: "documents" })`)
	b.says("#range", "none of 0")
	b.eval(`go({ c: "empty", v: "map" })`)
	b.says("#out", "No vectors")
	b.eval(`go({ c: "gone", v: "documents" })`)
	b.says("main", "no collection gone")
	b.press("?")
	b.says("#keys", "switch views")
	b.press("Escape")
	b.until(`!document.querySelector("#keys").open`)

	// In the dark, and on a small screen.
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": "dark"}}}, nil)
	b.eval(`go({ c: "notes", v: "map", color: "n" })`)
	b.says("#legend", " to ")
	b.shot("dark")
	b.eval(`go({ c: "notes", v: "search", mode: "id", id: "doc-001" })`)
	b.says("#hits", "doc-001")
	b.shot("dark-search")
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 420, "height": 800, "deviceScaleFactor": 1, "mobile": true}, nil)
	b.eval(`go({ c: "notes", v: "documents" })`)
	b.says("#range", "of 131")
	b.shot("small")
	if wide := b.eval(`document.documentElement.scrollWidth > innerWidth`); wide == true {
		t.Error("the page is wider than a small screen")
	}
	if len(b.errs) > 0 {
		t.Errorf("the browser complains:\n%s", strings.Join(b.errs, "\n"))
	}
}

// A service with tokens: the page asks for one, and goes on.
func TestBrowserAsksForToken(t *testing.T) {
	const token = "a token to read with"
	_, url := serve(t, &server.Options{ReadToken: token})
	b := newBrowser(t)
	b.call("Page.navigate", map[string]any{"url": url + "/"}, nil)
	for _, try := range []string{"another token, a wrong one", token} {
		b.until(`document.querySelector("#ask").open && document.activeElement.type === "password" && document.activeElement.value === ""`)
		b.insert(try)
		b.press("Enter")
	}
	b.says("#status", "healthy")
	b.call("Page.reload", nil, nil)
	b.says("#status", "healthy")
	if len(b.errs) > 0 {
		t.Errorf("the browser complains:\n%s", strings.Join(b.errs, "\n"))
	}
}
