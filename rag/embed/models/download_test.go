package models_test

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/rag/embed/models"
)

// A hub answers as Hugging Face does, for one repository.
type hub struct {
	*httptest.Server
	repo  string
	files map[string]string
	card  map[string]any
	edit  func(siblings []map[string]any) // changes the list of files

	mu     sync.Mutex
	seen   []string // file and range of each request
	cut    int      // answers end after half of their bytes, this many times
	ranges bool     // whether ranges are understood
}

const commit = "0123456789abcdef0123456789abcdef01234567"

func newHub(t *testing.T, repo string, files map[string]string) *hub {
	h := &hub{repo: repo, files: files, card: map[string]any{"license": "apache-2.0"}, ranges: true}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/api/models/"+h.repo+"/revision/main" && r.URL.Query().Get("blobs") == "true" {
		var siblings []map[string]any
		for _, name := range slices.Sorted(maps.Keys(h.files)) {
			content := []byte(h.files[name])
			f := map[string]any{"rfilename": name, "size": len(content)}
			id := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(content), content))
			if strings.HasSuffix(name, ".safetensors") {
				sum := sha256.Sum256(content)
				f["lfs"] = map[string]any{"sha256": hex.EncodeToString(sum[:]), "size": len(content), "pointerSize": 133}
				id = sha1.Sum([]byte("pointer"))
			}
			f["blobId"] = hex.EncodeToString(id[:])
			siblings = append(siblings, f)
		}
		if h.edit != nil {
			h.edit(siblings)
		}
		json.NewEncoder(w).Encode(map[string]any{"id": h.repo, "sha": commit, "siblings": siblings, "cardData": h.card})
		return
	}
	name, ok := strings.CutPrefix(r.URL.Path, "/"+h.repo+"/resolve/"+commit+"/")
	content, there := h.files[name]
	if direct, moved := strings.CutPrefix(r.URL.Path, "/cdn/"); moved {
		name = direct
		content, there = h.files[name], true
	} else if ok && strings.HasSuffix(name, ".safetensors") { // large files lie elsewhere
		http.Redirect(w, r, "/cdn/"+name, http.StatusFound)
		return
	}
	if !there {
		http.NotFound(w, r)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = append(h.seen, strings.TrimSpace(name+" "+r.Header.Get("Range")))
	from := 0
	if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err == nil && h.ranges {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(content)-1, len(content)))
		w.WriteHeader(http.StatusPartialContent)
		content = content[from:]
	}
	if strings.HasSuffix(name, ".safetensors") && h.cut > 0 {
		h.cut--
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		w.Write([]byte(content[:len(content)/2]))
		return // the server closes the connection
	}
	w.Write([]byte(content))
}

// layout has the files of a real repository.
func layout() map[string]string {
	return map[string]string{
		".gitattributes": "*.safetensors lfs", "1_Pooling/config.json": "{}", "README.md": "text", "config.json": `{"model_type":"bert"}`,
		"config_sentence_transformers.json": "{}", "data_config.json": "[]", "model.safetensors": strings.Repeat("weights ", 1000), "modules.json": "[]",
		"onnx/model.onnx": "left out", "onnx/model_O1.onnx": "left out", "openvino/openvino_model.bin": "left out", "pytorch_model.bin": "left out",
		"sentence_bert_config.json": "{}", "special_tokens_map.json": "{}", "tokenizer.json": "{}", "tokenizer_config.json": "{}",
		"train_script.py": "left out", "vocab.txt": "a",
	}
}

func TestDownload(t *testing.T) {
	h := newHub(t, "some-owner/Some-Model.v2", layout())
	t.Setenv("HF_ENDPOINT", h.URL+"/")
	store := models.Open(filepath.Join(t.TempDir(), "store"))
	last, total := int64(0), int64(0)
	m, err := store.Download(t.Context(), "some-owner/Some-Model.v2", &models.DownloadOptions{
		Progress: func(done, all int64) { last, total = done, all },
		Add:      models.AddOptions{Check: func(*models.Model) (int, error) { return 3, nil }},
	})
	if err != nil {
		t.Fatal(err)
	}
	if m.Name != "Some-Model.v2" || m.Provider != "bert" || m.License != "apache-2.0" || m.Dimensions != 3 ||
		m.Source != h.URL+"/some-owner/Some-Model.v2@"+commit {
		t.Errorf("%+v", m)
	}
	var names []string
	for _, f := range m.Files {
		names = append(names, f.Name)
	}
	want := []string{
		"1_Pooling/config.json", "README.md", "config.json", "config_sentence_transformers.json", "data_config.json", "model.safetensors",
		"modules.json", "sentence_bert_config.json", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt",
	}
	if d := cmp.Diff(want, names); d != "" {
		t.Error(d)
	}
	if last != total || total != m.Size() {
		t.Errorf("progress %d of %d, model of %d bytes", last, total, m.Size())
	}
	if err := store.Verify(m.Name); err != nil {
		t.Error(err)
	}
	if rest := hidden(t, store); rest != nil {
		t.Errorf("left over: %q", rest)
	}
	_, err = store.Download(t.Context(), "some-owner/Some-Model.v2", nil)
	if !errors.Is(err, models.ErrExists) {
		t.Error(err)
	}
}

func hidden(t *testing.T, s *models.Store) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(s.Dir(), ".*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// Connections that end are continued, in the same call and by the next one.
func TestDownloadResumes(t *testing.T) {
	for _, tt := range []struct {
		name     string
		cut      int
		ranges   bool
		fails    bool
		requests []string // of the weights, over two calls if the first one fails
	}{
		{"once", 1, true, false, []string{"", "bytes=4000-"}},
		{"often", 5, true, true, []string{"", "bytes=4000-", "bytes=6000-", "bytes=7000-", "bytes=7500-", "bytes=7750-"}},
		{"without ranges", 1, false, false, []string{"", "bytes=4000-"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHub(t, "o/m", layout())
			h.cut, h.ranges = tt.cut, tt.ranges
			store := models.Open(t.TempDir())
			o := &models.DownloadOptions{Hub: h.URL}
			m, err := store.Download(t.Context(), "o/m", o)
			if tt.fails {
				if !errors.Is(err, models.ErrDownload) || !strings.Contains(err.Error(), "model.safetensors: ") {
					t.Fatal(err)
				}
				if all, err := store.List(); len(all) > 0 || err != nil {
					t.Fatal(all, err)
				}
				m, err = store.Download(t.Context(), "o/m", o)
			}
			if err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(filepath.Join(m.Path(), "model.safetensors"))
			if err != nil || string(b) != h.files["model.safetensors"] {
				t.Errorf("%d bytes, %v", len(b), err)
			}
			var got []string
			for _, s := range h.seen {
				if r, ok := strings.CutPrefix(s, "model.safetensors"); ok {
					got = append(got, strings.TrimSpace(r))
				}
			}
			if d := cmp.Diff(tt.requests, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// An answer that stops in its middle is given up after a minute, and continued. If all do, the
// download fails.
func TestDownloadStalls(t *testing.T) {
	for _, tt := range []struct {
		stalls   int
		requests int // of the weights
		want     error
	}{{1, 2, nil}, {9, 4, models.ErrDownload}} {
		h := newHub(t, "o/m", layout())
		synctest.Test(t, func(t *testing.T) {
			weights := 0
			serve := func(w http.ResponseWriter, r *http.Request) {
				if !strings.HasPrefix(r.URL.Path, "/cdn/") {
					h.ServeHTTP(w, r)
					return
				}
				if weights++; weights > tt.stalls {
					h.ServeHTTP(w, r)
					return
				}
				content := h.files["model.safetensors"]
				w.Header().Set("Content-Length", fmt.Sprint(len(content)))
				w.Write([]byte(content[:100]))
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			}
			before := http.DefaultTransport
			http.DefaultTransport = &http.Transport{DisableKeepAlives: true,
				DialContext: func(context.Context, string, string) (net.Conn, error) {
					here, there := net.Pipe()
					go http.Serve(&oneConn{conn: there}, http.HandlerFunc(serve))
					return here, nil
				}}
			defer func() { http.DefaultTransport = before }()
			start := time.Now()
			_, err := models.Open(t.TempDir()).Download(t.Context(), "o/m", &models.DownloadOptions{Hub: "http://hub"})
			if !errors.Is(err, tt.want) || errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			minutes := min(tt.stalls, tt.requests)
			if took := time.Since(start); weights != tt.requests || took != time.Duration(minutes)*time.Minute {
				t.Errorf("%d requests, %v", weights, took)
			}
		})
	}
}

// A oneConn is a listener that accepts one connection.
type oneConn struct{ conn net.Conn }

func (l *oneConn) Accept() (net.Conn, error) {
	conn := l.conn
	if l.conn = nil; conn == nil {
		return nil, io.EOF
	}
	return conn, nil
}

func (l *oneConn) Close() error   { return nil }
func (l *oneConn) Addr() net.Addr { return &net.UnixAddr{} }

// A full disk is no error of the connection: nothing is asked for again.
func TestDownloadToFullDisk(t *testing.T) {
	full := &fs.PathError{Op: "write", Path: "model.safetensors", Err: syscall.ENOSPC}
	lost := errors.New("connection reset")
	for name, tt := range map[string]struct {
		file io.Writer
		body io.Reader
		n    int64
		want []error
		not  error
	}{
		"whole":     {new(bytes.Buffer), strings.NewReader("12345678"), 8, []error{nil}, io.EOF},
		"short":     {new(bytes.Buffer), strings.NewReader("123"), 3, []error{models.ErrDownload, io.ErrUnexpectedEOF}, full},
		"lost":      {new(bytes.Buffer), iotest.ErrReader(lost), 0, []error{models.ErrDownload, io.ErrUnexpectedEOF, lost}, full},
		"full disk": {failingWriter{full}, strings.NewReader("12345678"), 0, []error{syscall.ENOSPC}, io.ErrUnexpectedEOF},
	} {
		n, err := models.Receive(tt.file, tt.body, 8)
		for _, want := range tt.want {
			if n != tt.n || !errors.Is(err, want) || errors.Is(err, tt.not) {
				t.Errorf("%s: %d bytes, %v", name, n, err)
			}
		}
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

// What does not have the checksum of the hub is not stored, nor what a hub says that is not
// possible.
func TestDownloadRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(h *hub)
		repo   string
		want   error
	}{
		"other weights": {func(h *hub) {
			h.edit = change("model.safetensors", "lfs", map[string]any{"sha256": strings.Repeat("0", 64)})
		}, "o/m", models.ErrDamaged},
		"other file":    {func(h *hub) { h.edit = change("vocab.txt", "blobId", strings.Repeat("0", 40)) }, "o/m", models.ErrDamaged},
		"longer":        {func(h *hub) { h.edit = change("vocab.txt", "size", 0) }, "o/m", models.ErrDamaged},
		"shorter":       {func(h *hub) { h.edit = change("vocab.txt", "size", 9) }, "o/m", models.ErrDownload},
		"no checksum":   {func(h *hub) { h.edit = change("vocab.txt", "blobId", "x") }, "o/m", models.ErrFormat},
		"no sum":        {func(h *hub) { h.edit = change("model.safetensors", "lfs", map[string]any{"sha256": "../x"}) }, "o/m", models.ErrFormat},
		"too large":     {func(h *hub) { h.edit = change("vocab.txt", "size", 1<<40) }, "o/m", models.ErrFormat},
		"negative":      {func(h *hub) { h.edit = change("vocab.txt", "size", -1) }, "o/m", models.ErrFormat},
		"no weights":    {func(h *hub) { delete(h.files, "model.safetensors"); delete(h.files, "onnx/model.onnx") }, "o/m", models.ErrFormat},
		"missing":       {func(h *hub) { h.edit = change("README.md", "rfilename", "config.txt.json") }, "o/m", models.ErrDownload},
		"no repository": {func(*hub) {}, "o/other", models.ErrDownload},
		"no name":       {func(*hub) {}, "some model", models.ErrFormat},
		"a path":        {func(*hub) {}, "../m", models.ErrFormat},
		"known weights": {func(h *hub) { h.repo = "sentence-transformers/all-MiniLM-L6-v2" }, "all-MiniLM-L6-v2", models.ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, "o/m", layout())
			tt.change(h)
			store := models.Open(t.TempDir())
			_, err := store.Download(t.Context(), tt.repo, &models.DownloadOptions{Hub: h.URL})
			if !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
			if all, err := store.List(); len(all) > 0 || err != nil {
				t.Error(all, err)
			}
		})
	}
	for _, address := range []string{"ftp://x", "x", "https://", "http://127.0.0.1:1"} {
		if _, err := models.Open(t.TempDir()).Download(t.Context(), "o/m", &models.DownloadOptions{Hub: address}); err == nil {
			t.Errorf("%s is taken", address)
		}
	}
}

// TestDownloadWithPassword: the name and the password in the address of a hub are sent to it, and
// are neither in errors nor in the manifest.
func TestDownloadWithPassword(t *testing.T) {
	h := newHub(t, "o/m", layout())
	var user, password string
	guard := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ = r.BasicAuth()
		h.ServeHTTP(w, r)
	}))
	defer guard.Close()
	with := func(user, address string) string { return strings.Replace(address, "://", "://"+user+"@", 1) }
	store := models.Open(t.TempDir())
	m, err := store.Download(t.Context(), "o/m", &models.DownloadOptions{Hub: with("bob:hunter2", guard.URL)})
	if err != nil || m.Source != guard.URL+"/o/m@"+commit || user != "bob" || password != "hunter2" {
		t.Errorf("%+v, %v, sent %q %q", m, err, user, password)
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for address, want := range map[string]error{
		with("bob:hunter2", h.URL):        models.ErrDownload, // has another repository
		with("bob:hunter2", gone.URL):     models.ErrDownload,
		with("bob", gone.URL):             models.ErrDownload,
		"ftp://bob:hunter2@localhost":     models.ErrFormat,
		"http://bob:hunter2%zz@localhost": models.ErrFormat,
		"http://bob:hunter2@localhost:x":  models.ErrFormat,
		"bob:hunter2@localhost":           models.ErrFormat,
	} {
		_, err := store.Download(t.Context(), "o/other", &models.DownloadOptions{Hub: address})
		if !errors.Is(err, want) || strings.Contains(err.Error(), "bob") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// Names that lead out of the directory are left out, as are files that no model has.
func TestDownloadPaths(t *testing.T) {
	files := layout()
	files["../config.json"] = "{}"
	files["/etc/x.json"] = "{}"
	h := newHub(t, "o/m", files)
	m, err := models.Open(t.TempDir()).Download(t.Context(), "o/m", &models.DownloadOptions{Hub: h.URL})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range m.Files {
		if strings.Contains(f.Name, "..") || strings.HasPrefix(f.Name, "/") {
			t.Error(f.Name)
		}
	}
}

// change sets a key of a file in the list.
func change(name, key string, value any) func([]map[string]any) {
	return func(siblings []map[string]any) {
		for _, f := range siblings {
			if f["rfilename"] == name {
				f[key] = value
			}
		}
	}
}

func TestRepository(t *testing.T) {
	for name, want := range map[string]string{
		"all-MiniLM-L6-v2": "sentence-transformers/all-MiniLM-L6-v2", "bge-small-en-v1.5": "BAAI/bge-small-en-v1.5", "a/b": "a/b",
		"other": "", "a/b/c": "", "": "", "/a": "", "a/": "", "a/..": "",
	} {
		if got, ok := models.Repository(name); ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q, %v", name, got, ok)
		}
	}
}
