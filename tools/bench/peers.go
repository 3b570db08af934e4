package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

// peer is a product that the benchmark runs if its package is installed (peers/setup.sh installs
// them).
type peer struct {
	Name    string   `json:"name"`
	Package string   `json:"package"`            // origin
	Version string   `json:"version,omitempty"`  // of the installed package
	Setting string   `json:"settings,omitempty"` // as its driver reports them
	Missing string   `json:"missing,omitempty"`  // why it is not available
	debian  []string // packages that must be installed
	source  string   // driver, under peers/
	link    []string // compiler arguments of a native driver
	npm     string   // package under peers/node_modules
	pypi    string   // module that the Python of peers/venv must have
	args    func(dir string) []string
}

func knownPeers() []*peer {
	return []*peer{
		{Name: "chromem-go", Package: "Go module github.com/philippgille/chromem-go"},
		{Name: "hnswlib", Package: "Debian libhnswlib-dev", debian: []string{"libhnswlib-dev"}, source: "hnswlib.cc", link: []string{"-pthread"}},
		{Name: "faiss", Package: "Debian libfaiss-dev", debian: []string{"libfaiss-dev", "libopenblas-dev"}, source: "faiss.cc",
			link: []string{"-fopenmp", "-lfaiss", "-lopenblas"}},
		{Name: "sqlite-vec", Package: "npm sqlite-vec-linux-x64", debian: []string{"libsqlite3-dev"}, npm: "sqlite-vec-linux-x64", source: "sqlitevec.cc", link: []string{"-lsqlite3"},
			args: func(dir string) []string {
				return []string{filepath.Join(dir, "node_modules/sqlite-vec-linux-x64/vec0.so")}
			}},
		{Name: "lancedb", Package: "npm @lancedb/lancedb", npm: "@lancedb/lancedb", source: "lancedb.mjs"},
		{Name: "usearch", Package: "npm usearch", npm: "usearch", source: "usearch.mjs"},
		{Name: "zvec", Package: "npm @zvec/zvec", npm: "@zvec/zvec", source: "zvec.mjs"},
		pypiPeer("hnswlib-pypi", "hnswlib", "hnswlib", "hnswlib"),
		pypiPeer("symphonyqg", "rabitqlib", "rabitqlib", "symphonyqg"),
		pypiPeer("faiss-pypi", "faiss-cpu", "faiss", "faiss"),
		pypiPeer("glass", "pyglass-portable", "glass", "glass"),
	}
}

// pypiPeer is a peer of a Python package, which peers/pypi.py runs in the virtual environment that
// setup.sh makes.
func pypiPeer(name, pkg, module, driver string) *peer {
	return &peer{Name: name, Package: "PyPI " + pkg, pypi: module, source: "pypi.py", args: func(string) []string { return []string{driver} }}
}

// argv returns the command that runs the peer's driver. It compiles a native driver into the cache
// if its source is newer.
func (p *peer) argv(peersDir, cache string) ([]string, error) {
	if p.source == "" {
		return nil, errUnsupported
	}
	for _, pkg := range p.debian {
		if debianVersion(pkg) == "" {
			return nil, fmt.Errorf("%s is not installed", pkg)
		}
	}
	if p.npm != "" {
		if _, err := os.Stat(filepath.Join(peersDir, "node_modules", p.npm)); err != nil {
			return nil, fmt.Errorf("npm package %s is not installed", p.npm)
		}
	}
	src := filepath.Join(peersDir, p.source)
	if p.pypi != "" {
		python := filepath.Join(peersDir, "venv", "bin", "python")
		if _, err := os.Stat(python); err != nil {
			return nil, errors.New("no Python environment: setup.sh makes it")
		}
		if err := exec.Command(python, "-c", "import importlib.util as u, sys; sys.exit(not (u.find_spec('numpy') and u.find_spec('"+p.pypi+"')))").Run(); err != nil {
			return nil, fmt.Errorf("%s is not installed", p.Package)
		}
		return append([]string{python, src}, p.args(peersDir)...), nil
	}
	if filepath.Ext(src) == ".mjs" {
		return []string{"node", src}, nil
	}
	bin := filepath.Join(cache, "driver-"+p.Name)
	if stale(bin, src, filepath.Join(peersDir, "driver.hpp")) {
		cmd := exec.Command("g++", append([]string{"-std=c++17", "-O3", "-march=native", "-w", src, "-o", bin}, p.link...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("compile %s: %w: %.300s", p.source, err, out)
		}
	}
	argv := []string{bin}
	if p.args != nil {
		argv = append(argv, p.args(peersDir)...)
	}
	return argv, nil
}

func stale(bin string, sources ...string) bool {
	b, err := os.Stat(bin)
	return err != nil || slices.ContainsFunc(sources, func(name string) bool {
		s, err := os.Stat(name)
		return err != nil || s.ModTime().After(b.ModTime())
	})
}

func debianVersion(pkg string) string {
	out, _ := exec.Command("dpkg-query", "-W", "-f=${Version}", pkg).Output()
	return string(out)
}

// choosePeers returns the peers in want ("auto": all, "none", or a comma-separated list).
func choosePeers(want string) ([]*peer, error) {
	all := knownPeers()
	switch want {
	case "auto":
		return all, nil
	case "none":
		return nil, nil
	}
	var chosen []*peer
	for name := range strings.SplitSeq(want, ",") {
		i := slices.IndexFunc(all, func(p *peer) bool { return p.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("unknown peer %q", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// start runs the drivers of the named peers that were chosen. The report names each unavailable
// peer with the reason: it must differ from a peer that was not chosen.
func (e *env) start(names ...string) (drivers []*driver, stop func()) {
	for _, p := range e.peers {
		if !slices.Contains(names, p.Name) || p.source == "" {
			continue
		}
		argv, err := p.argv(e.peersDir, e.cache)
		var d *driver
		if err == nil {
			d, err = startDriver(p.Name, argv, e.scratch)
		}
		if err != nil {
			p.Missing = err.Error()
			e.logf("%s does not take part: %v", p.Name, err)
			continue
		}
		p.Setting, p.Version, p.Missing = d.settings, d.version, ""
		if len(p.debian) > 0 {
			p.Version = debianVersion(p.debian[0])
		}
		drivers = append(drivers, d)
	}
	return drivers, func() {
		for _, d := range drivers {
			d.close()
		}
	}
}

// inProcess reports whether the peer inside this process was chosen, and adds it to the report.
func (e *env) inProcess(name, setting string) bool {
	i := slices.IndexFunc(e.peers, func(p *peer) bool { return p.Name == name })
	if i < 0 {
		return false
	}
	p := e.peers[i]
	p.Setting = setting
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if strings.HasSuffix(m.Path, "/"+name) {
				p.Version = m.Version
			}
		}
	}
	return true
}
