//go:build !linux

package torture

import (
	"fmt"
	"io"
	"runtime"
)

func unmount(string) {}

func serve(_ string, _ io.Reader, out io.Writer) { fmt.Fprintln(out, "not on", runtime.GOOS) }
