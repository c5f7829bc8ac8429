package processtest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gapless-io/gapless/kube"
)

// Watch is a watch that is open. The fields are those of package gapless.
type Watch struct {
	User      string `json:"user"`
	UserAgent string `json:"userAgent"`
	Resource  string `json:"resource"`  // "pods", or "deployments.apps"
	Namespace string `json:"namespace"` // "": all, or the resource has none
	// LabelSelector and FieldSelector are as the client wrote them.
	LabelSelector string    `json:"labelSelector"`
	FieldSelector string    `json:"fieldSelector"`
	Since         time.Time `json:"since"`
	// From is the resourceVersion that the client named; 0 if it named none.
	From kube.ResourceVersion `json:"from"`
	// Delivered counts the events that were sent, without bookmarks.
	Delivered uint64 `json:"delivered"`
	// Known is the last resourceVersion that was sent, by an event or a bookmark.
	Known kube.ResourceVersion `json:"known"`
	// Behind is how many revisions the store was ahead of Known while events were being sent;
	// 0 for a watch that waits for changes.
	Behind uint64 `json:"behind"`
}

// Watches returns the watches that are open, the oldest first.
func (s *Server) Watches(t testing.TB) []Watch {
	t.Helper()
	open, err := s.watches(t.Context())
	if err != nil {
		t.Fatalf("processtest: read the open watches: %v", err)
	}
	return open
}

func (s *Server) watches(ctx context.Context) ([]Watch, error) {
	var all struct {
		Watches []Watch `json:"watches"`
	}
	err := s.current().get(ctx, callsPath+"watches", &all)
	return all.Watches, err
}

// ReportOnFailure logs the last requests and the open watches of a shared server if the test
// fails. Servers of New do so by themselves.
func (s *Server) ReportOnFailure(t testing.TB) {
	t.Helper()
	t.Cleanup(func() { s.report(t) })
}

// report logs what the server saw, if the test has failed.
func (s *Server) report(t testing.TB) {
	t.Helper()
	if !t.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, askWithin)
	defer cancel()
	var b strings.Builder
	open, err := s.watches(ctx)
	if err != nil {
		fmt.Fprintf(&b, "\twhich watches are open is not known: %v\n", err)
	}
	for _, w := range open {
		fmt.Fprintf(&b, "\ta watch of %s by %s (%s), for %v, from %d: %d events up to %d\n", w.Resource, w.User, w.UserAgent,
			time.Since(w.Since).Round(time.Millisecond), w.From, w.Delivered, w.Known)
	}
	var faults faultsAnswer
	if err := s.current().get(ctx, faultsPath, &faults); err == nil {
		for _, f := range faults.Rules {
			fmt.Fprintf(&b, "\tthe fault %s: %d requests fit, applied to %d; %s\n", f.Name, f.Matched, f.Acted, f.Problem)
		}
	}
	t.Logf("processtest: the server's state, and the end of its log:\n%s%s", b.String(), s.log.last(logLines))
}

const (
	// logLines is how many lines of the server's log are shown.
	logLines = 40
	// keptLines is how many are kept.
	keptLines = 200
)

// tail keeps the last lines of a log. It is safe for concurrent use.
type tail struct {
	mu    sync.Mutex
	lines [][]byte
	begun []byte // a line that has not ended
}

// Write implements io.Writer.
func (l *tail) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(text)
	for {
		line, rest, ended := bytes.Cut(text, []byte("\n"))
		if !ended {
			l.begun = append(l.begun, line...)
			return n, nil
		}
		l.lines = append(l.lines, append(l.begun, line...))
		l.begun, text = nil, rest
		if len(l.lines) > keptLines {
			l.lines = append([][]byte(nil), l.lines[len(l.lines)-keptLines/2:]...)
		}
	}
}

// last returns the last lines.
func (l *tail) last(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(bytes.Join(l.lines[max(0, len(l.lines)-n):], []byte("\n"))) + "\n" + string(l.begun)
}
