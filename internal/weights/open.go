package weights

import (
	"runtime"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// Open maps a file of any of the formats and parses it. Tensors are read from the mapping: code
// that reads them must run under vfs.Guard. The file is unmapped when nothing refers to the File
// any longer, or by Close; on Windows it can be removed only then.
func Open(name string) (*File, error) {
	m, err := vfs.MapFile(name)
	if err != nil {
		return nil, err
	}
	var f *File
	err = vfs.Guard(name, func() (err error) {
		f, err = Parse(m.Bytes())
		return err
	})
	if err != nil {
		m.Close()
		return nil, err
	}
	f.mapping = m
	runtime.AddCleanup(f, func(m *vfs.Mapping) { m.Close() }, m)
	return f, nil
}

// Forget tells the system that tensors are not read again soon. What is mapped stops counting as
// memory of the process until it is read.
func (f *File) Forget() {
	if f.mapping != nil {
		f.mapping.Advise(vfs.Forget)
	}
}

// Close unmaps a file that Open has mapped. Tensors must not be used after it.
func (f *File) Close() error {
	if f.mapping == nil {
		return nil
	}
	return f.mapping.Close()
}

// View is Float32 without a copy if the tensor is stored as it is needed. The elements must not be
// changed, and are valid as long as the file.
func (t Tensor) View() ([]float32, error) {
	if t.Type == "F32" && t.kind.bytes == 4 && !t.transposed {
		return codec.F32sFromBytes(t.data), nil
	}
	return t.Float32()
}
