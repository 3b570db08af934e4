package knowledge

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/rag/eval"
)

// rankings returns the ids of the first question of each run.
func rankings(r *eval.Report) map[string][]string {
	all := map[string][]string{}
	for _, res := range r.Results {
		ids := []string{}
		for _, s := range res.Run.Rankings[r.Queries[0].ID] {
			ids = append(ids, s.ID)
		}
		all[res.Run.Name] = ids
	}
	return all
}

func asked(question string, relevant ...string) eval.Lab {
	judged := map[string]int{}
	for _, id := range relevant {
		judged[id] = 1
	}
	return eval.Lab{Queries: []eval.Query{{ID: "q", Text: question}, {ID: "unjudged", Text: "whatever"}},
		Qrels: eval.Qrels{"q": judged, "lost": {"x": 1}}, Metrics: []eval.Metric{eval.NDCG(10)}, Seed: 1}
}

// TestEvalMapsChunks judges what chunks belong to.
func TestEvalMapsChunks(t *testing.T) {
	f := newFixture(t)
	f.write("animals.md", animals)
	f.write("oaks.txt", "Oaks live for centuries.")
	f.write("rows.jsonl", `{"_id": 7, "kind": "bird", "text": "Cranes dance and bark."}
{"_id": 8, "kind": "bird", "text": "Owls hunt at night."}
{"_id": 12, "kind": "fish", "text": "Pikes hunt in rivers."}
`)
	f.learn("b", counted)
	file := func(name string) string { return filepath.ToSlash(filepath.Join(f.docs, name)) }
	for _, tt := range []struct {
		name     string
		relevant []string
		judged   string // asked for
		kind     string
		unknown  int
		found    []string // the best of run text for "bark hunt purr"
	}{
		{"files", []string{file("animals.md"), "gone.md"}, "", "file", 1, []string{file("rows.jsonl"), file("animals.md")}},
		{"rows", []string{file("rows.jsonl") + ":2"}, "", "row", 0,
			[]string{file("rows.jsonl") + ":1", file("rows.jsonl") + ":2", file("rows.jsonl") + ":3", file("animals.md") + "#0", file("animals.md") + "#1"}},
		{"chunks", []string{file("animals.md") + "#1"}, "", "chunk", 0,
			[]string{file("rows.jsonl") + "#0", file("rows.jsonl") + "#1", file("rows.jsonl") + "#2", file("animals.md") + "#0", file("animals.md") + "#1"}},
		{"integers", []string{"7", "8"}, "", "_id", 0, []string{"7", "8", "12", file("animals.md") + "#0", file("animals.md") + "#1"}},
		{"texts", []string{"fish"}, "", "kind", 0, []string{"bird", "fish", file("animals.md") + "#0", file("animals.md") + "#1"}},
		{"asked", []string{"bird", "7"}, "kind", "kind", 1, []string{"bird", "fish", file("animals.md") + "#0", file("animals.md") + "#1"}},
		{"files and chunks", []string{file("rows.jsonl"), file("animals.md") + "#1"}, "", "file", 0,
			[]string{file("rows.jsonl"), file("animals.md") + "#1", file("animals.md")}},
		{"files alone", []string{file("rows.jsonl"), file("animals.md") + "#1"}, "file", "file", 1, []string{file("rows.jsonl"), file("animals.md")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := f.Eval(t.Context(), "b", asked("bark hunt purr", tt.relevant...), EvalOptions{Runs: []string{"text"}, Judged: tt.judged})
			if err != nil {
				t.Fatal(err)
			}
			found := rankings(r.Report)["text"]
			slices.Sort(found)
			slices.Sort(tt.found)
			if diff := cmp.Diff(tt.found, found); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if r.Judged != tt.kind || r.IDs != len(tt.relevant) || r.Unknown != tt.unknown || len(r.Queries) != 1 {
				t.Errorf("%q, %d of %d unknown, %d questions", r.Judged, r.Unknown, r.IDs, len(r.Queries))
			}
		})
	}
	lab := asked("bark", "bird", "7")
	if _, err := f.Eval(t.Context(), "b", lab, EvalOptions{}); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "the fields _id or kind: name one") {
		t.Error(err)
	}
	r, err := f.Eval(t.Context(), "b", asked("bark hunt", "bird"), EvalOptions{Runs: []string{"dense"}, Where: filter.Eq("kind", "fish")})
	if err != nil || !slices.Equal(rankings(r.Report)["dense"], []string{"fish"}) {
		t.Errorf("%v, %v", r, err)
	}
}

// TestEvalSearchesUntilThereAreEnough has a file with many chunks before the one that is relevant.
func TestEvalSearchesUntilThereAreEnough(t *testing.T) {
	f := newFixture(t)
	f.write("long.txt", strings.Repeat("A sentence about owls, which hunt at night, and owls, and nothing else.\n\n", 60))
	f.write("other.txt", "Owls are mentioned here, besides much else that has little to do with anything at all.")
	f.learn("b", counted)
	lab := asked("owls hunt at night", filepath.ToSlash(filepath.Join(f.docs, "other.txt")))
	lab.Depth, lab.Metrics = 2, []eval.Metric{eval.Recall(2)}
	runs := []string{"dense", "text", "hybrid", "dense+mmr", "hybrid+lexical"}
	r, err := f.Eval(t.Context(), "b", lab, EvalOptions{Runs: runs, Set: map[string]any{"top_k": 1, "candidates": 2}})
	if err != nil {
		t.Fatal(err)
	}
	for name, ids := range rankings(r.Report) {
		if len(ids) != 2 {
			t.Errorf("%s: %q", name, ids)
		}
	}
	for _, res := range r.Results {
		if v := res.Evaluation.Mean(eval.Recall(2)); v != 1 {
			t.Errorf("%s: %v", res.Run.Name, v)
		}
	}
}

// TestEvalRuns asks as the runs say.
func TestEvalRuns(t *testing.T) {
	f := newFixture(t)
	facts(f)
	m := newModel(t, func(system, _ string) string { return "Dogs bark at strangers, and guard the house at night." })
	file := func(name string) string { return filepath.ToSlash(filepath.Join(f.docs, name)) }
	f.set("b", map[string]any{"chat": "ollama", "chat_url": m.URL, "chat_model": "m", "rerank_url": m.URL,
		"prompt_price": 1e6, "strategy": "text", "cache_size": 10})
	lab := asked("what purrs, a telephone or a steam engine?", file("cats.md"), file("dogs.md"))
	lab.Metrics = nil
	total := 0
	r, err := f.Eval(t.Context(), "b", lab, EvalOptions{Progress: func(done, all int) {
		if total++; done != total || all != 6 {
			t.Errorf("%d of %d", done, all)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i, res := range r.Results {
		names = append(names, res.Run.Name)
		if (res.Versus == nil) != (i == 0) {
			t.Errorf("%s: %+v", res.Run.Name, res.Versus)
		}
	}
	if want := []string{"base", "dense", "text", "hybrid", "hybrid+lexical", "hybrid+mmr"}; !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
	if got := rankings(r.Report); !slices.Equal(got["base"], got["text"]) || len(got["dense"]) != 4 || total != 6 {
		t.Errorf("%q", got)
	}
	if r.Report.Title != "b" || len(r.Metrics) != len(eval.DefaultMetrics()) {
		t.Errorf("%+v", r.Report)
	}
	if told := m.heard(); len(told) > 0 {
		t.Errorf("the model heard %q", told)
	}

	// The model is asked once for both runs, and the reranker, which likes long texts, gets two
	// chunks.
	r, err = f.Eval(t.Context(), "b", lab, EvalOptions{Runs: []string{"hyde", "hyde+tei+top_k=1+candidates=2", "base+reranker=lexical"}})
	if err != nil {
		t.Fatal(err)
	}
	if told := m.heard(); len(told) != 2 {
		t.Errorf("the model heard %q", told)
	}
	got := rankings(r.Report)
	if got["hyde"][0] != file("dogs.md") || !slices.Equal(got["hyde"][2:], got["hyde+tei+top_k=1+candidates=2"][2:]) {
		t.Errorf("%q", got)
	}
	if s := f.stats("b"); s.PromptTokens != 100 || s.Cost != 100 || s.Queries != 0 || s.Failures != 0 {
		t.Errorf("%+v", s)
	}
}

// TestEvalRefuses has nothing to measure.
func TestEvalRefuses(t *testing.T) {
	f := newFixture(t)
	facts(f)
	cats := filepath.ToSlash(filepath.Join(f.docs, "cats.md"))
	zero := asked("purr", cats)
	zero.Qrels["q"][cats] = 0
	for _, tt := range []struct {
		name string
		lab  eval.Lab
		o    EvalOptions
		is   error
		want string
	}{
		{"no judged id", asked("purr", "1", "2"), EvalOptions{}, eval.ErrNotJudged, `judged are 2 ids such as "1"; the base has chunk "` + cats + `#0", file "` + cats + `"`},
		{"no such field", asked("purr", "1"), EvalOptions{Judged: "_id"}, eval.ErrNotJudged, `no chunk with a text or an integer in field "_id"`},
		{"nothing relevant", zero, EvalOptions{}, eval.ErrNotJudged, "nothing is judged 1 or more"},
		{"no question judged", eval.Lab{Queries: []eval.Query{{ID: "other", Text: "x"}}, Qrels: eval.Qrels{"q": {cats: 1}}}, EvalOptions{}, eval.ErrNotJudged, "none of the questions is judged"},
		{"mute", asked(" ", cats), EvalOptions{}, eval.ErrNoText, `question "q": query has no text`},
		{"strategy", asked("purr", cats), EvalOptions{Runs: []string{"psychic"}}, ErrConfig, `run psychic: .*want one of auto, dense`},
		{"reranker", asked("purr", cats), EvalOptions{Runs: []string{"text+psychic"}}, ErrConfig, `run text+psychic: `},
		{"key", asked("purr", cats), EvalOptions{Runs: []string{"text+topk=1"}}, ErrConfig, `the nearest is "top_k"`},
		{"not for a question", asked("purr", cats), EvalOptions{Set: map[string]any{"chunk_size": 9}}, ErrConfig, "it cannot be set for one question"},
		{"empty", asked("purr", cats), EvalOptions{Runs: []string{"text+"}}, ErrConfig, `want a strategy or "base"`},
		{"model", asked("purr", cats), EvalOptions{Runs: []string{"hyde"}}, ErrConfig, "it needs the key chat_model"},
		{"twice", asked("purr", cats), EvalOptions{Runs: []string{"text", "text"}}, nil, `two runs are named "text"`},
	} {
		_, err := f.Eval(t.Context(), "b", tt.lab, tt.o)
		want, _, _ := strings.Cut(tt.want, ".*")
		if err == nil || tt.is != nil && !errors.Is(err, tt.is) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if _, err := f.Eval(t.Context(), "nobody", asked("purr", cats), EvalOptions{}); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}

	// Somebody took the vectors away, and then the text index.
	f.change(func(chunks *db.Collection) {
		for d, err := range chunks.All(t.Context(), nil, db.WithText|db.WithMetadata) {
			if err == nil {
				_, err = chunks.Upsert(t.Context(), *d)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	if _, err := f.Eval(t.Context(), "b", asked("purr", cats), EvalOptions{Runs: []string{"text", "dense"}}); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "run dense: ") || !strings.Contains(err.Error(), "no chunk has a vector") {
		t.Error(err)
	}
	if r, err := f.Eval(t.Context(), "b", asked("purr", cats), EvalOptions{Runs: []string{"text", "text+lexical"}}); err != nil || len(r.Results) != 2 {
		t.Error(r, err)
	}
	f.change(func(chunks *db.Collection) {
		if err := chunks.SetText(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	})
	if _, err := f.Eval(t.Context(), "b", asked("purr", cats), EvalOptions{Runs: []string{"text"}}); !errors.Is(err, db.ErrTextIndex) {
		t.Error(err)
	}
	f.change(func(chunks *db.Collection) {
		if _, err := chunks.DeleteWhere(t.Context(), filter.Exists(ragSource)); err != nil {
			t.Fatal(err)
		}
	})
	if _, err := f.Eval(t.Context(), "b", asked("purr", cats), EvalOptions{}); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "no chunks") {
		t.Error(err)
	}
}

const ragSource = "source_file"

// change changes the chunks of a base behind its back.
func (f *fixture) change(how func(*db.Collection)) {
	f.t.Helper()
	vdb, err := db.Open(filepath.Join(f.dir("b"), firstIndex), nil)
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() {
		if err := vdb.Close(); err != nil {
			f.t.Error(err)
		}
	}()
	chunks, err := vdb.Collection(chunksName)
	if err != nil {
		f.t.Fatal(err)
	}
	how(chunks)
}
