package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestMemoryIsADirectory does the same random operations in memory and in a directory: the results
// are the same.
func TestMemoryIsADirectory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		disk, err := Open(t.TempDir(), nil)
		if err != nil {
			rt.Fatal(err)
		}
		defer disk.Close()
		memory := NewMemory(nil)
		defer memory.Close()
		class := func(err error) string {
			other := (*NotRegularError)(nil)
			switch {
			case err == nil:
				return "done"
			case errors.Is(err, fs.ErrExist):
				return "exists"
			case errors.As(err, &other):
				return "not regular"
			}
			return "refused"
		}
		content := func(f *File) string {
			size, err := f.Size()
			if err != nil {
				rt.Fatal(err)
			}
			m, err := f.Map(size)
			if err != nil {
				rt.Fatal(err)
			}
			defer m.Close()
			return string(m.Bytes())
		}
		names := rapid.SampledFrom([]string{"a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "x/a"})
		for range rapid.IntRange(1, 40).Draw(rt, "operations") {
			op := rapid.SampledFrom([]string{"create", "write", "read", "rename", "remove", "mkdir", "list", "size", "atomic"}).Draw(rt, "op")
			name, to := names.Draw(rt, "name"), names.Draw(rt, "to")
			data := rapid.StringN(0, 20, 20).Draw(rt, "data")
			at := rapid.Int64Range(0, 5000).Draw(rt, "at")
			do := func(f *FS) (string, error) {
				switch op {
				case "create":
					file, err := f.Create(name)
					if err != nil {
						return "", err
					}
					return content(file), file.Close()
				case "write":
					file, err := f.OpenRW(name)
					if err != nil {
						return "", err
					}
					if _, err := file.WriteAt([]byte(data), at); err != nil {
						return "", err
					}
					return content(file), errors.Join(file.Sync(), file.Close())
				case "read":
					file, err := f.Open(name)
					if err != nil {
						return "", err
					}
					return content(file), file.Close()
				case "rename":
					return "", f.Rename(name, to)
				case "remove":
					return "", f.Remove(name)
				case "mkdir":
					return "", f.Mkdir(name)
				case "list":
					list, err := f.ReadDir(name)
					return fmt.Sprint(list), err
				case "size":
					n, err := f.Size(name)
					return fmt.Sprint(n), err
				}
				return "", f.WriteFileAtomic(name, []byte(data))
			}
			if op == "rename" && (isDir(disk, name) || isDir(disk, to)) {
				continue // the engine renames files only
			}
			if op == "atomic" && isDir(disk, name) {
				continue
			}
			got, gotErr := do(memory)
			want, wantErr := do(disk)
			if class(gotErr) != class(wantErr) || gotErr == nil && got != want {
				rt.Fatalf("%s %s %s: %q, %v in memory; %q, %v in a directory", op, name, to, got, gotErr, want, wantErr)
			}
		}
	})
}

func isDir(f *FS, name string) bool {
	_, err := f.ReadDir(name)
	return err == nil
}

// TestMemoryOutlivesNames: open files and mappings stay valid when their names are removed or given
// to other files.
func TestMemoryOutlivesNames(t *testing.T) {
	f := NewMemory(nil)
	write := func(name, data string) *File {
		file, err := f.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt([]byte(data), 0); err != nil {
			t.Fatal(err)
		}
		return file
	}
	old, fresh := write("old", "1"), write("fresh", "2")
	m, err := old.Map(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(old.Close(), fresh.Close(), f.Rename("fresh", "old"), f.Close()); err != nil {
		t.Fatal(err)
	}
	if string(m.Bytes()) != "1" {
		t.Errorf("mapped %q", m.Bytes())
	}
	if names, err := f.ReadDir("."); err != nil || !slices.Equal(names, nil) {
		t.Errorf("%q after Close, %v", names, err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
