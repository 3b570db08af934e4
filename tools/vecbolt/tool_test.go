package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/vecbolt/vecbolt/db"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"vecbolt": main})
}

// The stories of the tool.
func TestScripts(t *testing.T) {
	hub := newHub(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Values[held{}] = &held{}
			e.Values[servedKey{}] = &served{}
			e.Values[shownKey{}] = &shown{}
			tiny, err := filepath.Abs("../../rag/embed/bert/testdata/tiny.gguf")
			e.Setenv("TINY", tiny)
			table, missing := filepath.Abs("testdata/notes.parquet")
			err = errors.Join(err, missing)
			e.Setenv("PARQUET", table)
			e.Setenv("HF_ENDPOINT", hub)
			return err
		},
		Condition: conditions,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"ask": ask,

			"agent":       agent,
			"browser":     browser,
			"certificate": certificate,
			"chatmodel":   chatModel,
			"embedder":    embedder,

			"flip":     flip,
			"hold":     hold,
			"release":  release,
			"serve":    serve,
			"status":   status,
			"shutdown": stop,
		},
	})
}

// flip FILE OFFSET inverts one bit of the only file that matches; with a text in place of the
// offset, one bit of each place where that is.
func flip(ts *testscript.TestScript, _ bool, args []string) {
	names, err := filepath.Glob(ts.MkAbs(args[0]))
	if err != nil || len(names) != 1 {
		ts.Fatalf("%s: %d files, %v", args[0], len(names), err)
	}
	b, err := os.ReadFile(names[0])
	ts.Check(err)
	if at, err := strconv.Atoi(args[1]); err == nil {
		b[at] ^= 1
	} else {
		other := []byte(args[1])
		other[0] ^= 1
		n := bytes.Count(b, []byte(args[1]))
		if b = bytes.ReplaceAll(b, []byte(args[1]), other); n == 0 {
			ts.Fatalf("%s does not hold %q", args[0], args[1])
		}
	}
	ts.Check(os.WriteFile(names[0], b, 0o600))
}

// status N COMMAND expects an exit status and nothing on standard output.
func status(ts *testscript.TestScript, _ bool, args []string) {
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); !errors.As(err, &exit) || strconv.Itoa(exit.ExitCode()) != args[0] {
		ts.Fatalf("%v: %v, want status %s", args[1:], err, args[0])
	}
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("%v: answered %s", args[1:], out)
	}
}

// held is a database that a story keeps open in the process of the test.
type held struct{ vdb *db.DB }

// hold DIR read|write|exclusive opens a database until release.
func hold(ts *testscript.TestScript, _ bool, args []string) {
	vdb, err := db.Open(ts.MkAbs(args[0]), &db.Options{MustExist: true, ReadOnly: args[1] == "read",
		Exclusive: args[1] == "exclusive"})
	ts.Check(err)
	ts.Value(held{}).(*held).vdb = vdb
	ts.Defer(func() { vdb.Close() })
}

func release(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Check(ts.Value(held{}).(*held).vdb.Close())
}
