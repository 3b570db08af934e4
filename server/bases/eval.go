package bases

import (
	"net/http"
	"slices"
	"strings"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/docjson"
	"github.com/vecbolt/vecbolt/internal/errtext"
	"github.com/vecbolt/vecbolt/rag/eval"
	"github.com/vecbolt/vecbolt/rag/knowledge"
	"github.com/vecbolt/vecbolt/server/internal/rest"
)

// Limits of one evaluation.
const (
	maxJudged  = 1000 // questions
	maxRuns    = 20
	maxMetrics = 20
)

// evalRun is the result of one run, in an answer.
type evalRun struct {
	Run         string             `json:"run"`
	Metrics     map[string]float64 `json:"metrics"`
	Versus      *eval.Comparison   `json:"versus,omitempty"`
	Regressions []eval.Change      `json:"regressions,omitempty"`
}

// evalAnswer is the answer to an evaluation.
type evalAnswer struct {
	Judged  string    `json:"judged"`  // what the judged ids are
	IDs     int       `json:"ids"`     // judged relevant
	Unknown int       `json:"unknown"` // of these, missing in the base
	Queries int       `json:"queries"`
	Depth   int       `json:"depth"`
	Runs    []evalRun `json:"runs"`
}

// shownRegressions is the number of questions of a run that an answer names because they became
// worse.
const shownRegressions = 5

// eval measures how well a base answers judged questions.
func (s *service) eval(w http.ResponseWriter, r *http.Request) error {
	lab, o, err := s.judged(w, r)
	if err != nil {
		return err
	}
	s.patience(w)
	result, err := s.engine.Eval(r.Context(), r.PathValue("name"), *lab, o.ForClients())
	if err != nil {
		return err
	}
	answer := evalAnswer{Judged: result.Judged, IDs: result.IDs, Unknown: result.Unknown,
		Queries: len(result.Queries), Depth: result.Depth, Runs: []evalRun{}}
	for _, res := range result.Results {
		run := evalRun{Run: res.Run.Name, Metrics: map[string]float64{}, Versus: res.Versus}
		for _, m := range res.Evaluation.Metrics {
			run.Metrics[m.String()] = res.Evaluation.Mean(m)
		}
		if res.Versus != nil {
			run.Regressions = res.Versus.Regressions(shownRegressions)
		}
		answer.Runs = append(answer.Runs, run)
	}
	s.deadline(w)
	rest.JSON(w, http.StatusOK, answer)
	return nil
}

// judged reads the body of an evaluation.
func (s *service) judged(w http.ResponseWriter, r *http.Request) (*eval.Lab, *knowledge.EvalOptions, error) {
	lab, o := &eval.Lab{Qrels: eval.Qrels{}}, &knowledge.EvalOptions{}
	err := s.object(w, r, func(key string, v *docjson.Reader) (err error) {
		switch key {
		case "questions":
			lab.Queries, err = questions(v)
		case "qrels":
			err = v.Object(func(id string) (err error) {
				lab.Qrels[id], err = grades(v)
				return err
			})
		case "runs":
			if o.Runs, err = v.Strings(maxRuns); err == nil {
				err = checkRuns(o.Runs)
			}
		case "metrics":
			lab.Metrics, err = metrics(v)
		case "judged":
			o.Judged, err = v.String()
		case "where":
			var raw []byte
			if raw, err = v.Raw(); err == nil {
				if o.Where, err = filter.Parse(raw); err != nil {
					err = rest.Errorf(http.StatusBadRequest, "Invalid 'where' filter: %s", rest.Message(err))
				}
			}
		default:
			err = unknown(key, "questions", "qrels", "runs", "metrics", "judged", "where")
		}
		return err
	})
	if err == nil && len(lab.Queries) == 0 {
		err = rest.Missing("questions")
	}
	return lab, o, err
}

func questions(v *docjson.Reader) (list []eval.Query, err error) {
	seen := map[string]bool{}
	err = v.Array(func() error {
		var q eval.Query
		err := v.Object(func(key string) (err error) {
			switch key {
			case "id":
				q.ID, err = v.String()
			case "text":
				q.Text, err = v.String()
			default:
				err = unknown(key, "id", "text")
			}
			return err
		})
		switch {
		case err != nil:
			return err
		case q.ID == "" || seen[q.ID]:
			return rest.Errorf(http.StatusBadRequest, "questions: id %.100q is empty or given twice", q.ID)
		case strings.TrimSpace(q.Text) == "" || len(q.Text) > maxQuestion:
			return rest.Errorf(http.StatusBadRequest, "question %.100q: want a text of at most %d bytes",
				q.ID, maxQuestion)
		case len(list) == maxJudged:
			return rest.Errorf(http.StatusBadRequest, "questions: at most %d", maxJudged)
		}
		seen[q.ID] = true
		list = append(list, q)
		return nil
	})
	return list, err
}

// grades reads the judgements of one question: an object of ids and grades.
func grades(v *docjson.Reader) (map[string]int, error) {
	judged := map[string]int{}
	err := v.Object(func(id string) (err error) {
		judged[id], err = v.Int(-1<<31, 1<<31-1)
		return err
	})
	return judged, err
}

func metrics(v *docjson.Reader) (list []eval.Metric, err error) {
	names, err := v.Strings(maxMetrics)
	for _, name := range names {
		m, err := eval.ParseMetric(name)
		if err != nil {
			return nil, rest.Errorf(http.StatusBadRequest, "metrics: %s", errtext.Plain(err.Error()))
		}
		if m.K() > knowledge.ClientChunks {
			return nil, rest.Errorf(http.StatusBadRequest, "metrics: %s: want at most %d ranks", name,
				knowledge.ClientChunks)
		}
		list = append(list, m)
	}
	return list, err
}

// checkRuns refuses runs with keys that a question cannot set.
func checkRuns(runs []string) error {
	for _, run := range runs {
		for _, part := range strings.Split(run, "+") {
			name, _, isKey := strings.Cut(part, "=")
			if !isKey {
				continue
			}
			i := slices.IndexFunc(knowledge.Keys(), func(k knowledge.Key) bool { return k.Name == name })
			if i >= 0 && !knowledge.Keys()[i].Asker {
				return rest.Errorf(http.StatusForbidden, "%s: a run cannot set this key", name)
			}
		}
	}
	return nil
}
