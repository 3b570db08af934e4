// Command bench runs Vecbolt and all available peers on the same files, in one run, and prints and
// stores the comparison: the figures of Vecbolt's goals. A peer is available if its own package is
// installed.
//
// Each figure is a file of its name (scan.go, batch.go, import.go, ...). A peer outside Go is a
// driver under peers/ that speaks the line protocol of driver.go. docs/bench/README.md describes
// how to run it and how the numbers are measured.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// env is shared by the figures.
type env struct {
	cache     string // generated data and compiled drivers, kept between runs
	scratch   string // databases of this run, removed at its end
	shared    string // data that lies beside the repository
	root      string // of the repository
	peersDir  string
	python    string // of the encoder figure, with onnxruntime
	torch     string // of the encoder figure, with sentence-transformers; empty: not measured
	model     string // directory of the encoder figure
	peers     []*peer
	rounds    int
	budget    time.Duration
	rows      int           // of the write figures
	dims      int           // of the steady and the curves figure
	rate      int           // rows written per second, in the steady figure
	asked     int           // searches per second in the steady figure; 0: without a pause
	steady    time.Duration // of writing, in the steady figure
	filter    int           // rows of the filter figure
	curve     int           // most rows of the curves figure
	curveFrom int           // fewest rows of it
	judged    string        // directory with judged sets in the layout of BEIR
	models    string        // directory with sentence encoders, by name
	sets      []string      // of figures with several; empty: all
	k         int           // results of a query in the graph figure
	keep      bool          // indexes of packages of PyPI for later runs
}

func (e *env) logf(format string, a ...any) {
	fmt.Fprintf(os.Stderr, "%s "+format+"\n", append([]any{time.Now().Format("15:04:05")}, a...)...)
}

type figure struct {
	name string
	run  func(*env, *report) error
}

var figures = []figure{
	{"scan", scanFigure}, {"batch", batchFigure}, {"import", importFigure}, {"ingest", ingestFigure}, {"steady", steadyFigure},
	{"graph", graphFigure}, {"filtered", filteredFigure}, {"open", openFigure}, {"filter", filterFigure}, {"space", spaceFigure}, {"curves", curvesFigure}, {"memory", memoryFigure}, {"rag", ragFigure}, {"encoder", encoderFigure}, {"retrieval", retrievalFigure}, {"processes", processesFigure}, {"alone", aloneFigure},
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == childFlag {
		os.Exit(child(os.Args[2:]))
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	var all, usual []string
	for _, f := range figures {
		all = append(all, f.name)
		// These need a model, take half an hour, or are a part of another figure.
		if !slices.Contains([]string{"encoder", "curves", "alone"}, f.name) {
			usual = append(usual, f.name)
		}
	}
	what := flag.String("what", strings.Join(usual, ","), "figures to measure, separated by commas")
	out := flag.String("out", "../../docs/bench", "directory for the reports; empty: print only")
	peers := flag.String("peers", "auto", "peers to compare with: auto, none, or names separated by commas")
	e := &env{}
	flag.StringVar(&e.root, "root", "../..", "root of the repository")
	flag.StringVar(&e.shared, "shared", "../../../shared", "directory that has data/")
	flag.StringVar(&e.cache, "cache", filepath.Join(os.TempDir(), "vecbolt-bench"), "directory for generated data, kept; databases are made and removed there too")
	flag.IntVar(&e.rounds, "rounds", 5, "rounds of the scan and the import figure")
	flag.DurationVar(&e.budget, "budget", 5*time.Second, "longest time for one contestant's queries of one round")
	flag.IntVar(&e.rows, "rows", 100_000, "rows of the ingest, steady, open and space figures, at most 100,000")
	flag.IntVar(&e.dims, "dims", 384, "dimensions of the steady and the curves figure, at most 4,096")
	flag.IntVar(&e.rate, "rate", 2000, "rows written per second in the steady figure, 10 to 100,000")
	flag.IntVar(&e.asked, "asked", 0, "searches per second in the steady figure; 0: without a pause")
	flag.DurationVar(&e.steady, "steady", 45*time.Second, "time of writing in the steady figure, at least a second")
	flag.IntVar(&e.filter, "filter-rows", 1_000_000, "rows of the filter figure")
	flag.IntVar(&e.curve, "curve-rows", 1_000_000, "most rows of the curves figure, 10,000 or more")
	flag.IntVar(&e.curveFrom, "curve-from", curveRows, "fewest rows of the curves figure, 10,000 or more")
	flag.StringVar(&e.python, "python", "python3", "Python of the encoder figure, with numpy, onnx, onnxruntime and tokenizers")
	flag.StringVar(&e.torch, "torch", "", "another Python of the encoder and retrieval figures, with sentence-transformers and PyTorch; empty: they are not measured")
	flag.StringVar(&e.model, "model", "", "directory of the encoder figure's model, all-MiniLM-L6-v2")
	flag.StringVar(&e.judged, "judged", "", "directory with judged sets of the retrieval figure, each in the layout of BEIR")
	flag.StringVar(&e.models, "models", "", "directory with sentence encoders of the retrieval figure, each in the layout of Hugging Face")
	flag.IntVar(&e.k, "k", truthK, "results of a query in the graph figure, at most 100, and in the curves figure, at most 1,000")
	flag.BoolVar(&e.keep, "keep", false, "keep the indexes of hnswlib, SymphonyQG and FAISS from PyPI in the cache, for later runs of the graph figure")
	sets := flag.String("sets", "", "sets of the scan, batch, graph and filtered figures, separated by commas, or paths of directories with base.fvecs and query.fvecs, compared by cosine; empty: all")
	flag.Parse()
	if *sets != "" {
		e.sets = strings.Split(*sets, ",")
	}
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	e.rounds = min(max(e.rounds, 1), truthQueries/3)
	e.k = min(max(e.k, 1), curveK)
	e.rows = min(max(e.rows, 2000), synthRows)
	e.dims, e.rate, e.steady = min(max(e.dims, 1), 4096), min(max(e.rate, 10), 100_000), max(e.steady, time.Second)

	e.curve = max(e.curve, curveRows)
	e.curveFrom = min(max(e.curveFrom, curveRows), e.curve)

	var err error
	if e.peers, err = choosePeers(*peers); err != nil {
		return err
	}
	for name := range strings.SplitSeq(*what, ",") {
		if !slices.Contains(all, name) {
			return fmt.Errorf("unknown figure %q", name)
		}
	}
	e.peersDir = filepath.Join(e.root, "tools", "bench", "peers")
	if err := os.MkdirAll(e.cache, 0o777); err != nil {
		return err
	}
	if e.scratch, err = os.MkdirTemp(e.cache, "run-"); err != nil {
		return err
	}
	defer os.RemoveAll(e.scratch)
	var failed []error
	for name := range strings.SplitSeq(*what, ",") {
		r, err := e.measure(name)
		if err != nil {
			// Continue with the other figures.
			e.logf("%s: %v", name, err)
			failed = append(failed, fmt.Errorf("%s: %w", name, err))
			continue
		}
		r.print()
		if *out != "" {
			if err := r.write(*out); err != nil {
				return err
			}
		}
	}
	return errors.Join(failed...)
}

// locations are flags that are left out of the command in a report: where things are on this
// machine, and not how they are measured.
var locations = []string{"what", "out", "root", "shared", "cache", "python", "torch", "model", "judged", "models"}

// measure runs a figure and returns its report.
func (e *env) measure(name string) (*report, error) {
	i := slices.IndexFunc(figures, func(f figure) bool { return f.name == name })
	r := &report{Figure: name, Date: time.Now().Format(time.DateOnly), Command: "go run . -what " + name, Machine: describe(e.scratch)}
	for _, set := range e.sets { // stored as a separate report
		r.Figure += "-" + filepath.Base(set)
	}
	flag.Visit(func(f *flag.Flag) {
		if !slices.Contains(locations, f.Name) {
			r.Command += " -" + f.Name + " " + e.setting(f)
		}
	})
	e.logf("figure %s", name)
	err := figures[i].run(e, r)
	r.Peers = e.takePeers()
	return r, err
}

// takePeers returns the peers that the figure tried to run, and resets the list for the next
// figure.
func (e *env) takePeers() []*peer {
	var took []*peer
	for _, p := range e.peers {
		if p.Setting != "" || p.Missing != "" {
			q := *p
			took = append(took, &q)
			p.Setting, p.Version, p.Missing = "", "", ""
		}
	}
	return took
}

// freshDir makes an empty directory, removing an existing one.
func freshDir(dir string) (string, error) {
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o777)
}

// setting returns the value of a flag as a report has it: the place of a set is that of this machine.
func (e *env) setting(f *flag.Flag) string {
	if f.Name != "sets" {
		return f.Value.String()
	}
	var names []string
	for _, set := range e.sets {
		if isDirectory(set) {
			set = "DIR/" + filepath.Base(set)
		}
		names = append(names, set)
	}
	return strings.Join(names, ",")
}
