//go:build unix

package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMigrateInterrupted: an interrupt lets the program that migrates to PostgreSQL save its state,
// and is reported.
func TestMigrateInterrupted(t *testing.T) {
	dir := t.TempDir()
	program := "#!/bin/sh\n" +
		"trap 'kill $!; echo saved >&2; exit 1' INT\n" +
		"sleep 600 >/dev/null 2>&1 &\n" +
		"echo ready >&2\n" +
		"wait $!\n"
	if err := os.WriteFile(filepath.Join(dir, postgresProgram), []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	said, report := io.Pipe()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	status := make(chan int, 1)
	go func() {
		defer report.Close()
		status <- run(ctx, []string{"migrate", filepath.Join(dir, "t.vdb"), "c", "--to", "postgres://localhost/x"},
			strings.NewReader(""), io.Discard, report)
	}()
	var all []string
	for lines := bufio.NewScanner(said); lines.Scan(); {
		all = append(all, lines.Text())
		if lines.Text() == "ready" {
			interrupt()
		}
	}
	got := strings.Join(all, "\n")
	if <-status != statusError || !strings.Contains(got, "ready\nsaved\nvecbolt: interrupted") {
		t.Error(got)
	}
}
