//go:build unix

package main

import (
	"os"
	"os/exec"
	"syscall"
)

// interrupted makes the end of the context of a command an interrupt, so that it can save its
// state. It gets none from the terminal as well: a second one would kill it.
func interrupted(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
}
