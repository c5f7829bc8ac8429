package wire_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/bench/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// big is more than the windows with which a connection begins.
const big = 9 << 20

// serve starts a server that does what its paths say.
func serve(t *testing.T) wire.Target {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/length", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "5")
		_, _ = io.WriteString(w, "hello")
	})
	mux.HandleFunc("/big", func(w http.ResponseWriter, _ *http.Request) {
		line := strings.Repeat("x", 1023) + "\n"
		for range big / 1024 {
			_, _ = io.WriteString(w, line)
		}
	})
	mux.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "some")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	mux.HandleFunc("/refuse", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such thing", http.StatusTeapot) })
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s %s %s ", r.Method, r.URL.RawQuery, r.Header.Get("Authorization"), r.Header.Get("Content-Type"))
		_, _ = io.Copy(w, r.Body)
	})
	mux.HandleFunc("/accept", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.Join(r.Header["Accept"], " and "))
	})
	mux.HandleFunc("/gzip", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip" {
			_, _ = io.WriteString(w, "plain")
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, "packed")
		_ = z.Close()
	})
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, "tick\n")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
			case <-time.After(time.Millisecond):
			}
		}
	})
	s := httptest.NewUnstartedServer(mux)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = nil
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return wire.Target{
		Address: s.Listener.Addr().String(), Token: "secret", TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}
}

func dial(t *testing.T, target wire.Target, p wire.Protocol) wire.Conn {
	t.Helper()
	c, err := target.Dial(t.Context(), p)
	if err != nil {
		t.Fatalf("dial target: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}

func both(t *testing.T, test func(t *testing.T, target wire.Target, p wire.Protocol)) {
	t.Helper()
	target := serve(t)
	for _, p := range []wire.Protocol{wire.HTTP1, wire.HTTP2} {
		t.Run(p.String(), func(t *testing.T) { test(t, target, p) })
	}
}

func TestBodiesArriveWhole(t *testing.T) {
	both(t, func(t *testing.T, target wire.Target, p wire.Protocol) {
		c := dial(t, target, p)
		for _, tc := range []struct {
			path string
			want int
		}{{"/length", 5}, {"/big", big}, {"/length", 5}} { // the connection can be used again
			var got bytes.Buffer
			opened := 0
			resp, err := c.Do(wire.Request{Path: tc.path, Opened: func() { opened++ }}, &got)
			if err != nil {
				t.Fatalf("send a request: %v", err)
			}
			if resp.Status != 200 || resp.Bytes != int64(tc.want) || got.Len() != tc.want || opened != 1 {
				t.Errorf("%s: %+v, %d bytes, opened %d times; want %d bytes", tc.path, resp, got.Len(), opened, tc.want)
			}
		}
	})
}

func TestTruncatedBodyIsAnError(t *testing.T) {
	both(t, func(t *testing.T, target wire.Target, p wire.Protocol) {
		c := dial(t, target, p)
		var got bytes.Buffer
		if _, err := c.Do(wire.Request{Path: "/cut"}, &got); err == nil || got.String() != "some" {
			t.Errorf("err %v, body %q", err, got.String())
		}
		if p == wire.HTTP1 != c.Broken() {
			t.Errorf("broken: %t", c.Broken())
		}
	})
}

func TestRefusalIsAStatusError(t *testing.T) {
	both(t, func(t *testing.T, target wire.Target, p wire.Protocol) {
		c := dial(t, target, p)
		_, err := c.Do(wire.Request{Path: "/refuse", Opened: func() { t.Error("opened") }}, io.Discard)
		refused, ok := errors.AsType[*wire.StatusError](err)
		if !ok || refused.Status != http.StatusTeapot || !strings.Contains(string(refused.Body), "no such thing") {
			t.Errorf("err %v", err)
		}
		if _, err := c.Do(wire.Request{Path: "/length"}, io.Discard); err != nil {
			t.Errorf("after a refusal: %v", err)
		}
	})
}

func TestWriterThatStopsEndsTheRequest(t *testing.T) {
	both(t, func(t *testing.T, target wire.Target, p wire.Protocol) {
		c := dial(t, target, p)
		if _, err := c.Do(wire.Request{Path: "/endless"}, stopper{}); err != nil {
			t.Errorf("err %v", err)
		}
		_, err := c.Do(wire.Request{Path: "/length"}, io.Discard)
		if p == wire.HTTP2 && err != nil || p == wire.HTTP1 && err == nil {
			t.Errorf("the next request over %v: %v", p, err)
		}
	})
}

type stopper struct{}

func (stopper) Write([]byte) (int, error) { return 0, wire.ErrStop }

func TestCloseEndsRequestsInFlight(t *testing.T) {
	both(t, func(t *testing.T, target wire.Target, p wire.Protocol) {
		c, opened, done := dial(t, target, p), make(chan struct{}), make(chan error, 1)
		go func() {
			_, err := c.Do(wire.Request{Path: "/endless", Opened: func() { close(opened) }}, io.Discard)
			done <- err
		}()
		<-opened
		c.Close()
		if err := <-done; err == nil {
			t.Error("the request ended without an error")
		}
	})
}

func TestRequestsHaveMethodQueryTokenAndBody(t *testing.T) {
	target := serve(t)
	var got bytes.Buffer
	if _, err := dial(t, target, wire.HTTP1).Do(wire.Request{Method: "PUT", Path: "/echo?a=b", Body: []byte("content")},
		&got); err != nil {
		t.Fatalf("send a request: %v", err)
	}
	if want := "PUT a=b Bearer secret application/json content"; got.String() != want {
		t.Errorf("%q instead of %q", got.String(), want)
	}
	got.Reset()
	if _, err := dial(t, target, wire.HTTP2).Do(wire.Request{Path: "/echo?a=b"}, &got); err != nil {
		t.Fatalf("send a request: %v", err)
	}
	if want := "GET a=b Bearer secret  "; got.String() != want {
		t.Errorf("%q instead of %q", got.String(), want)
	}
}

func TestOneMediaTypeIsAskedFor(t *testing.T) {
	both(t, func(t *testing.T, target wire.Target, p wire.Protocol) {
		c := dial(t, target, p)
		for accept, want := range map[string]string{
			"": "application/json", "application/json;as=Table": "application/json;as=Table",
		} {
			var got bytes.Buffer
			if _, err := c.Do(wire.Request{Path: "/accept", Accept: accept}, &got); err != nil || got.String() != want {
				t.Errorf("%q: the server got %q, %v", accept, got.String(), err)
			}
		}
	})
}

func TestGzipIsReturnedCompressed(t *testing.T) {
	both(t, func(t *testing.T, target wire.Target, p wire.Protocol) {
		c := dial(t, target, p)
		var got bytes.Buffer
		resp, err := c.Do(wire.Request{Path: "/gzip", Gzip: true}, &got)
		if err != nil || !resp.Gzip {
			t.Fatalf("%+v, %v", resp, err)
		}
		z, err := gzip.NewReader(&got)
		if err != nil {
			t.Fatalf("make a reader: %v", err)
		}
		if text, err := io.ReadAll(z); err != nil || string(text) != "packed" {
			t.Errorf("%q, %v", text, err)
		}
		if resp, err := c.Do(wire.Request{Path: "/gzip"}, io.Discard); err != nil || resp.Gzip {
			t.Errorf("unasked: %+v, %v", resp, err)
		}
	})
}

func TestManyStreamsShareAConnection(t *testing.T) {
	c := dial(t, serve(t), wire.HTTP2)
	const n = 8
	errs := make(chan error, n)
	for range n {
		go func() {
			var got bytes.Buffer
			resp, err := c.Do(wire.Request{Path: "/big"}, &got)
			if err == nil && (resp.Bytes != big || bytes.Count(got.Bytes(), []byte("\n")) != big/1024) {
				err = fmt.Errorf("%d bytes", resp.Bytes)
			}
			errs <- err
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Errorf("wait for the end: %v", err)
		}
	}
}

func TestMissingServerIsAnError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := serve(t).Dial(ctx, wire.HTTP1); err == nil {
		t.Error("no error")
	}
}

func TestLoopReadsManyStreams(t *testing.T) {
	l, err := wire.NewLoop(serve(t))
	if err != nil {
		t.Fatalf("make a loop: %v", err)
	}
	const n = 20
	type result struct {
		path string
		got  bytes.Buffer
		err  chan error
	}
	all := make([]*result, n)
	for i := range all {
		r := &result{path: []string{"/big", "/cut"}[i%2], err: make(chan error, 1)}
		all[i] = r
		if err := l.Start(t.Context(), wire.Request{Path: r.path}, &r.got, func(err error) { r.err <- err }); err != nil {
			r.err <- err
		}
	}
	for _, r := range all {
		switch err := <-r.err; {
		case r.path == "/big" && (err != nil || r.got.Len() != big):
			t.Errorf("%s: %d bytes, %v", r.path, r.got.Len(), err)
		case r.path == "/cut" && (err == nil || r.got.String() != "some"):
			t.Errorf("%s: %q, %v", r.path, r.got.String(), err)
		}
	}
	refused := l.Start(t.Context(), wire.Request{Path: "/refuse"}, io.Discard, func(error) { t.Error("done was called") })
	if e, ok := errors.AsType[*wire.StatusError](refused); !ok || e.Status != http.StatusTeapot {
		t.Errorf("refused: %v", refused)
	}
	stopped, endless := make(chan error, 1), make(chan error, 1)
	if err := l.Start(t.Context(), wire.Request{Path: "/endless"}, stopper{}, func(err error) { stopped <- err }); err != nil {
		t.Errorf("start: %v", err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("stopped: %v", err)
	}
	if err := l.Start(t.Context(), wire.Request{Path: "/endless"}, io.Discard, func(err error) { endless <- err }); err != nil {
		t.Errorf("start: %v", err)
	}
	l.Close()
	if err := <-endless; err == nil {
		t.Error("a stream that Close ended has no error")
	}
	if err := l.Start(t.Context(), wire.Request{Path: "/endless"}, io.Discard, func(error) {}); err == nil {
		t.Error("a closed loop starts a stream")
	}
}
