package dbtest

import (
	"io"
	"runtime"
)

// A T is the test that a database belongs to.
type T interface {
	Helper()
	TempDir() string
	Cleanup(func())
	Skip(args ...any)
	Error(args ...any)
	Fatal(args ...any)
}

// Share opens a new database twice, as two processes do, and closes both with the test. The first
// one leads. A test calls it with db.Open, or with what opens something above a database.
func Share[D io.Closer, O any](t T, open func(dir string, o *O) (D, error), o *O) (leader, other D) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("processes do not share a database on Windows")
	}
	dir := t.TempDir()
	var both [2]D
	for i := range both {
		x, err := open(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := x.Close(); err != nil {
				t.Error(err)
			}
		})
		both[i] = x
	}
	return both[0], both[1]
}
