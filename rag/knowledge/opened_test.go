package knowledge

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/rag/embed"
)

// TestOpened: a value is opened once, also by many at the same time, and an error is not kept.
func TestOpened(t *testing.T) {
	var o opened[string, int]
	ctx := t.Context()
	broken := errors.New("broken")
	if _, err := o.get(ctx, "a", func() (int, error) { return 0, broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
	var calls atomic.Int64
	one := func() (int, error) { return int(calls.Add(1)), nil }
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if v, err := o.get(ctx, "a", one); v != 1 || err != nil {
				t.Error(v, err)
			}
		})
	}
	all.Wait()
	_, err := o.get(ctx, "b", func() (int, error) {
		if v, err := o.get(ctx, "a", one); v != 1 || err != nil {
			t.Error("another value waits:", v, err)
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := o.get(ended, "b", one); !errors.Is(err, context.Canceled) {
			t.Error("who waits does not give up:", err)
		}
		return 7, nil
	})
	if err != nil {
		t.Error(err)
	}
	o.also("b", "c")
	o.also("b", "a")
	for key, want := range map[string]int{"a": 1, "b": 7, "c": 7} {
		if v, err := o.get(ctx, key, one); v != want || err != nil {
			t.Error(key, v, err)
		}
	}
	o.drop(func(key string) bool { return key == "a" })
	if v, err := o.get(ctx, "a", one); v != 2 || err != nil {
		t.Error(v, err)
	}
}

// blocks adds a provider whose embedders open when the channel is closed, and returns the channel
// that receives a value as soon as one waits.
func (f *fixture) blocks(until <-chan struct{}) (waits <-chan struct{}) {
	f.t.Helper()
	began := make(chan struct{}, 1)
	err := f.opts.Providers.Register(embed.Provider{Name: "blocking", Open: func(context.Context, embed.Config, *embed.Options) (embed.Embedder, error) {
		f.opened.Add(1)
		began <- struct{}{}
		<-until
		return embed.Trigram(64)
	}})
	if err != nil {
		f.t.Fatal(err)
	}
	return began
}

// TestOneBaseOpensItsModel: while the model of a base is read, other bases are asked, learnt and
// described.
func TestOneBaseOpensItsModel(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", "Apples are red.")
	f.learn("b", counted)
	open := make(chan struct{})
	waits := f.blocks(open)
	if _, err := f.Create("slow", map[string]any{"provider": "blocking"}); err != nil {
		t.Fatal(err)
	}
	before := f.opened.Load()
	var all sync.WaitGroup
	for range 2 { // the second one waits for the first
		all.Go(func() {
			if _, err := f.Embedder(t.Context(), "slow"); err != nil {
				t.Error(err)
			}
		})
	}
	<-waits
	others := make(chan struct{})
	go func() {
		defer close(others)
		f.learn("b", nil)
		f.query("what is red?", QueryOptions{})
		f.status()
		f.stats("b")
		if _, err := f.Stats("slow"); err != nil {
			t.Error(err)
		}
		if err := f.Engine.Close(); err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-others:
	case <-time.After(time.Minute): // the test has failed: they would wait for ever
		t.Error("other bases wait for the model")
	}
	close(open)
	all.Wait()
	<-others
	if n := f.opened.Load() - before; n != 1 {
		t.Errorf("the model was opened %d times", n)
	}
}

// kept returns the number of embedders that an engine keeps, and how many pipelines for base b.
func (f *fixture) kept() (embedders, pipelines int) {
	var all []*opening[embed.Embedder]
	for _, o := range f.embedders.all {
		if !slices.Contains(all, o) {
			all = append(all, o)
		}
	}
	return len(all), f.Engine.state("b").pipelines.recent.Len()
}

// TestEmbeddersAreDropped: what a changed configuration no longer uses is forgotten, whoever has
// changed it.
func TestEmbeddersAreDropped(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", "Apples are red.")
	f.learn("b", counted)
	f.learn("c", counted)
	other := f.another()
	for n := range 5 {
		for _, e := range []*Engine{f.Engine, other} {
			if _, err := e.Configure(t.Context(), "b", map[string]any{"embedding.price": n, "embedding.batch_size": n + 1}); err != nil {
				t.Fatal(err)
			}
		}
		f.query("what is red?", QueryOptions{})
		f.query("what is red?", QueryOptions{K: 1})
		if embedders, pipelines := f.kept(); embedders != 2 || pipelines != 2 {
			t.Errorf("%d embedders of 2 bases, %d pipelines", embedders, pipelines)
		}
	}
	o := ReembedOptions{Config: hashed}
	f.reembed(o)
	if embedders, _ := f.kept(); embedders != 2 {
		t.Errorf("%d embedders of 2 bases after an attempt to embed one again", embedders)
	}
	o.Switch = yes
	f.reembed(o)
	f.query("what is red?", QueryOptions{})
	if embedders, _ := f.kept(); embedders != 2 {
		t.Errorf("%d embedders of 2 bases after one was embedded again", embedders)
	}
	if err := f.Clean("b"); err != nil {
		t.Fatal(err)
	}
	if embedders, _ := f.kept(); embedders != 1 {
		t.Errorf("%d embedders of one base", embedders)
	}
}

// TestModelIsOpenedOnce: whether or not the configuration names the dimension of a local model, it
// is opened once to learn and ask.
func TestModelIsOpenedOnce(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", "Apples are red.")
	f.learn("b", &Config{Provider: "counting", Model: "m"})
	f.query("what is red?", QueryOptions{})
	if n := f.opened.Load(); n != 1 {
		t.Errorf("a new base: opened %d times", n)
	}
	if _, err := f.Create("c", map[string]any{"provider": "counting", "model": "m"}); err != nil {
		t.Fatal(err)
	}
	f.learn("c", nil)
	if _, err := f.Query(t.Context(), "c", "what is red?", QueryOptions{}); err != nil {
		t.Fatal(err)
	}
	f.learn("c", nil)
	if n := f.opened.Load(); n != 2 {
		t.Errorf("two bases: opened %d times", n)
	}
}
