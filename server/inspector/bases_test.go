package inspector

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/rag/knowledge"
	"github.com/vecbolt/vecbolt/server"
	"github.com/vecbolt/vecbolt/server/bases"
)

const (
	readToken  = "a token to read with"
	writeToken = "a token to write with"
)

// A house is a server with bases, files to learn, and a chat model that waits for the test in the
// middle of its answer.
type house struct {
	*testing.T
	engine *knowledge.Engine
	url    string
	files  string
	more   chan struct{} // lets the model go on
}

func newHouse(t *testing.T) *house {
	t.Helper()
	s := &house{T: t, files: filepath.Join(t.TempDir(), "files"), more: make(chan struct{}, 1)}
	var err error
	s.engine, err = knowledge.New(filepath.Join(t.TempDir(), "ws"), &knowledge.Options{Logger: slog.New(slog.DiscardHandler), KeepOpen: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.engine.Close(); err != nil {
			t.Error(err)
		}
	})
	_, s.url = serve(t, &server.Options{ReadToken: readToken, WriteToken: writeToken, Extensions: bases.Extensions(s.engine, &bases.Options{Files: s.files})})
	s.write("cats.md", "# Cats\n\nCats purr when they are content.\n")
	s.write("dogs.md", "# Dogs\n\nDogs bark at strangers and guard the house.\n")
	s.write("häuser/fluß.txt", "Die Häuser stehen am Fluss.\n")
	s.write("long.txt", strings.Repeat("A long text about steam engines. ", 60))
	s.write("rows.csv", "text,n\n"+evil+",1\nplums,2,3\n")
	s.write("scan.pdf", "This is no PDF.")
	return s
}

func (s *house) write(name, content string) {
	s.Helper()
	path := filepath.Join(s.files, name)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(content), 0o600)
	}
	if err != nil {
		s.Fatal(err)
	}
}

// model starts a chat model for a base. It answers half, and the rest when the test lets it.
func (s *house) model(base string) {
	s.Helper()
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			s.Error(err)
		}
		write := json.NewEncoder(w)
		says := func(text string) { _ = write.Encode(map[string]any{"message": map[string]string{"content": text}}) }
		switch {
		case strings.Contains(string(body), "what the message asks about"):
			says("why cats purr")
		case strings.Contains(string(body), "broken"):
			http.Error(w, "no such model", http.StatusInternalServerError)
		default:
			says("Cats purr " + evil)
			w.(http.Flusher).Flush()
			select {
			case <-s.more:
			case <-r.Context().Done():
				return
			}
			says(" when content [1].")
			_ = write.Encode(map[string]any{"done": true, "prompt_eval_count": 7, "eval_count": 2})
		}
	}))
	s.Cleanup(model.Close)
	if _, err := s.engine.Configure(s.Context(), base, map[string]any{"chat": "ollama", "chat_url": model.URL, "chat_model": "tiny"}); err != nil {
		s.Fatal(err)
	}
}

// open opens the page with a token.
func (s *house) open(token, fragment string) *browser {
	s.Helper()
	b := newBrowser(s.T)
	b.Call("Page.navigate", map[string]any{"url": s.url + "/"}, nil)
	b.Until(`document.querySelector("#ask").open && document.activeElement.type === "password"`)
	b.Insert(token)
	b.Press("Enter")
	b.Says("#status", "healthy")
	b.Eval(`location.hash = "` + fragment + `"`)
	return b
}

// named reports controls without a name for people who do not see them.
func (b *browser) named() {
	b.T.Helper()
	var tree struct {
		Nodes []struct {
			Ignored    bool
			Role, Name struct{ Value any }
		}
	}
	b.Call("Accessibility.getFullAXTree", nil, &tree)
	n := 0
	for _, node := range tree.Nodes {
		switch role, _ := node.Role.Value.(string); role {
		case "button", "link", "textbox", "searchbox", "combobox", "checkbox", "spinbutton", "progressbar", "main", "navigation", "complementary":
			n++
			if name, _ := node.Name.Value.(string); strings.TrimSpace(name) == "" && role != "main" && !node.Ignored {
				b.Errorf("a %s has no name", role)
			}
		}
	}
	if n < 10 {
		b.Errorf("only %d controls were found", n)
	}
}

// A writer makes a base, learns, asks, and changes it.
func TestBrowserBases(t *testing.T) {
	s := newHouse(t)
	b := s.open(writeToken, "v=bases")
	b.Says("main", "No bases yet")
	b.Click("#side a[href*=new]")
	b.Until(`document.querySelector("input[name=name]") !== null`)
	b.Click("input[name=name]")
	b.Insert("pets")
	b.Press("Enter")

	// Files: learnt, with progress; unread files, each with its reason.
	b.Says("main h2", "pets")
	b.Says("#out", "learnt nothing yet")
	b.named()
	b.Click("main form button")
	b.Says("#run", "Learnt 5 files")
	b.Says("#run", "1 broken")
	b.Says("#unread", "2 files or rows were not read")
	b.Says("#unread", "broken: not a PDF")
	b.Says("#unread", "row 2: broken: 3 fields under 2 names")
	b.Says("#files", "fluß.txt")
	b.Shot("bases-files")
	b.Press("j")
	b.Press("Enter")
	b.Says("#detail", "Cats purr when they are content.")
	b.Says("#detail", "Chunks 1 to 1 of 1")
	b.Press("Escape")
	b.Click("#files tbody tr:nth-child(5)")
	b.Says("#detail pre", evil)
	b.Press("Escape")

	// Search by meaning, with scores and reasons. There is no model to ask yet.
	b.Eval(`go({ p: "ask" })`)
	b.Says("#out", "chat_model")
	b.Press("/")
	b.Until(`document.activeElement.name === "q"`)
	b.Insert("which animal purrs?")
	b.Press("Enter")
	b.Says("#sources li:first-child", "Cats purr")
	b.Says("#sources li:first-child", "cats.md")
	b.Says("#stages", "Embedding of the question")
	b.Says("#stages", "strategy hybrid")
	b.Says("#stages", "Context")
	b.Eval(`document.querySelectorAll("#stages details").forEach((d) => { d.open = true; })`)
	b.Says("#stages", "vector: rank 1")
	b.Says("#stages", "source 1")
	b.Shot("bases-search")
	b.named()
	b.Eval(`go({ m: "search", q: "steam engines", k: 1, s: "text", r: "lexical" })`)
	b.Says("#stages", "reranker lexical: 1 of")
	b.Says("#stages", "strategy text")
	b.Click("#sources button[aria-expanded=false]")
	b.Until(`document.querySelector("#sources button").getAttribute("aria-expanded") === "true"`)
	b.Eval(`go({ m: "search", q: "x", where: '{"source_file":"none"}' })`)
	b.Says("#sources", "Nothing was found.")
	b.Eval(`go({ m: "search", q: "x", where: '{"$no":1}' })`)
	b.Says("#out .error", "where")
	b.Click("#sources, #out") // focus leaves the form

	// The source of a chunk is its file.
	b.Eval(`go({ m: "search", q: "who guards the house?", k: 1 })`)
	b.Says("#sources", "Dogs bark")
	b.Click("#sources a")
	b.Says("#detail", "Dogs bark at strangers")
	b.Press("Escape")

	// An answer as the model writes it, with its source.
	s.model("pets")
	b.Eval(`go({ b: "pets", p: "ask" })`)
	b.Until(`document.querySelector("main form button[value=ask]") !== null`)
	b.Click("input[name=q]")
	b.Insert("why do cats purr?")
	b.Press("Enter")
	b.Says("#answer", "Cats purr <img")
	b.Until(`document.querySelector("#answer").getAttribute("aria-busy") === "true"`)
	b.Says("#sources", "Cats purr") // before the answer is complete
	s.more <- struct{}{}
	b.Says("#answer", "when content 1.")
	b.Until(`document.querySelector("#answer").getAttribute("aria-busy") === "false"`)
	b.Says("#stages", "1 of 5 sources cited")
	b.Shot("bases-answer")
	b.Click("#answer button.cite")
	b.Until(`document.activeElement.id === "source-1"`)
	if b.Eval(`document.title`) == "owned" || b.Eval(`document.querySelectorAll("img").length`) != 0.0 {
		t.Error("markup of the model got into the page")
	}
	// The address of an answer asks no model when it is opened again.
	b.Call("Page.reload", nil, nil)
	b.Until(`document.querySelector("input[name=q]")?.value === "why do cats purr?" && $("busy").textContent === ""`)
	b.Until(`document.querySelector("#answer") === null`)
	// Another view ends an answer.
	b.Click("main form button[value=ask]")
	b.Says("#answer", "Cats purr <img")
	b.Eval(`go({ p: "figures" })`)
	b.Says("#times", "Retrieval")
	// A conversation.
	b.Eval(`go({ b: "pets", p: "ask" })`)
	for i, question := range []string{"why do cats purr?", "and when?"} {
		b.Until(`document.querySelector("main form button[value=ask]") !== null`)
		if i == 0 {
			b.Click("input[name=talk]")
		}
		b.Eval(`document.querySelector("input[name=q]").value = ""`)
		b.Click("input[name=q]")
		b.Insert(question)
		b.Press("Enter")
		b.Says("#answer", "Cats purr")
		s.more <- struct{}{}
		b.Says("#answer", "when content 1.")
	}
	b.Says("#stages", "searched for the topic of the conversation: why cats purr")
	b.Says("#earlier", "1 earlier question")
	b.Eval(`document.querySelector("input[name=q]").value = "broken"`)
	b.Click("main form button[value=ask]")
	b.Says("#out .error", "model")

	// Settings: one that is wrong, one that holds at once, one that asks for another run.
	b.Eval(`go({ b: "pets", p: "settings" })`)
	b.Says("#settings", "max_context_tokens")
	b.named()
	set := func(key, value string) {
		b.Eval(`(() => { const e = document.querySelector("#settings [name='` + key + `']"); e.value = "` + value + `"; e.dispatchEvent(new Event("change")); })()`)
	}
	set("cache_ttl", "soon")
	b.Click("main form button")
	b.Says("#out .error", "cache_ttl")
	set("cache_ttl", "")
	set("top_k", "2")
	set("splitter", "sentences")
	b.Shot("bases-settings")
	b.Click("main form button")
	b.Says("#out", "Saved: splitter, top_k. Files are split again")
	b.Eval(`go({ b: "pets", p: "settings", only: 1 })`)
	b.Until(`document.querySelectorAll("#settings tbody tr").length < 15 && document.querySelector("#settings [name=top_k]").value === "2"`)
	if c, err := s.engine.Config("pets"); err != nil || c.TopK != 2 || c.Splitter != "sentences" {
		t.Errorf("%+v, %v", c, err)
	}

	// Figures; a conversation is forgotten, the base is removed.
	b.Eval(`go({ b: "pets", p: "figures" })`)
	b.Says("#conversations", "why cats purr")
	b.Shot("bases-figures")
	b.Click("#conversations button")
	b.Says("main", "None.")
	b.Click("main button.bad")
	b.Says("main", "Delete pets with all it has learnt?")
	b.Click("main button.bad")
	b.Says("main", "No bases yet")
	b.complaints()
}

// A reader asks and looks; what readers may not do is not there.
func TestBrowserBasesReader(t *testing.T) {
	s := newHouse(t)
	for _, name := range []string{"dogs", "pets"} {
		if _, err := s.engine.Learn(t.Context(), name, knowledge.LearnOptions{Paths: []string{"."}, Below: s.files}); err != nil {
			t.Fatal(err)
		}
	}
	s.model("pets")
	b := s.open(readToken, "v=bases&b=pets")
	b.Until(`document.querySelector("main form button[value=ask]") !== null`)
	b.Until(`document.querySelector("#side a[href*=new]") === null && document.querySelectorAll("#side a").length === 2`)
	b.Press("5")
	b.Press("b")
	b.Says("main h2", "dogs")
	b.Until(`document.querySelector("main form button[value=ask]") === null`) // no model
	b.Press("b")
	b.Says("main h2", "pets")
	b.Until(`document.querySelector("main form button[value=ask]") !== null`)
	b.Click("input[name=q]")
	b.Insert("why do cats purr?")
	b.Click("main form button[value=ask]")
	b.Says("#answer", "Cats purr")
	s.more <- struct{}{}
	b.Says("#answer", "when content 1.")
	b.Eval(`go({ b: "pets", p: "files" })`)
	b.Says("#files", "cats.md")
	b.Until(`document.querySelector("main form") === null`)
	b.Eval(`go({ b: "pets", p: "settings" })`)
	b.Says("#settings", "chat_url")
	b.Until(`document.querySelector("#settings input, #settings select, main form button") === null`)
	if b.Eval(`document.querySelector("#settings").innerText.includes("127.0.0.1")`) == true {
		t.Error("a reader sees the address of the model")
	}
	b.Eval(`go({ b: "pets", p: "figures" })`)
	b.Says("#times", "Answer")
	b.Until(`document.querySelector("main button") === null`)
	b.named()
	b.Eval(`go({ b: "gone", p: "" })`)
	b.Says("main", "There is no base gone.")
	b.Eval(`location.hash = "v=bases&p=new"`)
	b.Says("main h2", "dogs")

	// In the dark, on a small screen.
	b.Call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": "dark"}}}, nil)
	b.Eval(`go({ b: "dogs", p: "ask", m: "search", q: "who guards the house?" })`)
	b.Says("#sources", "Dogs bark")
	b.Shot("bases-dark")
	b.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 420, "height": 800, "deviceScaleFactor": 1, "mobile": true}, nil)
	for _, part := range []string{"ask", "files", "settings", "figures"} {
		b.Eval(`go({ b: "dogs", p: "` + part + `", m: "search", q: "house" })`)
		b.Until(`document.querySelector(".sub a[aria-current]")?.href.includes("p=` + part + `") && $("busy").textContent === ""`)
		b.Shot("bases-small-" + part)
		if wide := b.Eval(`document.documentElement.scrollWidth > innerWidth`); wide == true {
			t.Errorf("%s is wider than a small screen", part)
		}
	}
	b.complaints()
}

// A run that began elsewhere is watched until it ends.
func TestBrowserWatchesLearning(t *testing.T) {
	s := newHouse(t)
	b := s.open(writeToken, "v=bases")
	b.Says("main", "No bases yet")
	begun, more, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		first := true
		_, err := s.engine.Learn(t.Context(), "pets", knowledge.LearnOptions{Paths: []string{"."}, Below: s.files, Progress: func(string) {
			if first {
				first = false
				close(begun)
				<-more
			}
		}})
		done <- err
	}()
	<-begun
	b.Eval(`go({ b: "", p: "" })`)
	if _, err := s.engine.Create("pets", nil); err != nil { // Learn has not written its first file yet
		t.Log(err)
	}
	b.Eval(`go({ b: "pets", p: "files" })`)
	b.Until(`document.querySelector("#run progress") !== null`)
	b.Says("#run", "cats.md")
	b.Until(`document.querySelector("main form button").disabled`)
	close(more)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	b.Says("#files", "dogs.md")
	b.Until(`document.querySelector("#run progress") === null`)
	b.complaints()
}
