package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// served is a server that a story has started.
type served struct {
	url  string
	stop func() (status int, stderr string)
}

type servedKey struct{}

// serve ARGS... runs the verb serve until shutdown, and waits until it listens.
func serve(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithCancel(context.Background())
	in, out := io.Pipe()
	status := make(chan int, 1)
	var stderr strings.Builder
	go func() {
		status <- run(ctx, append([]string{"serve"}, args...), nil, out, &stderr)
		out.Close()
	}()
	line, _ := bufio.NewReader(in).ReadString('\n')
	stopped := false
	s := ts.Value(servedKey{}).(*served)
	s.url = strings.TrimPrefix(strings.TrimSpace(line), "listening on ")
	s.stop = func() (int, string) {
		if stopped {
			return 0, ""
		}
		stopped = true
		cancel()
		trusting.CloseIdleConnections()
		return <-status, stderr.String()
	}
	ts.Defer(func() { s.stop() })
	if s.url == "" {
		_, text := s.stop()
		ts.Fatalf("serve %v: %s", args, text)
	}
}

// certificate CERT KEY writes a certificate for 127.0.0.1 that has signed itself, and its key.
func certificate(ts *testscript.TestScript, _ bool, args []string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ts.Check(err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	ts.Check(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
}

// trusting asks servers whatever their certificate says: it is of a story.
var trusting = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}

// ask STATUS METHOD PATH [BODY-FILE [TOKEN]] expects a status; the answer goes to the file
// "answer".
func ask(ts *testscript.TestScript, _ bool, args []string) {
	var body io.Reader
	if len(args) > 3 && args[3] != "-" {
		body = strings.NewReader(ts.ReadFile(args[3]))
	}
	req, err := http.NewRequest(args[1], ts.Value(servedKey{}).(*served).url+args[2], body)
	ts.Check(err)
	if len(args) > 4 {
		req.Header.Set("Authorization", "Bearer "+args[4])
	}
	resp, err := trusting.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("answer"), b, 0o600))
	if strconv.Itoa(resp.StatusCode) != args[0] {
		ts.Fatalf("%v: status %d: %s", args, resp.StatusCode, b)
	}
}

// shutdown ends the server as an interrupt does; what it wrote to standard error goes to the file
// "log".
func stop(ts *testscript.TestScript, _ bool, _ []string) {
	status, stderr := ts.Value(servedKey{}).(*served).stop()
	ts.Check(os.WriteFile(ts.MkAbs("log"), []byte(stderr), 0o600))
	if status != statusOK {
		ts.Fatalf("shutdown: status %d: %s", status, stderr)
	}
}
