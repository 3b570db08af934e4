package vectorize

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag/embed"
)

// with returns Models with a provider "slow", of unknown dimensions, which calls do before it
// embeds a text.
func with(l *lab, do func(context.Context) error) *Models {
	return New(Options{Providers: embed.NewRegistry(append(embed.Builtin(), embed.Provider{Name: "slow",
		Open: func(context.Context, embed.Config, *embed.Options) (embed.Embedder, error) {
			e, err := embed.Trigram(64)
			return slow{e, do}, err
		}})...), Default: l.models.opts.Default})
}

type slow struct {
	embed.Embedder
	do func(context.Context) error
}

func (slow) Dimensions() int { return 0 }

func (s slow) Embed(ctx context.Context, text string) ([]float32, error) {
	if err := s.do(ctx); err != nil {
		return nil, err
	}
	return s.Embedder.Embed(ctx, text)
}

var slowModel = embed.Config{Provider: "slow", Model: "s"}

// TestSlowModel: while a collection is pinned to a model that does not answer, another collection
// is searched, and those who need the slow model wait no longer than they want to.
func TestSlowModel(t *testing.T) {
	l := newLab(t, nil)
	asked, release := make(chan struct{}, 2), make(chan struct{})
	models := with(l, func(context.Context) error {
		asked <- struct{}{}
		select {
		case <-release:
		case <-time.After(10 * time.Second):
			t.Error("others waited for the slow model")
		}
		return nil
	})
	fast := models.Collection(l.open("fast", db.Schema{}).Collection)
	if err := fast.Pin(t.Context(), embed.DefaultConfig()); err != nil {
		t.Fatal(err)
	}
	stuck := models.Collection(l.open("stuck", db.Schema{}).Collection)
	pinned := make(chan error, 1)
	go func() { pinned <- stuck.Pin(t.Context(), slowModel) }()
	select {
	case <-asked:
	case err := <-pinned:
		t.Fatal(err)
	}
	if _, err := fast.Search(t.Context(), db.Query{Text: "x"}); err != nil {
		t.Error(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := models.Resolve(ended, slowModel); !errors.Is(err, context.Canceled) {
		t.Errorf("Resolve, of a context that ended: %v", err)
	}
	close(release)
	if err := <-pinned; err != nil {
		t.Error(err)
	}
}

// TestOneProbe: a model is asked once for its dimensions by those who want them at the same time.
// Another one asks if the first gives up, and after an error.
func TestOneProbe(t *testing.T) {
	failed := errors.New("no model today")
	for _, tt := range []struct {
		name   string
		cancel bool  // the context of the first call
		fail   error // of the model
		want   int   // probes
	}{
		{"answered", false, nil, 1},
		{"given up", true, nil, 2},
		{"failed", false, failed, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				probes, release, fail := 0, make(chan struct{}), tt.fail
				m := with(&lab{models: New(Options{})}, func(ctx context.Context) error {
					probes++
					select {
					case <-release:
						return fail
					case <-ctx.Done():
						return ctx.Err()
					}
				})
				first, cancel := context.WithCancel(t.Context())
				defer cancel()
				errs := make(chan error, 3)
				resolve := func(ctx context.Context) {
					c, err := m.Resolve(ctx, slowModel)
					if err == nil && c.Dimensions != 64 {
						err = errors.New(c.String())
					}
					errs <- err
				}
				go resolve(first)
				synctest.Wait()
				go resolve(t.Context())
				go resolve(t.Context())
				synctest.Wait()
				if tt.cancel {
					cancel()
					if err := <-errs; !errors.Is(err, context.Canceled) {
						t.Errorf("given up: %v", err)
					}
					errs <- nil
					synctest.Wait()
				}
				close(release)
				for range 3 {
					if err := <-errs; !errors.Is(err, tt.fail) {
						t.Error(err)
					}
				}
				if probes != tt.want {
					t.Errorf("%d probes, want %d", probes, tt.want)
				}
				fail = nil
				if _, err := m.Resolve(t.Context(), slowModel); err != nil {
					t.Errorf("after an error: %v", err)
				}
			})
		})
	}
}

// TestPanicOfAProvider: those who wait for a call that panics try themselves.
func TestPanicOfAProvider(t *testing.T) {
	var c calls[int]
	func() {
		defer func() { _ = recover() }()
		_, _ = c.do(t.Context(), "a", func() (int, error) { panic("broken") })
	}()
	if n, err := c.do(t.Context(), "a", func() (int, error) { return 7, nil }); n != 7 || err != nil {
		t.Error(n, err)
	}
}
