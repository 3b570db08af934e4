package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/google/uuid"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/vecbolt/vecbolt/db"
)

// The data of the demo: see demo/ATTRIBUTION.md.
var (
	//go:embed demo/words.txt
	demoWords string
	//go:embed demo/words.fvecs.gz
	demoVectors []byte
)

type demoCmd struct {
	Dir string `placeholder:"DIR" help:"Directory to work in, empty or missing; default a new temporary directory."`
}

func (c *demoCmd) Help() string {
	return "Imports the vectors of 4,000 English words from an embedding cache and shows the features of a database " +
		"with them, each step with its command. The exit status is 1 if any answer is not the expected one. The word vectors are " +
		"GloVe (Pennington, Socher, Manning 2014), which are in the public domain (PDDL)."
}

func (c *demoCmd) Run(ctx context.Context, t *tool) error {
	dir := c.Dir
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "vecbolt-demo-"); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		return errors.Join(err, fmt.Errorf("demo: directory %q is not empty", dir))
	}
	d := &demo{ctx: ctx, t: t, dir: dir}
	if err := d.play(); err != nil {
		return fmt.Errorf("demo: %w (the files are in %s)", err, dir)
	}
	return nil
}

// A demo executes commands in its directory and explains them.
type demo struct {
	ctx context.Context
	t   *tool
	dir string
	err error // the first error; later commands are skipped
}

func (d *demo) path(name string) string { return filepath.Join(d.dir, name) }

// say explains the next step.
func (d *demo) say(format string, args ...any) {
	if d.err == nil && !d.t.json {
		fmt.Fprintf(d.t.out, "\n"+format+"\n", args...)
		d.err = d.t.out.Flush()
	}
}

// exec shows and executes a command line of the tool, shows its answer and returns it.
func (d *demo) exec(args ...string) string {
	if d.t.json {
		args = append(args, "--json")
	}
	d.show("vecbolt", args...)
	answer := d.execute(args)
	indent := "  "
	if d.t.json {
		indent = ""
	}
	if d.err == nil {
		for line := range strings.Lines(d.local(answer)) {
			fmt.Fprint(d.t.out, indent+line)
		}
		d.err = d.t.out.Flush()
	}
	return answer
}

// ask executes a command line of the tool without showing it, and returns its answer in JSON.
func (d *demo) ask(args ...string) string { return d.execute(append(args, "--json")) }

// hits returns the hits of a search, without details of the search.
func (d *demo) hits(args ...string) string {
	_, hits, _ := strings.Cut(d.ask(args...), `"hits":`)
	return hits
}

func (d *demo) execute(args []string) string {
	if d.err != nil {
		return ""
	}
	var answer, report bytes.Buffer
	if status := run(d.ctx, args, strings.NewReader(""), &answer, &report); status != statusOK {
		d.err = fmt.Errorf("%s: exit status %d: %s%s", strings.Join(args, " "), status, &answer, &report)
	}
	return answer.String()
}

// expect fails the demo unless ok.
func (d *demo) expect(ok bool, format string, args ...any) {
	if d.err == nil && !ok {
		d.err = fmt.Errorf("unexpected: "+format, args...)
	}
}

// local makes paths relative to the directory of the demo.
func (d *demo) local(s string) string {
	return strings.ReplaceAll(s, d.dir+string(filepath.Separator), "")
}

const demoDim = 100

// play is the story.
func (d *demo) play() error {
	words := strings.Fields(demoWords)
	vectors, err := readDemoVectors(len(words))
	if err != nil {
		return err
	}
	of := map[string][]float32{}
	for i, word := range words {
		of[word] = vectors[i]
	}
	base, cache, texts := d.path("words.vdb"), d.path("cache"), d.path("texts.jsonl")

	d.say("%s English words as vectors of %d numbers (GloVe, public domain), as a program leaves them in its embedding\n"+
		"cache: a JSON file per word, named by a hash, with a .meta.json beside it; texts.jsonl says which word is which.",
		humanize.Comma(int64(len(words))), demoDim)
	d.do(func() error { return writeCache(cache, texts, words, vectors) })
	d.show("cd", d.dir)
	d.cat(filepath.Join("cache", demoKey("king")))
	d.cat(filepath.Join("cache", demoKey("king")+".meta.json"))

	d.say("Importing the cache makes the database.")
	d.exec("import", base, "words", cache, "--texts", texts)
	d.counted(base, len(words))

	d.say("The words nearest to \"king\", by the cosine of their vectors. The first is the word itself.")
	king := []string{"search", base, "words", "--id", demoKey("king"), "-k", "5", "--no-metadata"}
	d.expect(strings.Contains(d.exec(king...), "prince"), "no prince near the king")
	before := d.hits(king...)

	d.say("king - man + woman: an analogy is a sum of vectors.")
	analogy := make([]float32, demoDim)
	for i := range analogy {
		analogy[i] = of["king"][i] - of["man"][i] + of["woman"][i]
	}
	d.do(func() error { return writeJSON(d.path("analogy.json"), analogy) })
	answer := d.exec("search", base, "words", "--vector", d.path("analogy.json"), "-k", "3", "--no-metadata")
	d.expect(strings.Contains(answer, "queen"), "the analogy has no queen")

	d.say("Filters are applied before ranking: there are always as many hits as asked for, if so many documents match.")
	d.exec("search", base, "words", "--id", demoKey("king"), "-k", "5", "--no-metadata",
		"--where", `{"tags":{"$contains":"q"},"length":{"$gte":6}}`)
	d.exec("count", base, "words", "--where", `{"tags":{"$contains":"q"}}`)

	d.say("A new document is found by the next search. This one lies between \"king\" and \"queen\".")
	between := make([]float32, demoDim)
	for i := range between {
		between[i] = of["king"][i] + of["queen"][i]
	}
	royal := db.Document{ID: "royal", Text: "king and queen", Vector: between, Metadata: db.Metadata{"made": true}}
	d.do(func() error { return writeJSON(d.path("royal.jsonl"), royal) })
	d.cat("royal.jsonl")
	d.exec("put", base, "words", d.path("royal.jsonl"))
	answer = d.exec("search", base, "words", "--id", demoKey("king"), "-k", "3", "--no-metadata")
	d.expect(strings.Contains(answer, "king and queen"), "the new document is not found")

	d.say("Writing the id again replaces the document. Deleting goes by id or by condition.")
	royal.Text = "queen and king"
	d.do(func() error { return writeJSON(d.path("royal.jsonl"), royal) })
	d.exec("put", base, "words", d.path("royal.jsonl"))
	d.expect(strings.Contains(d.exec("get", base, "words", "royal"), "queen and king"), "the document was not replaced")
	d.exec("delete", base, "words", "royal")
	d.exec("delete", base, "words", "--where", `{"rank":{"$gt":2000}}`)
	d.counted(base, 2000)

	d.say("Space comes back by itself in the background; compact does it now. The answers stay the same, bit by bit.")
	filtered := append(king, "--where", `{"rank":{"$lte":2000}}`)
	atMost2000 := d.hits(filtered...)
	d.exec("compact", base)
	d.expect(d.hits(filtered...) == atMost2000, "compaction changed an answer")

	d.say("Check reads every byte and verifies every checksum.")
	d.exec("check", base)

	d.say("A backup is a database like any other.")
	d.exec("backup", base, d.path("copy.vdb"))
	d.exec("check", d.path("copy.vdb"))
	filtered[1] = d.path("copy.vdb")
	d.expect(d.hits(filtered...) == atMost2000, "the backup answers otherwise")

	d.say("Importing again writes what is missing or has changed: here the words that were deleted.")
	d.exec("import", base, "words", cache, "--texts", texts)
	d.counted(base, len(words))
	d.say("And again: nothing has changed, nothing is written.")
	var again struct{ Added, Updated, Unchanged int }
	d.decode(d.exec("import", base, "words", cache, "--texts", texts, "--json"), &again)
	d.expect(again.Added == 0 && again.Updated == 0 && again.Unchanged == len(words),
		"an import of the same files writes: %+v", again)

	d.say("Every command above opened and closed the database. The first search still has the same answer, to the last bit.")
	d.expect(d.hits(king...) == before, "reopening changed an answer")
	d.exec(king...)
	d.exec("info", base)

	if d.t.json {
		d.do(func() error {
			return d.t.line(struct {
				OK bool   `json:"ok"`
				DB string `json:"db"`
			}{true, base})
		})
	}
	d.say("All as expected. The database is %s", base)
	return d.err
}

// do runs fn unless something went wrong before.
func (d *demo) do(fn func() error) {
	if d.err == nil {
		d.err = fn()
	}
}

// show shows a command line.
func (d *demo) show(name string, args ...string) {
	if d.err != nil || d.t.json {
		return
	}
	line := "$ " + name
	for _, arg := range args {
		line += " " + quote(d.local(arg))
	}
	_, d.err = fmt.Fprintln(d.t.out, line)
}

// cat shows the beginning of a file.
func (d *demo) cat(name string) {
	d.show("cat", name)
	d.do(func() error {
		b, err := os.ReadFile(d.path(name))
		if err == nil && !d.t.json {
			_, err = fmt.Fprintf(d.t.out, "  %s\n", text.Snip(strings.TrimSpace(string(b)), 110, "…"))
		}
		return err
	})
}

// counted checks the number of documents.
func (d *demo) counted(base string, want int) {
	var answer struct{ Count int }
	d.decode(d.ask("count", base, "words"), &answer)
	d.expect(answer.Count == want, "%d documents instead of %d", answer.Count, want)
}

func (d *demo) decode(answer string, v any) {
	d.do(func() error { return json.Unmarshal([]byte(answer), v) })
}

// demoKey names the cache file of a text as LangChain does: a namespace and the UUIDv5 of the
// text's SHA-1.
func demoKey(text string) string {
	sum := sha1.Sum([]byte(text))
	space := uuid.UUID{14: 1985 >> 8, 15: 1985 & 0xff}
	return "glove-" + uuid.NewSHA1(space, []byte(hex.EncodeToString(sum[:]))).String()
}

// writeCache writes an embedding cache in the file-store format: a file per text with its vector,
// and a file with its metadata. The words come in order of frequency.
func writeCache(dir, texts string, words []string, vectors [][]float32) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	for i, word := range words {
		name := filepath.Join(dir, demoKey(word))
		err := errors.Join(
			writeJSON(name, vectors[i]),
			writeJSON(name+".meta.json", map[string]any{
				"source_file": "words.txt", "line_number": i + 1, "chunk_index": 0, "chunk_length": len(word),
				"tags": []string{word[:1]}, "length": len(word), "rank": i + 1,
			}),
			enc.Encode(map[string]string{"key": demoKey(word), "text": word}),
		)
		if err != nil {
			return err
		}
	}
	return os.WriteFile(texts, lines.Bytes(), 0o600)
}

func writeJSON(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(b, '\n'), 0o600)
}

// readDemoVectors reads the rows of the embedded .fvecs file.
func readDemoVectors(rows int) ([][]float32, error) {
	b, err := gunzip(demoVectors)
	if err != nil {
		return nil, err
	}
	const rowBytes = 4 + 4*demoDim
	if len(b) != rows*rowBytes {
		return nil, fmt.Errorf("%d bytes of vectors for %d words", len(b), rows)
	}
	vectors := make([][]float32, rows)
	for i := range vectors {
		row := b[i*rowBytes+4 : (i+1)*rowBytes]
		for j := range demoDim {
			vectors[i] = append(vectors[i], math.Float32frombits(binary.LittleEndian.Uint32(row[4*j:])))
		}
	}
	return vectors, nil
}

func gunzip(b []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}
