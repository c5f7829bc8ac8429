package pass_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gapless-io/gapless/internal/relay/pass"
)

// framed is an event in protobuf.
func framed(text string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(text)))) + text //nolint:gosec // a test's texts are short
}

// TestAPassedWatchEndsBehindAnEvent stops the relay while upstream has sent some bytes, and sends more then.
func TestAPassedWatchEndsBehindAnEvent(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const first, second = `{"type":"ADDED","object":{"a":"}{\"","b":[1]}}` + "\n", `{"type":"DELETED","object":{"n":1}}` + "\n"
	const watch = "/api/v1/configmaps?watch=true"
	for name, c := range map[string]struct {
		path, kind, before, after, want string
		broken                          bool // the answer does not look complete
	}{
		"between events":   {watch, "application/json", first, "", first, false},
		"before the first": {watch, "application/json;stream=watch", "", "", "", false},
		"in an event":      {watch, "application/json", first + second[:20], second[20:] + first[:7], first + second, false},
		"in a text":        {"/apis/apps/v1/watch/deployments", "application/json", first[:37], first[37:], first, false},
		"in the last byte": {watch, "application/json", first[:len(first)-2], first[len(first)-2:], first, false},
		"in a message": {
			watch, "application/vnd.kubernetes.protobuf;stream=watch", framed("first") + framed("second")[:7],
			framed("second")[7:] + framed("third")[:5], framed("first") + framed("second"), false,
		},
		"in its length": {
			watch, "application/vnd.kubernetes.protobuf;stream=watch", framed("first") + framed("second")[:3],
			framed("second")[3:], framed("first") + framed("second"), false,
		},
		"between messages": {
			watch, "application/vnd.kubernetes.protobuf;stream=watch", framed("first"), "", framed("first"), false,
		},
		"an event that hangs":  {watch, "application/json", first + second[:20], "", first + second[:20], true},
		"in another form":      {watch, "application/cbor-seq", "x", "", "x", true},
		"a log":                {"/api/v1/namespaces/a/pods/b/log?follow=true", "text/plain", "line\n", "", "line\n", true},
		"through a proxy path": {"/api/v1/namespaces/a/services/b/proxy/stream", "text/plain", "line\n", "", "line\n", true},
		"indented": {
			watch + "&pretty=1", "application/json", "{\n  \"a\": {\n", "  }\n}\n{", "{\n  \"a\": {\n  }\n}\n", false,
		},
	} {
		for _, proto := range []string{"HTTP/1.1", "HTTP/2"} {
			t.Run(name+", "+proto, func(t *testing.T) {
				drained := make(chan struct{})
				_, cfg := foreign(t, func(w http.ResponseWriter, r *http.Request) {
					if r.URL.RequestURI() != c.path {
						return
					}
					flush := http.NewResponseController(w).Flush
					w.Header().Set("Content-Type", c.kind)
					_, _ = io.WriteString(w, c.before)
					_ = flush()
					<-drained
					_, _ = io.WriteString(w, c.after)
					_ = flush()
					<-r.Context().Done()
				})
				h, front := inFront(t, pass.Config{Upstream: cfg})
				resp, err := send(t, front.Client(t, proto), "GET "+front.URL+c.path, nil)
				if err != nil {
					t.Fatalf("send: %v", err)
				}
				defer func() { _ = resp.Body.Close() }()
				got := make([]byte, len(c.before))
				if _, err := io.ReadFull(resp.Body, got); err != nil {
					t.Fatalf("read: %v", err)
				}
				began := time.Now()
				h.Drain()
				close(drained)
				rest, err := io.ReadAll(resp.Body)
				if got := string(got) + string(rest); got != c.want || (err != nil) != c.broken {
					t.Errorf("the client has %q, %v, want %q", got, err, c.want)
				}
				limited, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				if err := h.Wait(limited); err != nil {
					t.Errorf("%v after %s", err, time.Since(began))
				}
				// Others go on, and new ones that would last are refused.
				if resp := get(t, front.Client(t, proto), "GET "+front.URL+"/api/v1/namespaces/a/pods/b/log",
					""); resp.code != http.StatusOK {
					t.Errorf("another request is answered %d %s", resp.code, resp.body)
				}
				if resp := get(t, front.Client(t, proto), "GET "+front.URL+c.path,
					""); resp.code != http.StatusServiceUnavailable || resp.header.Get("Retry-After") != "1" {
					t.Errorf("a new one is answered %d %s", resp.code, resp.body)
				}
			})
		}
	}
}

// TestOnlyWhatLastsEndsWithTheRelay lists requests of which the relay says, while it stops, that they are
// refused.
func TestOnlyWhatLastsEndsWithTheRelay(t *testing.T) {
	_, cfg := foreign(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	h, front := inFront(t, pass.Config{Upstream: cfg})
	h.Drain()
	if err := h.Wait(t.Context()); err != nil {
		t.Fatalf("wait: %v", err)
	}
	for request, lasts := range map[string]bool{
		"GET /api/v1/pods?watch=1": true, "GET /api/v1/pods?watch=true&x=%zz": true, "GET /api/v1/pods?watch": false,
		"GET /api/v1/pods?watch=0":     false,
		"GET /api/v1/pods?watch=False": false, "GET /api/v1/pods?watch=yes": true, // upstream takes it for true
		"GET /api/v1/watch/pods": true, "GET /apis/apps/v1/watch/deployments": true, "GET /api/v1/namespaces/watch": false,
		"GET /apis/watch/v1/pods":   false,
		"POST /api/v1/pods?watch=1": false, "GET /version?watch=1": false, "GET /": false, "GET /apis": false,
		"GET /api/v1": false,
		"GET /api/v1/namespaces/a/pods/b/log?follow=1": true, "GET /api/v1/namespaces/a/pods/b/log": false,
		"GET /api/v1/namespaces/a/pods/log?follow=true": true,
		"POST /api/v1/nodes/a/proxy/run":                true, "GET /api/v1/namespaces/a/pods/b/proxy": true,
	} {
		method, path, _ := strings.Cut(request, " ")
		resp := get(t, front.Client(t, "HTTP/2"), method+" "+front.URL+path, "")
		if refused := resp.code == http.StatusServiceUnavailable; refused != lasts || !refused && resp.body != "ok" {
			t.Errorf("%s: %d %s, want refused: %v", request, resp.code, resp.body, lasts)
		}
	}
}
