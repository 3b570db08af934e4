package vfs

import (
	"crypto/rand"
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// nameless makes a temporary file that is deleted with its last handle.
func nameless(name string) (*os.File, error) {
	at, err := windows.UTF16PtrFromString(filepath.Join(os.TempDir(), "vecbolt-"+rand.Text()))
	if err != nil {
		return nil, err
	}
	h, err := windows.CreateFile(at, windows.GENERIC_READ|windows.GENERIC_WRITE,
		windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE, nil, windows.CREATE_NEW,
		windows.FILE_ATTRIBUTE_TEMPORARY|windows.FILE_FLAG_DELETE_ON_CLOSE, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(h), name), nil
}

// duplicate returns a further handle of a file.
func duplicate(f *os.File, name string) (*os.File, error) {
	self := windows.CurrentProcess()
	var h windows.Handle
	if err := windows.DuplicateHandle(self, windows.Handle(f.Fd()), self, &h, 0, false,
		windows.DUPLICATE_SAME_ACCESS); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(h), name), nil
}
