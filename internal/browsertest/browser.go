// Package browsertest drives a headless Chromium, for tests of pages.
package browsertest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// A T is the test that a Browser belongs to. Fatalf ends the test.
type T interface {
	Helper()
	Fatalf(format string, args ...any)
}

// A Browser is a headless Chromium with one page, driven over pipes by the DevTools protocol. Its
// methods end the test if the browser fails.
type Browser struct {
	T
	// Errs are the exceptions of scripts and the entries of the log, as JSON: requests that failed,
	// and attempts that a Content-Security-Policy stopped.
	Errs []string
	// Shots is the directory of screenshots; empty means none.
	Shots string

	in      io.Writer
	out     *bufio.Reader
	id      int
	session string
	close   func()
}

// ErrNone is returned if there is no browser, with the reason.
var ErrNone = errors.New("no browser")

// Find returns the path of Chromium. The error matches ErrNone.
func Find() (string, error) {
	if runtime.GOOS == "windows" {
		return "", fmt.Errorf("%w: Chromium is driven over file descriptors, which this system does not hand on",
			ErrNone)
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: there is no Chromium", ErrNone)
}

// Open starts a browser with an empty page. The error matches ErrNone if there is none, or if it
// does not start. The caller must call Close.
func Open(ctx context.Context, t T) (*Browser, error) {
	path, err := Find()
	if err != nil {
		return nil, err
	}
	toRead, toWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	answers, answer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	profile, err := os.MkdirTemp("", "vecbolt-browser-")
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, "--headless=new", "--no-sandbox", "--disable-gpu",
		"--disable-dev-shm-usage", "--no-first-run", "--disable-extensions", "--disable-background-networking",
		"--hide-scrollbars", "--user-data-dir="+profile, "--remote-debugging-pipe")
	cmd.ExtraFiles = []*os.File{toRead, answer}
	cmd.Stderr = &bytes.Buffer{} // a pipe that the helpers inherit: Wait waits for them too
	if err := cmd.Start(); err != nil {
		_ = os.RemoveAll(profile)
		return nil, fmt.Errorf("%w: Chromium does not start: %w", ErrNone, err)
	}
	toRead.Close()
	answer.Close()
	b := &Browser{T: t, in: toWrite, out: bufio.NewReaderSize(answers, 1<<20)}
	b.close = func() {
		fmt.Fprintf(b.in, `{"id":0,"method":"Browser.close"}`+"\x00")
		_, _ = io.Copy(io.Discard, b.out) // until it is gone
		toWrite.Close()
		answers.Close()
		_ = cmd.Wait()
		_ = os.RemoveAll(profile) // a helper that outlives Wait may still write there
	}
	var target struct{ TargetID string }
	b.Call("Target.createTarget", map[string]any{"url": "about:blank", "newWindow": true, "width": 1280,
		"height": 860}, &target)
	var attached struct{ SessionID string }
	b.Call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.Call(domain+".enable", nil, nil)
	}
	return b, nil
}

// Close ends the browser.
func (b *Browser) Close() { b.close() }

// Call calls a method of the protocol and waits for its result.
func (b *Browser) Call(method string, params map[string]any, into any) {
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
		b.Fatalf("%s: %v", method, err)
	}
	if _, err := b.in.Write(append(text, 0)); err != nil {
		b.Fatalf("%s: %v", method, err)
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
			b.Fatalf("%s: %v", method, err)
		}
		if m.Method == "Runtime.exceptionThrown" || m.Method == "Log.entryAdded" {
			b.Errs = append(b.Errs, string(m.Params))
		}
		if m.ID != b.id {
			continue
		}
		if m.Error != nil {
			b.Fatalf("%s: %s", method, m.Error)
		}
		if into != nil {
			if err := json.Unmarshal(m.Result, into); err != nil {
				b.Fatalf("%s: %v", method, err)
			}
		}
		return
	}
}

// Visit opens an address.
func (b *Browser) Visit(url string) {
	b.Helper()
	b.Call("Page.navigate", map[string]any{"url": url}, nil)
}

// Eval evaluates an expression, and waits if it is a promise.
func (b *Browser) Eval(expression string) any {
	b.Helper()
	var r struct {
		Result           struct{ Value any }
		ExceptionDetails json.RawMessage
	}
	b.Call("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true,
		"returnByValue": true}, &r)
	if r.ExceptionDetails != nil {
		b.Fatalf("%s: %s", expression, r.ExceptionDetails)
	}
	return r.Result.Value
}

// Until waits until an expression is true: a minute, or longer on a slow machine.
func (b *Browser) Until(condition string) {
	b.Helper()
	if b.Eval(`new Promise((done) => { let n = 0; const look = () => { let ok = false; `+
		`try { ok = `+condition+`; } catch {} `+
		`if (ok) done(true); else if (++n > 3000) done(false); else setTimeout(look, 20); }; look(); })`) != true {
		b.Shot("failed")
		b.Fatalf("never: %s\n%v\n%s", condition, b.Eval(`document.body.innerText`), strings.Join(b.Errs, "\n"))
	}
}

// Says waits until an element has a text.
func (b *Browser) Says(selector, text string) {
	b.Helper()
	b.Until(`document.querySelector(` + quoted(selector) + `).innerText.includes(` + quoted(text) + `)`)
}

func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil { // never for a string
		panic(err)
	}
	return string(b)
}

// Press presses a key.
func (b *Browser) Press(key string) {
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
	b.Call("Input.dispatchKeyEvent", down, nil)
	b.Call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key}, nil)
}

// Click waits for an element and clicks on it.
func (b *Browser) Click(selector string) {
	b.Helper()
	q := quoted(selector)
	b.Until(`!!document.querySelector(` + q + `)`)
	at, _ := b.Eval(`(() => { const e = document.querySelector(` + q + `); e.scrollIntoView({block: "nearest"}); ` +
		`const r = e.getBoundingClientRect(); return [r.x + Math.min(r.width / 2, 40), r.y + r.height / 2]; })()`).([]any)
	b.ClickAt(at[0], at[1])
}

// ClickAt clicks on a place of the window, in CSS pixels.
func (b *Browser) ClickAt(x, y any) {
	b.Helper()
	for _, kind := range []string{"mouseMoved", "mousePressed", "mouseReleased"} {
		b.Call("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": x, "y": y, "button": "left",
			"clickCount": 1}, nil)
	}
}

// Insert types a text.
func (b *Browser) Insert(text string) {
	b.Helper()
	b.Call("Input.insertText", map[string]any{"text": text}, nil)
}

// Shot takes a screenshot, if there is a directory for it.
func (b *Browser) Shot(name string) {
	b.Helper()
	if b.Shots == "" {
		return
	}
	var r struct{ Data string }
	b.Call("Page.captureScreenshot", nil, &r)
	png, err := base64.StdEncoding.DecodeString(r.Data)
	if err == nil {
		err = os.WriteFile(filepath.Join(b.Shots, name+".png"), png, 0o600)
	}
	if err != nil {
		b.Fatalf("screenshot %s: %v", name, err)
	}
}
