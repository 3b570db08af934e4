package lint

import (
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"testing"
)

// Targets without 64-bit addresses are refused in one place, before anything is compiled. .ci/run
// builds the packages that need no files for some of them.
func TestRefusedPlatforms(t *testing.T) {
	for _, target := range []string{"linux/386", "linux/arm", "windows/386", "linux/mips", "js/wasm", "wasip1/wasm"} {
		system, arch, _ := strings.Cut(target, "/")
		run := func(args ...string) (string, error) {
			cmd := exec.CommandContext(t.Context(), "go", args...)
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch)
			out, err := cmd.CombinedOutput()
			return strings.TrimSpace(string(out)), err
		}
		for _, pkg := range []string{"db", "store", "tools/vecbolt"} {
			out, err := run("build", "-o", os.DevNull, module+pkg)
			last := out[strings.LastIndexByte(out, '\n')+1:]
			if err == nil || strings.Contains(out, "\n#") || strings.Count(out, "build constraints exclude all Go files in") != 1 ||
				!strings.Contains(last, "imports "+module+"internal/needs64bit: build constraints exclude") {
				t.Errorf("%s: build of %s: %v\n%s", target, pkg, err, out)
			}
		}
	}
}

// No file is for a system and a processor at once: .ci/run compiles all files for each system and
// for each processor, but not for each pair.
func TestNoFileForAPair(t *testing.T) {
	system := regexp.MustCompile(`(?:\b|_)(?:linux|darwin|windows|unix)(?:\b|_)`)
	processor := regexp.MustCompile(`(?:\b|_)(?:amd64|arm64)(?:\b|_)`)
	for _, f := range files(t) {
		chosen := strings.TrimSuffix(path.Base(f.path), ".go") // what its name and its constraint say
		for line := range strings.Lines(f.text) {
			if strings.HasPrefix(line, "//go:build ") {
				chosen += " " + line
			}
		}
		if system.MatchString(chosen) && processor.MatchString(chosen) {
			t.Errorf("%s is for a system and a processor", f.path)
		}
	}
}

// Graphs, and scores of texts, are the same on every machine. The compiler fuses a product with the
// sum that it goes into on processors that can, which rounds once instead of twice, unless the
// product is converted to its own type.
func TestNothingIsFused(t *testing.T) {
	fused := regexp.MustCompile(`\((\S+:\d+)\)\s+FN?M(?:ADD|SUB)[SD]`)
	for _, pkg := range []string{"segment/graph", "segment/graph/levels", "internal/synthetic", "segment/terms", "text"} {
		cmd := exec.CommandContext(t.Context(), "go", "build", "-gcflags=-S", module+pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=arm64")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "FMUL") {
			t.Fatalf("%s: %v\n%.2000s", pkg, err, out)
		}
		for _, m := range fused.FindAllSubmatch(out, -1) {
			t.Errorf("%s: a product is fused with a sum", m[1])
		}
	}
}
