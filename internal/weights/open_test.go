package weights_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/vecbolt/vecbolt/internal/weights"
)

// Views and copies are the same, aligned or not.
func TestOpen(t *testing.T) {
	header := `{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F16","shape":[2],"data_offsets":[8,12]}}`
	for pad := range 4 {
		h := header + string("    "[:pad])
		b := append([]byte{byte(len(h)), 0, 0, 0, 0, 0, 0, 0}, h...)
		b = append(b, 0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, 0, 0x3c, 0, 0)
		name := filepath.Join(t.TempDir(), "model.safetensors")
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := weights.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		f.Forget()
		for tensor, want := range map[string][]float32{"a": {1, -2}, "b": {1, 0}} {
			view, err := f.Tensors[tensor].View()
			if err != nil || !slices.Equal(view, want) {
				t.Errorf("%s: %v, %v", tensor, view, err)
			}
			if values, err := f.Tensors[tensor].Float32(); err != nil || !slices.Equal(values, want) {
				t.Errorf("%s: %v, %v", tensor, values, err)
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := weights.Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	name := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(name, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := weights.Open(name); !errors.Is(err, weights.ErrFormat) {
		t.Error(err)
	}
	var none weights.File
	none.Forget()
	if err := none.Close(); err != nil {
		t.Error(err)
	}
}
