package lint

import (
	"os"
	"os/exec"
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
