package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/knowledge"
	"github.com/vecbolt/vecbolt/rag/split"
)

// The documents of the figure have ragWords words; chunks have ragChunk words, and share ragOverlap
// words with the chunk before.
const (
	ragWords   = 60
	ragChunk   = 40
	ragOverlap = 8
	ragDim     = 384
	ragAsked   = 200
	ragK       = 5
)

// ragResult is the result of one contestant, also written by peers/rag.py.
type ragResult struct {
	Chunks  int                  `json:"chunks"`
	Digest  string               `json:"digest"` // of the chunks
	Seconds float64              `json:"seconds"`
	Before  float64              `json:"rss_before_mib"`
	After   float64              `json:"rss_after_mib"`
	Micros  map[string][]float64 `json:"micros"` // of each question, by method
	IDs     [][]string           `json:"ids"`    // of dense answers
	How     string               `json:"how"`
}

// ragFigure indexes documents and asks questions, and compares with a plain Python program that
// does the same with the same chunks and the same embeddings.
func ragFigure(e *env, r *report) error {
	r.Title = "Indexing and questions"
	r.note("Documents of %d words drawn from 20,000 by Zipf's law, in chunks of %d words that overlap by %d, embedded by trigram-v1 (%d components); %d questions of six words of a document, k = %d. Index: chunks, embeddings and writing, in Vecbolt with a text index, durably on disk; in Python lists or a numpy array in memory. Questions: from a ready embedding to the context (Vecbolt, also without the embedding: by words), or to the best chunks (Python).", ragWords, ragChunk, ragOverlap, ragDim, ragAsked, ragK)
	r.note("Resident memory is that of a fresh process before and after indexing, without asking; Vecbolt's has the files that it mapped in it, and a heap that the garbage collector has not shrunk.")
	for _, n := range []int{1000, 5000, 10_000} {
		corpus, queries := filepath.Join(e.scratch, fmt.Sprintf("rag-%d.jsonl", n)), filepath.Join(e.scratch, fmt.Sprintf("rag-%d-queries.jsonl", n))
		if err := writeRAG(corpus, queries, n); err != nil {
			return err
		}
		var vb, py ragResult
		e.logf("rag: vecbolt, %d documents", n)
		if err := callChild(&vb, "rag", corpus, queries); err != nil {
			return err
		}
		set := fmt.Sprintf("%s documents, %s chunks", number(float64(n)), number(float64(vb.Chunks)))
		add := func(who string, res ragResult, ratio float64) {
			r.add(measurement{Set: set, Who: who, How: "index", Value: float64(res.Chunks) / res.Seconds, Unit: "chunks/s", Ratio: ratio,
				Detail: map[string]float64{"MiB before": res.Before, "MiB after": res.After}})
		}
		e.logf("rag: python, %d documents", n)
		out, err := exec.Command(pythonWithNumpy(), filepath.Join(e.peersDir, "rag.py"), corpus, queries).Output()
		if err == nil {
			err = json.Unmarshal(out, &py)
		}
		if err != nil {
			r.note("Python did not run: %v", err)
		}
		add("vecbolt", vb, 0)
		if err == nil {
			if py.Digest != vb.Digest {
				return fmt.Errorf("python made other chunks: %d, not %d", py.Chunks, vb.Chunks)
			}
			add(py.How, py, float64(vb.Chunks)/vb.Seconds/(float64(py.Chunks)/py.Seconds))
		}
		for _, how := range []string{"dense", "text", "hybrid"} {
			slices.Sort(vb.Micros[how])
			r.add(measurement{Set: set, Who: "vecbolt", How: "question to context, " + how, Value: median(vb.Micros[how]), Unit: "µs, median",
				Detail: map[string]float64{"p99 µs": vb.Micros[how][len(vb.Micros[how])*99/100]}})
		}
		if err == nil {
			same := 0
			for i, ids := range py.IDs {
				for _, id := range ids {
					if slices.Contains(vb.IDs[i], id) {
						same++
					}
				}
			}
			share := float64(same) / float64(ragK*len(py.IDs))
			if share < 0.95 { // Vecbolt may answer with a promised recall
				return fmt.Errorf("python found other chunks: %.3f are the same", share)
			}
			slices.Sort(py.Micros["dense"])
			r.add(measurement{Set: set, Who: py.How, How: "question to chunks, dense", Value: median(py.Micros["dense"]), Unit: "µs, median",
				Ratio: median(py.Micros["dense"]) / median(vb.Micros["dense"]), Detail: map[string]float64{"p99 µs": py.Micros["dense"][len(py.Micros["dense"])*99/100], "same chunks": share}})
		}
		if vb.Chunks == 10_000 {
			for _, how := range []string{"dense", "hybrid"} {
				r.atMost(fmt.Sprintf("retrieval to context, %s, %s chunks, median ms", how, number(float64(vb.Chunks))), 1, median(vb.Micros[how])/1e3)
			}
		}
	}
	seconds, embedded, err := learnAgain(e)
	if err != nil {
		return err
	}
	r.add(measurement{Set: "learning 1,000 files again", Who: "vecbolt", How: "unchanged", Value: 1e3 * seconds, Unit: "ms", Detail: map[string]float64{"texts embedded": float64(embedded)}})
	r.atMost("learning 1,000 unchanged files, s", 1, seconds)
	r.goal("texts embedded for them", "= 0", float64(embedded), embedded == 0)
	return nil
}

// pythonWithNumpy returns Debian's Python if it has numpy, otherwise the first Python in the path.
func pythonWithNumpy() string {
	const debian = "/usr/bin/python3"
	if exec.Command(debian, "-c", "import numpy").Run() == nil {
		return debian
	}
	return "python3"
}

// writeRAG writes documents and questions as JSON lines. Its output is deterministic.
func writeRAG(corpus, queries string, n int) error {
	rng := rand.New(rand.NewPCG(7, 11))
	zipf := rand.NewZipf(rng, 1.1, 8, 19_999)
	word := func() string {
		var b []byte
		for x := zipf.Uint64()*2_654_435_761%(1<<31) + 26; x > 0; x /= 26 {
			b = append(b, byte('a'+x%26))
		}
		return string(b)
	}
	var docs, asked bytes.Buffer
	line := func(b *bytes.Buffer, id string, words []string) {
		fmt.Fprintf(b, "{\"id\":%q,\"text\":%q}\n", id, strings.Join(words, " "))
	}
	for i := range n {
		words := make([]string, ragWords)
		for j := range words {
			words[j] = word()
		}
		line(&docs, fmt.Sprintf("d%05d", i), words)
		if i%(n/ragAsked) == 0 {
			at := rng.IntN(ragWords - 6)
			line(&asked, fmt.Sprintf("q%05d", i), words[at:at+6])
		}
	}
	return errors.Join(os.WriteFile(corpus, docs.Bytes(), 0o666), os.WriteFile(queries, asked.Bytes(), 0o666))
}

func readRAG(name string) (docs []db.Document, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var d db.Document
		if err := json.Unmarshal(s.Bytes(), &d); err != nil {
			return nil, err
		}
		docs = append(docs, d)
	}
	return docs, nil
}

// ragChild indexes and asks in a separate process.
func ragChild(corpus, queries string) (err error) {
	ctx := context.Background()
	docs, err := readRAG(corpus)
	if err != nil {
		return err
	}
	asked, err := readRAG(queries)
	if err != nil {
		return err
	}
	model, err := embed.Trigram(ragDim)
	if err != nil {
		return err
	}
	s, err := split.New(split.Fixed(), split.Options{MaxTokens: ragChunk, Overlap: ragOverlap, Count: func(text string) int { return len(strings.Fields(text)) }})
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(corpus), "rag-vecbolt-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	vdb, err := db.Open(dir, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, vdb.Close()) }()
	c, err := vdb.OpenCollection(ctx, "chunks", db.Schema{Dim: ragDim, Text: &db.TextIndex{}})
	if err != nil {
		return err
	}
	quiet := slog.New(slog.DiscardHandler)
	x, err := rag.NewIndexer(c, model, &rag.IndexerOptions{Split: s, Logger: quiet})
	if err != nil {
		return err
	}
	res := ragResult{Before: residentMiB(), Micros: map[string][]float64{}, How: "vecbolt"}
	start := time.Now()
	ids, err := x.Index(ctx, docs...)
	if err != nil {
		return err
	}
	res.Seconds, res.Chunks, res.After = time.Since(start).Seconds(), len(ids), residentMiB()

	hash := sha256.New()
	for _, id := range ids {
		d, err := c.Get(ctx, id, db.WithText)
		if err != nil {
			return err
		}
		fmt.Fprintf(hash, "%s\n", d.Text)
	}
	res.Digest = hex.EncodeToString(hash.Sum(nil))
	for how, strategy := range map[string]rag.Strategy{"dense": rag.Dense(), "text": rag.Text(), "hybrid": rag.Hybrid(db.Fusion{})} {
		p, err := rag.NewPipeline(c, model, &rag.PipelineOptions{Strategy: strategy, TopK: ragK, Logger: quiet})
		if err != nil {
			return err
		}
		for _, q := range asked {
			vec, err := embed.Queries(model).Embed(ctx, q.Text)
			if err != nil {
				return err
			}
			start := time.Now()
			answer, err := p.QueryVector(ctx, q.Text, vec, nil)
			if err != nil {
				return err
			}
			res.Micros[how] = append(res.Micros[how], float64(time.Since(start))/float64(time.Microsecond))
			if how == "dense" {
				var found []string
				for _, chunk := range answer.Chunks {
					found = append(found, chunk.ID)
				}
				res.IDs = append(res.IDs, found)
			}
		}
	}
	return json.NewEncoder(os.Stdout).Encode(res)
}

// residentMiB returns the resident memory of this process.
func residentMiB() float64 {
	for line := range strings.Lines(read("/proc/self/status")) {
		var kb int64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d", &kb); n == 1 {
			return float64(kb) / 1024
		}
	}
	return 0
}

// counter counts the texts that it embeds.
type counter struct {
	embed.Embedder
	texts int
}

func (c *counter) EmbedBatch(ctx context.Context, texts []string) ([][]float32, error) {
	c.texts += len(texts)
	return c.Embedder.EmbedBatch(ctx, texts)
}

// learnAgain learns 1,000 files twice. It returns the median time of the second pass, and the
// number of texts that it embedded.
func learnAgain(e *env) (seconds float64, embedded int, err error) {
	e.logf("rag: learning")
	files := filepath.Join(e.scratch, "rag-files")
	for i := range 1000 {
		name := filepath.Join(files, fmt.Sprint(i%10), fmt.Sprintf("%d.md", i))
		text := fmt.Sprintf("# File %d\n\n%s", i, strings.Repeat("Some text that is not short. ", 100))
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), os.WriteFile(name, []byte(text), 0o666)); err != nil {
			return 0, 0, err
		}
	}
	trigram, err := embed.Trigram(ragDim)
	if err != nil {
		return 0, 0, err
	}
	count := &counter{Embedder: trigram}
	providers := embed.NewRegistry(embed.Provider{Name: "hash", Capabilities: embed.Capabilities{Dimensions: true},
		Open: func(context.Context, embed.Config, *embed.Options) (embed.Embedder, error) { return count, nil }})
	engine, err := knowledge.New(filepath.Join(e.scratch, "rag-bases"), &knowledge.Options{Providers: providers, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return 0, 0, err
	}
	var took []float64
	for i := range 6 {
		if i == 1 {
			count.texts = 0
		}
		report, err := engine.Learn(context.Background(), "files", knowledge.LearnOptions{Paths: []string{files}})
		if err != nil {
			return 0, 0, err
		}
		if i > 0 {
			took = append(took, report.Seconds)
		}
	}
	return median(took), count.texts, nil
}
