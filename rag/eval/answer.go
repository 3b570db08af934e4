package eval

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode"
)

// A Row is one answered question, with the field names of ragas. Each field may be empty.
type Row struct {
	UserInput           string   `json:"user_input"`
	RetrievedContexts   []string `json:"retrieved_contexts,omitempty"`
	RetrievedContextIDs []string `json:"retrieved_context_ids,omitempty"`
	Response            string   `json:"response,omitempty"`
	Reference           string   `json:"reference,omitempty"`
	ReferenceContexts   []string `json:"reference_contexts,omitempty"`
	ReferenceContextIDs []string `json:"reference_context_ids,omitempty"`

	// Scores are written and read along with the row, by name of the measure.
	Scores map[string]float64 `json:"scores,omitempty"`
}

// maxRow is the longest row that is read, in bytes.
const maxRow = 16 << 20

// ReadRows reads rows of JSONL. It also accepts the field names of ragas before version 0.2:
// question, contexts, answer, ground_truth. Unknown keys are ignored. Errors call the input name.
func ReadRows(r io.Reader, name string) ([]Row, error) {
	var rows []Row
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 64<<10), maxRow)
	l := line{name: name}
	for s.Scan() {
		l.n++
		text := bytes.TrimSpace(s.Bytes())
		if l.n == 1 {
			text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
		}
		if len(text) == 0 {
			continue
		}
		var old *struct {
			Row
			Question    string   `json:"question"`
			Contexts    []string `json:"contexts"`
			Answer      string   `json:"answer"`
			GroundTruth string   `json:"ground_truth"`
		}
		if err := json.Unmarshal(text, &old); err != nil {
			return nil, l.errorf("%w", err)
		}
		if old == nil {
			return nil, l.errorf("null instead of an object")
		}
		row := old.Row
		row.UserInput, row.Response, row.Reference = cmp.Or(row.UserInput, old.Question),
			cmp.Or(row.Response, old.Answer), cmp.Or(row.Reference, old.GroundTruth)
		if row.RetrievedContexts == nil {
			row.RetrievedContexts = old.Contexts
		}
		rows = append(rows, row)
	}
	l.n++
	if err := s.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, l.errorf("more than %d bytes", maxRow)
	} else if err != nil {
		return nil, fmt.Errorf("%s: line %d: %w", name, l.n, err)
	}
	return rows, nil
}

// WriteRows writes rows as JSONL.
func WriteRows(w io.Writer, rows []Row) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for i := range rows {
		if err := enc.Encode(&rows[i]); err != nil {
			return fmt.Errorf("write row %d: %w", i, err)
		}
	}
	return nil
}

// The names of the measures in Row.Scores.
const (
	ContextPrecision = "context_precision"
	ContextRecall    = "context_recall"
	Faithfulness     = "faithfulness"     // are the claims of the response in the contexts?
	AnswerRelevance  = "answer_relevance" // does the response answer the question?
)

// ContextScores compares the retrieved contexts of a row with its references. If the row has ids of
// both, it compares ids. Otherwise it compares texts: same reports whether a retrieved text counts
// as a reference. If same is nil, it does if one text contains the other, by letters and digits
// alone.
//
// Recall is the share of the references that were retrieved. Precision is, as in ragas, the mean of
// the precision at each rank with a useful context: 1 if all useful contexts come first, 0 if there
// are none. ok is false for a row without references.
func ContextScores(row *Row, same func(retrieved, reference string) bool) (precision, recall float64, ok bool) {
	retrieved, references := row.RetrievedContexts, row.ReferenceContexts
	if len(row.ReferenceContextIDs) > 0 && (len(row.RetrievedContextIDs) > 0 || len(retrieved) == 0) {
		retrieved, references = row.RetrievedContextIDs, row.ReferenceContextIDs
		same = func(a, b string) bool { return a == b }
	} else if same == nil {
		same = sameText
	}
	if len(references) == 0 {
		return 0, 0, false
	}
	found := make([]bool, len(references))
	useful := 0
	for rank, text := range retrieved {
		hit := false
		for i, ref := range references {
			if same(text, ref) {
				hit, found[i] = true, true
			}
		}
		if hit {
			useful++
			precision += float64(useful) / float64(rank+1)
		}
	}
	if useful > 0 {
		precision /= float64(useful)
	}
	n := 0
	for _, f := range found {
		if f {
			n++
		}
	}
	return precision, float64(n) / float64(len(references)), true
}

// sameText reports whether one of two texts contains the other, comparing only letters and digits
// and ignoring case, because a chunk may be cut wider or narrower than a reference. It is false if
// a text has no letters or digits.
func sameText(a, b string) bool {
	a, b = plain(a), plain(b)
	return a != "" && b != "" && (strings.Contains(a, b) || strings.Contains(b, a))
}

// plain returns the words of s, each between single spaces.
func plain(s string) string {
	words := strings.FieldsFunc(strings.ToLower(s),
		func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if len(words) == 0 {
		return ""
	}
	return " " + strings.Join(words, " ") + " "
}

// A Judge scores a row from 0 to 1 for a measure such as Faithfulness, usually by asking a language
// model.
type Judge func(ctx context.Context, measure string, row *Row) (float64, error)

// JudgeRows sets the scores of rows: ContextPrecision and ContextRecall for rows with references,
// and the given measures, by judge, for rows with a response. judge may be nil if there are no
// measures. JudgeRows returns the mean of each score over the rows that have it. It judges rows in
// order and stops at the first error.
func JudgeRows(ctx context.Context, rows []Row, judge Judge, measures ...string) (map[string]float64, error) {
	if judge == nil && len(measures) > 0 {
		return nil, errors.New("measures without a judge")
	}
	values := map[string][]float64{}
	for i := range rows {
		row := &rows[i]
		set := func(measure string, v float64) {
			if row.Scores == nil {
				row.Scores = map[string]float64{}
			}
			row.Scores[measure] = v
			values[measure] = append(values[measure], v)
		}
		if precision, recall, ok := ContextScores(row, nil); ok {
			set(ContextPrecision, precision)
			set(ContextRecall, recall)
		}
		if row.Response == "" {
			continue
		}
		for _, measure := range measures {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			v, err := judge(ctx, measure, row)
			if err == nil && (math.IsNaN(v) || v < 0 || v > 1) {
				err = fmt.Errorf("score %v is outside 0..1", v)
			}
			if err != nil {
				return nil, fmt.Errorf("judge %s of row %d (%.40q): %w", measure, i, row.UserInput, err)
			}
			set(measure, v)
		}
	}
	means := map[string]float64{}
	for measure, v := range values {
		means[measure] = mean(v)
	}
	return means, nil
}

// Row makes a row from a query and the retrieved texts and ids, best first. ids may be nil.
func (q Query) Row(texts, ids []string) Row {
	return Row{UserInput: q.Text, RetrievedContexts: slices.Clone(texts), RetrievedContextIDs: slices.Clone(ids)}
}
