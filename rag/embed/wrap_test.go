package embed_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/rag/embed"
)

// pauses is a clock that only records the requested sleeps.
type pauses []time.Duration

func (p *pauses) sleep(ctx context.Context, d time.Duration) error {
	*p = append(*p, d)
	return ctx.Err()
}

func failing(errs ...error) *fake {
	return &fake{dim: 2, err: func(call int) error {
		if call < len(errs) {
			return errs[call]
		}
		return nil
	}}
}

func TestRetry(t *testing.T) {
	busy := &embed.Error{Kind: embed.ErrProvider, Provider: "fake", Status: 503}
	wait := func(d time.Duration) error { return &embed.Error{Kind: embed.ErrRateLimited, RetryAfter: d} }
	bad := &embed.Error{Kind: embed.ErrProvider, Status: 400}
	ms := time.Millisecond
	for _, tt := range []struct {
		name  string
		errs  []error
		rand  float64
		slept []time.Duration
		want  error
	}{
		{"none", nil, 0, nil, nil},
		{"doubling", []error{busy, busy, busy, busy}, 0, []time.Duration{100 * ms, 200 * ms, 400 * ms, 500 * ms}, nil},
		{"jitter", []error{busy, busy}, 0.5, []time.Duration{75 * ms, 150 * ms}, nil},
		{"given up", []error{busy, busy, busy, busy, busy}, 0, []time.Duration{100 * ms, 200 * ms, 400 * ms, 500 * ms}, embed.ErrProvider},
		{"retry after", []error{wait(3 * time.Second), busy}, 0.5, []time.Duration{3050 * ms, 150 * ms}, nil},
		{"retry after less than the pause", []error{wait(ms)}, 0, []time.Duration{100 * ms}, nil},
		{"retry after too long", []error{wait(time.Minute)}, 0, nil, embed.ErrRateLimited},
		{"not temporary", []error{bad}, 0, nil, embed.ErrProvider},
		{"not temporary later", []error{busy, bad}, 0, []time.Duration{100 * ms}, embed.ErrProvider},
	} {
		f, slept := failing(tt.errs...), pauses{}
		e := embed.Retry(f, &embed.RetryOptions{Base: 100 * ms, Max: 500 * ms, Patience: 30 * time.Second, Sleep: slept.sleep, Rand: func() float64 { return tt.rand }})
		v, err := e.Embed(t.Context(), "abc")
		if !slices.Equal(slept, tt.slept) || !errors.Is(err, tt.want) || err == nil && !cmp.Equal(v, []float32{3, 0}) {
			t.Errorf("%s: slept %v, %v %v", tt.name, slept, v, err)
		}
		attempts := fmt.Sprintf("after %d attempts: ", len(slept)+1)
		if err != nil && strings.HasPrefix(err.Error(), attempts) != (len(slept) > 0) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestRetryHonoursContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := &embed.Error{Kind: embed.ErrRateLimited, RetryAfter: time.Minute}
		e := embed.Retry(failing(busy, busy), nil)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		if _, err := e.Embed(ctx, "x"); !errors.Is(err, context.Canceled) || time.Since(start) != time.Second {
			t.Error(time.Since(start), err)
		}
		// A pause that the deadline would cut short is not begun.
		e = embed.Retry(failing(busy), nil)
		ctx, cancel = context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		start = time.Now()
		if _, err := e.Embed(ctx, "x"); !errors.Is(err, embed.ErrRateLimited) || time.Since(start) != 0 {
			t.Error(time.Since(start), err)
		}
		e = embed.Retry(failing(busy), nil)
		if v, err := e.Embed(t.Context(), "x"); err != nil || len(v) != 2 {
			t.Error(v, err)
		}
	})
}

func TestRetryLogs(t *testing.T) {
	var log bytes.Buffer
	slept := pauses{}
	e := embed.Retry(failing(&embed.Error{Kind: embed.ErrTimeout, Provider: "fake"}), &embed.RetryOptions{
		Logger: slog.New(slog.NewTextHandler(&log, nil)), Sleep: slept.sleep})
	vector(t, e, "x")
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "fake: timeout") {
		t.Error(log.String())
	}
}

// A server that says 429 with Retry-After is asked again after that time.
func TestRetryOverHTTP(t *testing.T) {
	var calls atomic.Int32
	url := serve(t, func(w http.ResponseWriter, _ request) {
		if calls.Add(1) == 1 {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(429)
			return
		}
		io.WriteString(w, `{"data":[{"embedding":[1,2]}]}`)
	})
	slept := pauses{}
	e := embed.Retry(openAI(t, "m", 2, embed.OpenAIOptions{Base: url}), &embed.RetryOptions{Sleep: slept.sleep, Rand: func() float64 { return 0 }})
	if v := vector(t, e, "x"); !cmp.Equal(v, []float32{1, 2}) || !slices.Equal(slept, pauses{7 * time.Second}) {
		t.Error(v, slept)
	}
}

func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{dim: 2}
		e := embed.Limit(f, embed.LimitOptions{PerSecond: 2, Burst: 3})
		start := time.Now()
		var at []time.Duration
		for range 6 {
			vector(t, e, "x")
			at = append(at, time.Since(start))
		}
		time.Sleep(10 * time.Second) // the burst comes back, and no more than it
		for range 4 {
			vector(t, e, "x")
			at = append(at, time.Since(start))
		}
		ms := time.Millisecond
		if want := []time.Duration{0, 0, 0, 500 * ms, 1000 * ms, 1500 * ms, 11500 * ms, 11500 * ms, 11500 * ms, 12000 * ms}; !slices.Equal(at, want) {
			t.Errorf("%v, want %v", at, want)
		}
	})
}

func TestLimitWaitsWhenAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := embed.Limit(failing(&embed.Error{Kind: embed.ErrRateLimited, RetryAfter: time.Minute}), embed.LimitOptions{PerSecond: 100, Burst: 10})
		if _, err := e.Embed(t.Context(), "x"); !errors.Is(err, embed.ErrRateLimited) {
			t.Fatal(err)
		}
		start := time.Now()
		vector(t, e, "x")
		if time.Since(start) != time.Minute {
			t.Error(time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
		defer cancel()
		if _, err := e.Embed(ctx, "x"); !errors.Is(err, embed.ErrTimeout) {
			t.Error(err)
		}
	})
}

// A call that is cancelled while it waits leaves its place to those behind it.
func TestLimitWithoutCancelledCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{dim: 2}
		e := embed.Limit(f, embed.LimitOptions{PerSecond: 2})
		start := time.Now()
		vector(t, e, "x")
		clients, hangUp := context.WithCancel(t.Context())
		var at [3]time.Duration
		for i := range at {
			for range 20 {
				go func() {
					if _, err := e.Embed(clients, "x"); !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
				}()
			}
			synctest.Wait()
			go func() {
				vector(t, e, "x")
				at[i] = time.Since(start)
			}()
			synctest.Wait()
		}
		ms := time.Millisecond
		time.Sleep(300 * ms)
		hangUp()
		time.Sleep(1300 * ms)
		synctest.Wait()
		if want := [3]time.Duration{500 * ms, 1000 * ms, 1500 * ms}; at != want {
			t.Errorf("%v, want %v", at, want)
		}
		for range 100 {
			if _, err := e.Embed(clients, "x"); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		vector(t, e, "x")
		if now := time.Since(start); now != 2000*ms || len(f.batches) != 5 {
			t.Errorf("after %v, %d requests", now, len(f.batches))
		}
	})
}

// A pause that the provider asks for also holds for a call that waits already.
func TestLimitPausesWaitingCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := failing(&embed.Error{Kind: embed.ErrRateLimited, RetryAfter: time.Minute})
		e := embed.Limit(&slow{Embedder: f}, embed.LimitOptions{PerSecond: 0.5})
		go e.Embed(t.Context(), "x")
		synctest.Wait()
		start := time.Now()
		vector(t, e, "x")
		if took := time.Since(start); took != 62*time.Second {
			t.Error(took)
		}
	})
}

func texts(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = strings.Repeat("x", i+1)
	}
	return list
}

func TestBatches(t *testing.T) {
	for _, n := range []int{0, 1, 99, 100, 101, 1234} {
		f := &fake{dim: 2}
		vecs, err := embed.Batches(f, nil).EmbedBatch(t.Context(), texts(n))
		if err != nil || len(vecs) != n || len(f.batches) != (n+99)/100 {
			t.Fatal(n, len(vecs), len(f.batches), err)
		}
		for i, v := range vecs {
			if v[0] != float32(i+1) {
				t.Fatalf("%d of %d: %v", i, n, v)
			}
		}
	}
}

// TestBatchesOfAnySize embeds every text, also with numbers that make no sense.
func TestBatchesOfAnySize(t *testing.T) {
	for _, o := range []embed.BatchOptions{
		{Size: -1}, {Size: -100}, {Size: math.MinInt}, {Size: math.MaxInt},
		{Parallel: -1}, {Parallel: math.MinInt}, {Parallel: math.MaxInt}, {Size: 1, Parallel: math.MaxInt},
	} {
		vecs, err := embed.Batches(&fake{dim: 2}, &o).EmbedBatch(t.Context(), texts(3))
		if err != nil || len(vecs) != 3 {
			t.Fatal(o, vecs, err)
		}
		for i, v := range vecs {
			if len(v) != 2 || v[0] != float32(i+1) {
				t.Errorf("%+v: vector %d is %v", o, i, v)
			}
		}
	}
}

func TestBatchesRunInParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{dim: 2}
		slow := &slow{Embedder: f}
		start := time.Now()
		if _, err := embed.Batches(slow, &embed.BatchOptions{Size: 10, Parallel: 3}).EmbedBatch(t.Context(), texts(90)); err != nil {
			t.Fatal(err)
		}
		if slow.most.Load() != 3 || time.Since(start) != 3*time.Second {
			t.Error(slow.most.Load(), time.Since(start))
		}
	})
}

// slow takes a second per request.
type slow struct {
	embed.Embedder
	now, most atomic.Int32
}

func (s *slow) EmbedBatch(ctx context.Context, texts []string) ([][]float32, error) {
	n := s.now.Add(1)
	defer s.now.Add(-1)
	for m := s.most.Load(); n > m && !s.most.CompareAndSwap(m, n); m = s.most.Load() {
	}
	select {
	case <-time.After(time.Second):
		return s.Embedder.EmbedBatch(ctx, texts)
	case <-ctx.Done():
		return nil, &embed.Error{Kind: embed.ErrOther, Err: ctx.Err()}
	}
}

func TestBatchesStopAtAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := failing(nil, nil, &embed.Error{Kind: embed.ErrProvider, Status: 400})
		vecs, err := embed.Batches(&slow{Embedder: f}, &embed.BatchOptions{Size: 1, Parallel: 1}).EmbedBatch(t.Context(), texts(50))
		if !errors.Is(err, embed.ErrProvider) || vecs != nil || len(f.batches) != 3 {
			t.Error(vecs, err, len(f.batches))
		}
		// With others under way, the error is still the one that began it.
		f = failing(nil, nil, &embed.Error{Kind: embed.ErrProvider, Status: 400})
		_, err = embed.Batches(&slow{Embedder: f}, &embed.BatchOptions{Size: 1, Parallel: 8}).EmbedBatch(t.Context(), texts(50))
		if !errors.Is(err, embed.ErrProvider) || len(f.batches) > 16 {
			t.Error(err, len(f.batches))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		start := time.Now()
		vecs, err = embed.Batches(&slow{Embedder: &fake{dim: 2}}, &embed.BatchOptions{Size: 1}).EmbedBatch(ctx, texts(50))
		if !errors.Is(err, context.DeadlineExceeded) || vecs != nil || time.Since(start) != 2500*time.Millisecond {
			t.Error(err, time.Since(start))
		}
		cancel()
		if vecs, err = embed.Batches(&fake{dim: 2}, nil).EmbedBatch(ctx, texts(50)); !errors.Is(err, context.DeadlineExceeded) || vecs != nil {
			t.Error(vecs, err)
		}
	})
}

func TestBatchesVerify(t *testing.T) {
	for name, f := range map[string]*fake{
		"dimension": {vec: func(text string) []float32 { return make([]float32, len(text)) }},
		"none":      {vec: func(string) []float32 { return nil }},
		"wanted":    {dim: 3, vec: func(string) []float32 { return []float32{1} }},
	} {
		if _, err := embed.Batches(f, &embed.BatchOptions{Size: 1}).EmbedBatch(t.Context(), texts(2)); !errors.Is(err, embed.ErrInvalidResponse) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
