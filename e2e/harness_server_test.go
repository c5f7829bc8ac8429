package e2e_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"testing"
	"time"

	"github.com/gapless-io/gapless"
)

// launched is a whole server that runs inside a test, with real sockets.
type launched struct {
	*gapless.Server

	t      testing.TB
	cancel context.CancelFunc
	ended  chan error
	over   bool
}

// launch runs a server until the test ends or stop is called. Where the
// configuration names no directory everything is in memory.
func launch(t testing.TB, cfg gapless.Config) *launched {
	t.Helper()
	cfg.Memory = cfg.Memory || cfg.DataDir == ""
	cfg.Listen = "127.0.0.1:0"
	s, err := gapless.New(cfg)
	if err != nil {
		t.Fatalf("new: %v", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	l := &launched{Server: s, t: t, cancel: cancel, ended: make(chan error, 1)}
	go func() { l.ended <- s.Run(ctx) }() // ends with ctx
	t.Cleanup(l.stop)
	select {
	case <-s.Ready():
	case err := <-l.ended:
		l.over = true
		t.Fatalf("the server has ended: %v", err)
	}
	return l
}

// stop drains the server and waits for its end.
func (l *launched) stop() {
	if l.over {
		return
	}
	l.over = true
	l.cancel()
	if err := <-l.ended; err != nil {
		l.t.Errorf("run: %v", err)
	}
}

// tlsConfig is the administrator's; every call returns a new one.
func (l *launched) tlsConfig() *tls.Config {
	l.t.Helper()
	cfg := l.RESTConfig()
	pair, err := tls.X509KeyPair(cfg.CertData, cfg.KeyData)
	if err != nil {
		l.t.Fatalf("administrator's certificate: %v", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cfg.CAData)
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{pair}}
}

func (l *launched) caller(t testing.TB, w protocol) *caller {
	t.Helper()
	protocols := &http.Protocols{}
	protocols.SetHTTP1(w == http1)
	protocols.SetHTTP2(w == http2)
	var lines connections
	transport := &http.Transport{
		TLSClientConfig: l.tlsConfig(), Protocols: protocols, DisableCompression: true, DialContext: lines.dial,
	}
	t.Cleanup(lines.close)
	t.Cleanup(transport.CloseIdleConnections)
	return &caller{t: t, base: l.URL(), http: &http.Client{Transport: transport}, wire: w}
}

// until waits for something that another process does.
func until(t testing.TB, what string, limit time.Duration, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited %v in vain until %s", limit, what)
		}
	}
}
