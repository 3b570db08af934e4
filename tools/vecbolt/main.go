// Command vecbolt works with Vecbolt databases: it imports, searches, changes, checks, repairs and
// copies them.
//
//	vecbolt import notes.vdb notes ./embedding-cache
//	vecbolt search notes.vdb notes --id some-id -k 5 --where '{"lang":"go"}'
//	vecbolt demo
//
// docs/cli.md describes every verb. With --json the answer is one JSON object per line, and nothing
// else is written to standard output. Messages and errors go to standard error. The exit status is
// 0, 1 after an error, 2 for wrong usage.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	interrupts := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // not started with nohup
		interrupts = append(interrupts, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), interrupts...)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	status := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}
