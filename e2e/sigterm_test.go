//go:build linux

package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// ending is how a watch of the bystanders has ended.
type ending struct {
	how  string // "BOOKMARK@7, clean"
	when time.Time
}

// TestSIGTERMEndsAThousandWatchesWithABookmark stops the program under watchers of
// all three transports, behind whose back something was written elsewhere.
func TestSIGTERMEndsAThousandWatchesWithABookmark(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	const (
		connections = 4   // of HTTP/2, each with
		streams     = 100 // watches
		hijacked    = 400
		sockets     = 200
		limit       = 5 * time.Second // it should be two, on a machine that does nothing else
	)
	p := startProcess(t)
	h1 := p.caller(t, http1)
	path := configMaps + "?watch=1&allowWatchBookmarks=true&resourceVersion=" + h1.current()
	var ended sync.WaitGroup
	endings := make(chan ending, connections*streams+hijacked+sockets)
	follow := func(read func() (string, error)) {
		if first, err := read(); err != nil || !strings.HasPrefix(first, "ADDED default/first@") {
			t.Errorf("the first frame is %q, %v", first, err)
		}
		ended.Go(func() { // ends with the watch
			last, err := read()
			end := err
			if err == nil {
				_, end = read()
			}
			how := fmt.Sprintf("%s, %v", last, end)
			if errors.Is(end, io.EOF) || websocket.CloseStatus(end) == websocket.StatusGoingAway {
				how = last + ", clean"
			}
			endings <- ending{how, time.Now()}
		})
	}
	h1.create("default", "first", "1")
	frames := func(s *stream) func() (string, error) {
		return func() (string, error) {
			f, err := s.read()
			if err != nil {
				return "", err
			}
			return f.String(), nil
		}
	}
	for range hijacked {
		follow(frames(h1.watch(path)))
	}
	for range connections {
		h2 := p.caller(t, http2)
		for range streams {
			follow(frames(h2.watch(path)))
		}
	}
	for range sockets {
		follow(p.socket(t, h1, path))
	}
	h1.must(http.StatusCreated, http.MethodPost, "/api/v1/namespaces/default/secrets",
		`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}`)
	want := "BOOKMARK@" + h1.current() + ", clean"

	began := time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("signal process: %v", err)
	}
	ended.Wait()
	close(endings)
	last, count := began, 0
	for e := range endings {
		if e.how != want {
			t.Errorf("a watch ended with %q, want %q", e.how, want)
		}
		if e.when.After(last) {
			last = e.when
		}
		count++
	}
	p.over = true
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the program ended with %v:\n%s", err, p.log.String())
	}
	t.Logf("%d watches ended within %v; the program was gone after %v",
		count, last.Sub(began).Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	if took := last.Sub(began); took > limit {
		t.Errorf("the last watch ended after %v", took)
	}
}

// socket opens a watch over WebSocket.
func (p *process) socket(t testing.TB, by *caller, path string) func() (string, error) {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), p.url+path, &websocket.DialOptions{HTTPClient: by.http}) //nolint:bodyclose // Dial does
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	ctx := context.WithoutCancel(t.Context())
	return func() (string, error) {
		_, line, err := conn.Read(ctx)
		if err != nil {
			return "", err
		}
		f, err := (&stream{lines: bufio.NewReader(bytes.NewReader(line))}).read()
		return f.String(), err
	}
}
