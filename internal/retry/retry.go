// Package retry repeats requests to servers after temporary errors.
package retry

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A Policy has the fields of embed.RetryOptions, which describes them.
type Policy struct {
	Attempts  int
	Base, Max time.Duration
	Patience  time.Duration
	Sleep     func(context.Context, time.Duration) error
	Rand      func() float64
	Logger    *slog.Logger
}

// withDefaults returns the policy with the defaults of fields that are zero.
func (p Policy) withDefaults() Policy {
	p.Attempts = cmp.Or(p.Attempts, 5)
	p.Base = cmp.Or(p.Base, 500*time.Millisecond)
	p.Max = cmp.Or(p.Max, 30*time.Second)
	p.Patience = cmp.Or(p.Patience, 2*time.Minute)
	if p.Sleep == nil {
		p.Sleep = Sleep
	}
	if p.Rand == nil {
		p.Rand = rand.Float64
	}
	if p.Logger == nil {
		p.Logger = slog.New(slog.DiscardHandler)
	}
	return p
}

// Do sends a request until it succeeds, fails for good, or was sent as often as allowed. temporary
// reports whether an error may go away, and the pause that the server asks for. what names the
// request in the log. The error is the last one of send, with the number of attempts, or of Sleep.
func (p Policy) Do(ctx context.Context, what string, send func() error,
	temporary func(error) (after time.Duration, ok bool)) error {
	p = p.withDefaults()
	for attempt := 1; ; attempt++ {
		err := send()
		if err == nil {
			return nil
		}
		failed := err
		if attempt > 1 {
			failed = fmt.Errorf("after %d attempts: %w", attempt, err)
		}
		if attempt >= p.Attempts || ctx.Err() != nil {
			return failed
		}
		after, ok := temporary(err)
		if !ok || after > p.Patience {
			return failed
		}
		// math.Ldexp saturates where a shift would overflow.
		pause := min(math.Ldexp(float64(p.Base), attempt-1), float64(p.Max)) * (1 - p.Rand()/2)
		if after > 0 {
			pause = max(pause, float64(after)+p.Rand()*float64(p.Base))
		}
		wait := time.Duration(pause)
		if end, ok := ctx.Deadline(); ok && time.Until(end) < wait {
			return failed // the deadline is before the end of the pause
		}
		p.Logger.WarnContext(ctx, what+" failed, will retry", "attempt", attempt, "pause", wait, "error", err)
		if err := p.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// Final reports whether the error of a connection stays, however often it is tried: the name of the
// server does not exist, its certificate is not trusted, or it does not speak HTTPS. A server that
// refuses a connection may be about to start.
func Final(err error) bool {
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	return errors.As(err, &name) && name.IsNotFound || errors.As(err, &certificate) ||
		errors.Is(err, http.ErrSchemeMismatch)
}

// Sleep waits, or returns the error of the context if that ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// After returns the pause that a response asks for, from seconds or a date (RFC 9110, 10.2.3) or
// from the milliseconds of Azure and OpenAI. It is 0 if none is requested.
func After(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		return Seconds(ms / 1000)
	}
	v := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(v, 64); err == nil {
		return Seconds(s)
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(0, t.Sub(now))
	}
	return 0
}

// Seconds converts an untrusted number of seconds.
func Seconds(s float64) time.Duration {
	if !(s > 0) { // NaN included
		return 0
	}
	return time.Duration(min(s, 1e9) * float64(time.Second))
}
