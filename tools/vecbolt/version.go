package main

import (
	"cmp"
	"runtime"
	"runtime/debug"

	"github.com/vecbolt/vecbolt/simd"
)

type versionCmd struct{}

func (versionCmd) Run(t *tool) error {
	version, revision := "", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	version = cmp.Or(version, "(devel)")
	return t.answer(struct {
		Version  string `json:"version"`
		Revision string `json:"revision,omitempty"`
		Go       string `json:"go"`
		Platform string `json:"platform"`
		Kernels  string `json:"kernels"`
	}{version, revision, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, simd.Name()},
		"vecbolt %s, %s, %s/%s, %s kernels", version, runtime.Version(), runtime.GOOS, runtime.GOARCH, simd.Name())
}
