package manifest

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// Constants of the file format. They never change for version 1.
const (
	magic      = "VECBOLTP"
	version    = 1
	headerSize = 56 // bytes before the first file
	crcSize    = 4
	minFile    = 2 + 2 + 8 + sha256.Size // the shortest file
)

// MaxSize is the maximum size of a manifest in bytes: enough for over a hundred thousand files.
const MaxSize = 16 << 20

// MaxName is the maximum length of a file name in bytes.
const MaxName = 255

// A Manifest lists the files of a version of a database.
type Manifest struct {
	DB     [16]byte // identity of the database
	Number uint64   // of the version, from 1; ascends
	Batch  uint64   // last batch in the version
	Time   int64    // of publication: nanoseconds since 1970 in UTC
	Files  []File   // in order of Name
}

// A File is a file of a version.
type File struct {
	Name string            // within a database directory
	Path string            // within the folder; slash-separated
	Size int64             // in bytes
	Sum  [sha256.Size]byte // SHA-256 of the content
}

// Find returns the file with a name, nil if it is not in the manifest.
func (m *Manifest) Find(name string) *File {
	i, ok := slices.BinarySearchFunc(m.Files, name,
		func(f File, name string) int { return strings.Compare(f.Name, name) })
	if !ok {
		return nil
	}
	return &m.Files[i]
}

// Continues reports whether m is old plus later batches. After a restore from a backup, the same
// batch numbers can stand for other batches, so all files but segments must be equal.
func (m *Manifest) Continues(old *Manifest) bool {
	if m.Batch < old.Batch {
		return false
	}
	for _, f := range old.Files {
		if strings.HasPrefix(f.Name, "seg/") {
			continue // differs between versions
		}
		if is := m.Find(f.Name); is == nil || *is != f {
			return false
		}
	}
	return true
}

// Names maps the names of the files to their paths.
func (m *Manifest) Names() map[string]string {
	names := make(map[string]string, len(m.Files))
	for _, f := range m.Files {
		names[f.Name] = f.Path
	}
	return names
}

// Bytes returns the total size of the files.
func (m *Manifest) Bytes() (n int64) {
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

// Encode returns the bytes of m, or an error if Decode would refuse them.
func (m *Manifest) Encode() ([]byte, error) {
	if err := m.validate(); err != nil {
		return nil, err
	}
	e := codec.Encoder{}
	e.Raw([]byte(magic))
	e.U32(version)
	e.U32(uint32(len(m.Files)))
	e.Raw(m.DB[:])
	e.U64(m.Number)
	e.U64(m.Batch)
	e.U64(uint64(m.Time))
	for _, f := range m.Files {
		e.String(f.Name)
		e.String(f.Path)
		e.U64(uint64(f.Size))
		e.Raw(f.Sum[:])
	}
	e.U32(codec.CRC(e.B))
	if len(e.B) > MaxSize {
		return nil, fmt.Errorf("%w: %d files take %d bytes", fileformat.ErrFormat, len(m.Files), len(e.B))
	}
	return e.B, nil
}

// Decode returns the manifest in b.
func Decode(b []byte) (*Manifest, error) {
	if len(b) < headerSize+crcSize || len(b) > MaxSize {
		return nil, fmt.Errorf("manifest: %w: %d bytes", fileformat.ErrChecksum, len(b))
	}
	body := b[:len(b)-crcSize]
	sum := codec.NewDecoder(b[len(body):])
	if sum.U32() != codec.CRC(body) {
		return nil, fmt.Errorf("manifest: %w", fileformat.ErrChecksum)
	}
	d := codec.NewDecoder(body)
	if got := string(d.Raw(len(magic))); got != magic {
		return nil, fmt.Errorf("manifest: %w: magic %q", fileformat.ErrFormat, got)
	}
	if v := d.U32(); v != version {
		return nil, fmt.Errorf("manifest: %w %d", fileformat.ErrVersion, v)
	}
	n := d.U32()
	m := &Manifest{}
	copy(m.DB[:], d.Raw(len(m.DB)))
	m.Number, m.Batch, m.Time = d.U64(), d.U64(), int64(d.U64())
	if int64(n) > int64(d.Len()/minFile) {
		return nil, fmt.Errorf("manifest: %w: %d files in %d bytes", fileformat.ErrFormat, n, d.Len())
	}
	m.Files = make([]File, n)
	for i := range m.Files {
		f := &m.Files[i]
		f.Name, f.Path = d.String(), d.String()
		size := d.U64()
		if size > math.MaxInt64 {
			return nil, fmt.Errorf("manifest: %w: size %d", fileformat.ErrFormat, size)
		}
		f.Size = int64(size)
		copy(f.Sum[:], d.Raw(len(f.Sum)))
	}
	if err := d.Err(); err != nil {
		return nil, fmt.Errorf("manifest: %w: %w", fileformat.ErrFormat, err)
	}
	if d.Len() > 0 {
		return nil, fmt.Errorf("manifest: %w: %d bytes left over", fileformat.ErrFormat, d.Len())
	}
	return m, m.validate()
}

// validate returns an error if the content is invalid.
func (m *Manifest) validate() error {
	if m.Number == 0 {
		return fmt.Errorf("manifest: %w: version 0", fileformat.ErrFormat)
	}
	last := ""
	var total int64
	for _, f := range m.Files {
		switch {
		case !validName(f.Name) || !validName(f.Path):
			return fmt.Errorf("manifest: %w: file %q, path %q", fileformat.ErrFormat, f.Name, f.Path)
		case f.Name <= last:
			return fmt.Errorf("manifest: %w: file %q after %q", fileformat.ErrFormat, f.Name, last)
		case f.Size < 0 || f.Size > math.MaxInt64-total:
			return fmt.Errorf("manifest: %w: size of %q", fileformat.ErrFormat, f.Name)
		}
		last = f.Name
		total += f.Size
	}
	return nil
}

// validName reports whether a name is a relative path with the same meaning on every system.
func validName(name string) bool {
	if len(name) > MaxName || name == "." || !fs.ValidPath(name) {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_' || r == '/')
	})
}
