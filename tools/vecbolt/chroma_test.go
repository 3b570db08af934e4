package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The Python client of Chroma and LangChain's store on it, unmodified, do what client.py says with
// a database that "vecbolt serve" serves behind a token. server/chroma/testdata/clients.py installs
// them.
func TestPythonClientsOfChroma(t *testing.T) {
	folder, skip := os.Getenv("VECBOLT_CHROMA_PYTHON"), t.Fatal // set by those who have installed them
	if folder == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Skipf("skipped: %v", err)
		}
		folder, skip = filepath.Join(cache, "vecbolt-chroma-python"), t.Skip
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		skip("skipped: python3 is not installed")
	}
	if _, err := os.Stat(filepath.Join(folder, "vecbolt-packages.txt")); err != nil {
		skip("skipped: the Python clients of Chroma are not installed: run server/chroma/testdata/clients.py")
	}
	const token = "write-write-write-write"
	t.Setenv("VECBOLT_WRITE_TOKEN", token)
	ctx, cancel := context.WithCancel(t.Context())
	in, out := io.Pipe()
	var stderr strings.Builder
	status := make(chan int, 1)
	go func() {
		status <- run(ctx, []string{"serve", filepath.Join(t.TempDir(), "t.vdb"), "--addr", "127.0.0.1:0"}, nil, out, &stderr)
		out.Close()
	}()
	defer func() {
		cancel()
		if got := <-status; got != statusOK {
			t.Errorf("status %d", got)
		}
		if t.Failed() {
			t.Logf("the server's log:\n%s", stderr.String())
		}
	}()
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(strings.TrimPrefix(strings.TrimSpace(line), "listening on http://"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, filepath.FromSlash("../../server/chroma/testdata/client.py"), port, token)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+folder, "PYTHONDONTWRITEBYTECODE=1", "HOME="+t.TempDir(), "ANONYMIZED_TELEMETRY=False")
	text, err := cmd.CombinedOutput()
	t.Logf("%s", text)
	if err != nil {
		t.Error(err)
	}
}
