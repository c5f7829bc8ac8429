package serve_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/apiserver/limit"
	"github.com/gapless-io/gapless/internal/apiserver/pipetest"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/serve"
)

// deaf is the connection of a client that can stop reading it.
type deaf struct {
	net.Conn

	stalled atomic.Bool
	closed  chan struct{}
	once    sync.Once
}

func (d *deaf) Read(p []byte) (int, error) {
	if d.stalled.Load() {
		<-d.closed
	}
	return d.Conn.Read(p)
}

func (d *deaf) Close() error {
	d.once.Do(func() { close(d.closed) })
	return d.Conn.Close()
}

// backups is a server of HTTP/2 in a bubble, whose callers are administrators, and a client.
type backups struct {
	client *http.Transport
	last   *deaf      // the last connection
	ended  chan error // of each backup
}

// newBackups runs a server that takes one request at a time. Its first backup has no end, the others are empty.
func newBackups(t *testing.T) *backups {
	t.Helper()
	b := &backups{ended: make(chan error, 2)}
	var first sync.Once
	api := apiserver.New(t.Context(), apiserver.Config{
		Live: kinds.NewLive(builtin.Catalog()), Limits: limit.Requests{Writing: 1},
		Backup: func(_ context.Context, _ apiserver.Backup, to io.Writer) error {
			_, err := to.Write([]byte("x"))
			first.Do(func() {
				for err == nil {
					_, err = to.Write(make([]byte, 1<<20))
				}
			})
			b.ended <- err
			return err
		},
	})
	admin := &x509.Certificate{Subject: pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}}}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{admin}}}
		api.ServeHTTP(w, r)
	})
	web := serve.WebServer(handler, func() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS13} }, 100,
		slog.New(slog.DiscardHandler))
	web.TLSConfig, web.Protocols = nil, new(http.Protocols)
	web.Protocols.SetUnencryptedHTTP2(true)
	listener := pipetest.New()
	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }() // ends with Close
	b.client = &http.Transport{
		Protocols: web.Protocols,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			mine, err := listener.Dial()
			if err != nil {
				return nil, err
			}
			b.last = &deaf{Conn: mine, closed: make(chan struct{})}
			return b.last, nil
		},
	}
	t.Cleanup(func() {
		b.client.CloseIdleConnections()
		if err := web.Close(); err != nil {
			t.Errorf("close the server: %v", err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
		synctest.Wait()
	})
	return b
}

// ask asks for a backup, and returns the answer once its head has come.
func (b *backups) ask(t *testing.T) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://server/gapless/v1/backup",
		strings.NewReader("{}"))
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := b.client.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 {
		t.Fatalf("ask for a backup: %+v, %v", resp, err)
	}
	return resp
}

// TestABackupEndsWithAClientOfHTTP2ThatStopsReading: its stream only, or its whole connection. What the backup held
// is free then.
func TestABackupEndsWithAClientOfHTTP2ThatStopsReading(t *testing.T) {
	for _, whole := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBackups(t)
			began := time.Now()
			stalled := b.ask(t)
			b.last.stalled.Store(whole)
			select {
			case err := <-b.ended:
				if err == nil || time.Since(began) > 2*time.Minute {
					t.Errorf("its whole connection (%t): the backup ends after %v: %v", whole, time.Since(began), err)
				}
			case <-time.After(10 * time.Minute):
				t.Fatalf("its whole connection (%t): the backup does not end", whole)
			}
			if err := stalled.Body.Close(); err != nil {
				t.Errorf("end the request: %v", err)
			}
			if whole {
				_ = b.last.Close()
				synctest.Wait() // the transport does not use it any more
			}
			next := b.ask(t)
			if body, err := io.ReadAll(next.Body); err != nil || string(body) != "x" {
				t.Errorf("its whole connection (%t): the next backup is %q, %v", whole, body, err)
			}
			if err := errors.Join(<-b.ended, next.Body.Close()); err != nil {
				t.Errorf("the next backup: %v", err)
			}
		})
	}
}
