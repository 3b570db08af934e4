//go:build !unix

package main

import "os/exec"

// interrupted gives a command time when its context ends. The console interrupts it, too.
func interrupted(cmd *exec.Cmd) {
	cmd.Cancel = func() error { return nil }
}
