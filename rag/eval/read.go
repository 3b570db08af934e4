package eval

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/vecbolt/vecbolt/exchange"
)

// ErrFormat is matched by the error for a malformed file. The error names file and line.
var ErrFormat = errors.New("malformed")

// maxLine is the longest line accepted in judgements and runs, in bytes.
const maxLine = 64 << 10

// A line is one line of a text file, without its end.
type line struct {
	name string
	n    int
	text string
}

func (l line) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: line %d: %w: "+format, append([]any{l.name, l.n, ErrFormat}, args...)...)
}

// lines yields the lines of r except blank lines and, as in trec_eval, comments.
func lines(r io.Reader, name string) iter.Seq2[line, error] {
	return func(yield func(line, error) bool) {
		s := bufio.NewScanner(r)
		s.Buffer(make([]byte, 0, 4096), maxLine)
		l := line{name: name}
		for s.Scan() {
			l.n++
			l.text = s.Text()
			if l.n == 1 {
				l.text = strings.TrimPrefix(l.text, "\ufeff") // Windows editors write it
			}
			if strings.HasPrefix(l.text, "#") || strings.TrimSpace(l.text) == "" {
				continue
			}
			if !yield(l, nil) {
				return
			}
		}
		l.n++
		switch err := s.Err(); {
		case errors.Is(err, bufio.ErrTooLong):
			yield(l, l.errorf("more than %d bytes", maxLine))
		case err != nil:
			yield(l, fmt.Errorf("%s: line %d: %w", name, l.n, err))
		}
	}
}

// A Query is a question as text, as a vector, or as both.
type Query struct {
	ID     string
	Text   string
	Vector []float32
}

// ReadQueries reads queries in the JSONL of BEIR: objects with the keys _id (or id) and text and,
// beyond BEIR, vector (or embedding). Other keys are ignored. Errors call the input name.
func ReadQueries(r io.Reader, name string) ([]Query, error) {
	var queries []Query
	seen := map[string]bool{}
	in := exchange.NewJSONLReader(r, name)
	for {
		item, err := in.Next()
		if err == io.EOF {
			return queries, nil
		}
		if err != nil {
			if errors.Is(err, exchange.ErrFormat) {
				err = fmt.Errorf("%w: %w", ErrFormat, err)
			}
			return nil, err
		}
		l := line{name: name, n: int(item.Position.N)}
		d := &item.Document
		switch {
		case item.Skip != nil:
			return nil, l.errorf("%w", item.Skip)
		case d.ID == "":
			return nil, l.errorf("no _id")
		case seen[d.ID]:
			return nil, l.errorf("query %q comes twice", d.ID)
		}
		seen[d.ID] = true
		queries = append(queries, Query{ID: d.ID, Text: d.Text, Vector: d.Vector})
	}
}

// Qrels are judgements of documents, by query and document. A document is relevant if it is judged
// 1 or more.
type Qrels map[string]map[string]int

// ReadQrels reads judgements, one per line. BEIR's format has the header "query-id corpus-id score"
// and tabs; TREC's has "query iteration document judgement", separated by any white space. A line
// with three columns is BEIR's, a line with four TREC's; below the header, ids may contain spaces.
// A document may be judged twice only if both judgements agree. Errors call the input name.
func ReadQrels(r io.Reader, name string) (Qrels, error) {
	q := Qrels{}
	first, headed := true, false
	for l, err := range lines(r, name) {
		if err != nil {
			return nil, err
		}
		fields, words := strings.Split(l.text, "\t"), strings.Fields(l.text)
		if len(fields) != 3 || !headed && len(words) == 4 && isIteration(words[1]) {
			fields = words
		}
		header := first
		first = false
		if len(fields) == 4 {
			fields = slices.Delete(fields, 1, 2)
		}
		if len(fields) != 3 {
			return nil, l.errorf("%d columns, want query-id, corpus-id, score or query, iteration, document, judgement", len(fields))
		}
		for i := range fields {
			if fields[i] = strings.TrimSpace(fields[i]); fields[i] == "" {
				return nil, l.errorf("column %d is empty", i+1)
			}
		}
		query, doc := fields[0], fields[1]
		grade, err := strconv.ParseInt(fields[2], 10, 32)
		if err != nil {
			if header && (query == "query-id" || fields[2] == "score") {
				headed = true
				continue
			}
			return nil, l.errorf("judgement %.40q is not an integer", fields[2])
		}
		if old, ok := q[query][doc]; ok && old != int(grade) {
			return nil, l.errorf("document %q of query %q is judged %d, and %d before", doc, query, grade, old)
		}
		if q[query] == nil {
			q[query] = map[string]int{}
		}
		q[query][doc] = int(grade)
	}
	return q, nil
}

// isIteration reports whether a word is valid in the second column of TREC's judgements: 0, Q0, or
// the number of a feedback round.
func isIteration(word string) bool {
	_, err := strconv.Atoi(strings.TrimPrefix(word, "Q"))
	return err == nil
}

// WriteBEIR writes the judgements in BEIR's format, in order of query and document. It fails on ids
// with tabs or line ends, which the format cannot represent.
func (q Qrels) WriteBEIR(w io.Writer) error {
	return q.write(w, "query-id\tcorpus-id\tscore\n", "%s\t%s\t%d\n",
		func(r rune) bool { return r == '\t' || r == '\r' || r == '\n' })
}

// WriteTREC writes the judgements in TREC's format, in order of query and document. It fails on ids
// with white space, which the format cannot represent.
func (q Qrels) WriteTREC(w io.Writer) error {
	return q.write(w, "", "%s 0 %s %d\n", unicode.IsSpace)
}

func (q Qrels) write(w io.Writer, header, format string, banned func(rune) bool) error {
	out := bufio.NewWriter(w)
	out.WriteString(header) // Flush returns its error
	for _, query := range sortedIDs(q) {
		for _, doc := range sortedIDs(q[query]) {
			if err := checkIDs(banned, query, doc); err != nil {
				return err
			}
			fmt.Fprintf(out, format, query, doc, q[query][doc])
		}
	}
	return out.Flush()
}

// checkIDs refuses ids that a reader would parse differently.
func checkIDs(banned func(rune) bool, query, doc string) error {
	for _, id := range []string{query, doc} {
		if id == "" || id != strings.TrimSpace(id) || strings.ContainsFunc(id, banned) {
			return fmt.Errorf("id %q cannot be written: the format allows neither empty ids nor this white space", id)
		}
	}
	if strings.HasPrefix(query, "#") || strings.HasPrefix(query, "\ufeff") {
		return fmt.Errorf("query %q cannot be written: it would be read as a comment or a byte order mark", query)
	}
	return nil
}

// Only returns the judgements of some queries.
func (q Qrels) Only(queries []Query) Qrels {
	some := Qrels{}
	for i := range queries {
		if docs, ok := q[queries[i].ID]; ok {
			some[queries[i].ID] = docs
		}
	}
	return some
}

// A Scored is a document with its score, higher being better.
type Scored struct {
	ID    string
	Score float64
}

// A Run is the answer of one search method to all queries.
type Run struct {
	// Name is the tag of a TREC run.
	Name string
	// Rankings hold the documents found, by query. No document occurs twice in a ranking.
	Rankings map[string][]Scored
	// Exact is false if an answer may lack documents that belong in it. A run read from a file is
	// never exact.
	Exact bool
}

// NewRun returns an empty run.
func NewRun(name string) *Run { return &Run{Name: name, Rankings: map[string][]Scored{}} }

// Set sets the documents found for a query, best first. A document that occurs again, as where each
// passage stands for its document, counts once, at its best rank. If scores do not fall in that
// order, as after diversification, Set replaces them by numbers that do, because evaluation uses
// scores alone.
func (r *Run) Set(query string, ranking []Scored) {
	ranking = distinct(ranking)
	if !slices.IsSortedFunc(ranking, func(a, b Scored) int {
		switch {
		case a.Score < b.Score:
			return 1
		case a.Score > b.Score:
			return -1
		}
		return 0
	}) {
		for i := range ranking {
			ranking[i].Score = float64(len(ranking) - i)
		}
	}
	r.Rankings[query] = ranking
}

// distinct returns a ranking without the repetitions of documents.
func distinct(ranking []Scored) []Scored {
	seen := make(map[string]bool, len(ranking))
	return slices.DeleteFunc(slices.Clone(ranking), func(s Scored) bool {
		again := seen[s.ID]
		seen[s.ID] = true
		return again
	})
}

// first returns the best n documents of each query.
func (r *Run) first(n int) *Run {
	cut := NewRun(r.Name)
	for query, docs := range r.Rankings {
		cut.Rankings[query] = ranked(docs)[:min(n, len(docs))]
	}
	return cut
}

// ReadRun reads a TREC run: lines of "query Q0 document rank score tag", separated by white space.
// It ignores the rank; the name of the run is the first tag. Errors call the input name.
func ReadRun(r io.Reader, name string) (*Run, error) {
	run := NewRun("")
	type key struct{ query, doc string }
	seen := map[key]bool{}
	for l, err := range lines(r, name) {
		if err != nil {
			return nil, err
		}
		f := strings.Fields(l.text)
		if len(f) != 6 {
			return nil, l.errorf("%d columns, want query, Q0, document, rank, score, tag", len(f))
		}
		score, err := strconv.ParseFloat(f[4], 64)
		if err != nil || math.IsNaN(score) || math.IsInf(score, 0) {
			return nil, l.errorf("score %.40q is not a finite number", f[4])
		}
		k := key{f[0], f[2]}
		if seen[k] {
			return nil, l.errorf("document %q comes twice for query %q", k.doc, k.query)
		}
		seen[k] = true
		if run.Name == "" {
			run.Name = f[5]
		}
		run.Rankings[k.query] = append(run.Rankings[k.query], Scored{k.doc, score})
	}
	return run, nil
}

// Write writes the run in TREC's format, in order of query and rank. Scores have enough digits to
// be read back exactly. It fails on ids with white space, which the format cannot represent. White
// space in the name becomes "-".
func (r *Run) Write(w io.Writer) error {
	out := bufio.NewWriter(w)
	tag := strings.Join(strings.Fields(r.Name), "-")
	if tag == "" {
		tag = "run"
	}
	for _, query := range sortedIDs(r.Rankings) {
		for i, s := range ranked(r.Rankings[query]) {
			if err := checkIDs(unicode.IsSpace, query, s.ID); err != nil {
				return err
			}
			fmt.Fprintf(out, "%s Q0 %s %d %s %s\n", query, s.ID, i+1, strconv.FormatFloat(s.Score, 'g', -1, 64), tag)
		}
	}
	return out.Flush()
}

// ranked returns the documents in the order of trec_eval's ranking.
func ranked(docs []Scored) []Scored {
	docs = slices.Clone(docs)
	slices.SortFunc(docs, func(a, b Scored) int {
		switch {
		case a.Score > b.Score:
			return -1
		case a.Score < b.Score:
			return 1
		}
		return strings.Compare(b.ID, a.ID)
	})
	return docs
}

// sortedIDs returns the keys of a map, shorter ones first, so that numbers are in numeric order.
func sortedIDs[V any](m map[string]V) []string {
	ids := make([]string, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, compareIDs)
	return ids
}

func compareIDs(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}
