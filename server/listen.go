package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"
)

// Limits of a connection.
const (
	headerTime     = 5 * time.Second  // to send the header of a request
	idleTime       = 60 * time.Second // between requests
	drainTime      = 2 * time.Second  // to send a body that nobody reads
	maxHeader      = 128 << 10        // bytes of a header, which may contain a filter
	maxConnections = 4096
)

// ErrExposed is returned by CheckExposure.
var ErrExposed = errors.New("address can be reached from other machines, and there is no token")

// CheckExposure returns an error that matches ErrExposed if a listener accepts connections from
// other machines and the service may be read without a token. Programs that want this need not call
// it.
func (o *Options) CheckExposure(l net.Listener) error {
	if !o.anonymous() || Loopback(l) {
		return nil
	}
	return fmt.Errorf("server: %w: %v", ErrExposed, l.Addr())
}

// Loopback reports whether a listener accepts connections from this machine only.
func Loopback(l net.Listener) bool {
	switch a := l.Addr().(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}

// Serve answers on a listener, which it closes, until ctx ends. Then /readyz reports it, no new
// connections are accepted, and running requests have another Limits.Time to end. With a TLS
// configuration it speaks HTTPS. It returns nil when the shutdown is complete.
func (s *Server) Serve(ctx context.Context, l net.Listener, secure *tls.Config) error {
	l = netutil.LimitListener(l, maxConnections)
	web := &http.Server{
		Handler: s, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), TLSConfig: secure,
	}
	failed := make(chan error, 1)
	go func() {
		if secure != nil {
			failed <- web.ServeTLS(l, "", "")
		} else {
			failed <- web.Serve(l)
		}
	}()
	select {
	case err := <-failed:
		return fmt.Errorf("server: %w", err)
	case <-ctx.Done():
	}
	s.Drain()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.limits.Time)
	defer cancel()
	err := web.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		s.log.Warn("requests were cut off at the end")
		err = web.Close()
	}
	<-failed
	if err != nil {
		return fmt.Errorf("server: shut down: %w", err)
	}
	return nil
}
