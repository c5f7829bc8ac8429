package dashboard_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gapless-io/gapless"
)

// stream is an open stream of events.
type stream struct {
	body  io.ReadCloser
	lines *bufio.Scanner
	proto int
}

// follow opens one until ctx ends.
func follow(ctx context.Context, t *testing.T, p page) *stream {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/live", http.NoBody)
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	got, err := p.client.Do(r)
	if err != nil {
		t.Fatalf("follow: %v", err)
	}
	if media := got.Header.Get("Content-Type"); got.StatusCode != http.StatusOK || media != "text/event-stream" {
		t.Fatalf("follow: %s, %s", got.Status, media)
	}
	t.Cleanup(func() { _ = got.Body.Close() })
	return &stream{got.Body, bufio.NewScanner(got.Body), got.ProtoMajor}
}

// next returns the next event; false: the stream has ended.
func (s *stream) next() (string, bool) {
	for s.lines.Scan() {
		if data, is := strings.CutPrefix(s.lines.Text(), "data: "); is {
			return data, true
		}
	}
	return "", false
}

// running counts goroutines that do something for readers of a dashboard.
func running() (n int) {
	stacks := make([]byte, 8<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, "internal/dashboard.(*Dashboard)") {
			n++
		}
	}
	return n
}

// TestAStreamEndsWithItsClientAndWithTheServer waits for real changes.
func TestAStreamEndsWithItsClientAndWithTheServer(t *testing.T) {
	s, stop := runServer(t, nil)
	a, p := apiOf(t, s.RESTConfig()), pageAt(t, s.DashboardURL())
	p.shows("/")
	p.shows("/timeline")
	if n := running(); n != 0 {
		t.Errorf("while nobody looks %d goroutines run", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := follow(ctx, t, p)
	before, ok := first.next()
	if !ok {
		t.Fatalf("the stream has ended: %v", first.lines.Err())
	}
	a.send("POST", "/api/v1/namespaces", `{"metadata":{"name":"shop"}}`)
	if after, ok := first.next(); !ok || after == before {
		t.Errorf("after a change: %q, %v; before: %q", after, ok, before)
	}
	eventually(t, "one goroutine runs for the stream", func() bool { return running() == 1 })
	cancel()
	eventually(t, "nothing runs without clients", func() bool { return running() == 0 })
	second := follow(t.Context(), t, p)
	if _, ok := second.next(); !ok {
		t.Fatalf("the stream has ended: %v", second.lines.Err())
	}
	stop() // with an open stream
	if event, ok := second.next(); ok {
		t.Errorf("the server has ended, and says %q", event)
	}
}

// TestAStreamOfHTTP2StaysOpenWhileThereIsNothingToSay: net/http resets one at its deadline for writes, also if it
// writes nothing.
func TestAStreamOfHTTP2StaysOpenWhileThereIsNothingToSay(t *testing.T) {
	t.Parallel()
	s, _ := runServer(t, func(c *gapless.Config) { c.DashboardListen = "https://127.0.0.1:0" })
	a := apiOf(t, s.RESTConfig())
	stream := follow(t.Context(), t, page{t, a.client, s.DashboardURL(), http.Header{}})
	if stream.proto != 2 {
		t.Fatalf("it is HTTP/%d", stream.proto)
	}
	before, ok := stream.next()
	if !ok {
		t.Fatalf("the stream has ended: %v", stream.lines.Err())
	}
	const longer = 6 * time.Second // than the 5 s at which there may be news
	select {
	case <-time.After(longer):
	case <-t.Context().Done():
	}
	a.send("POST", "/api/v1/namespaces", `{"metadata":{"name":"shop"}}`)
	if after, ok := stream.next(); !ok || after == before {
		t.Errorf("after a change: %q, %v, %v; before: %q", after, ok, stream.lines.Err(), before)
	}
}

// TestWatchesThatExpiredAreShown makes one expire.
func TestWatchesThatExpiredAreShown(t *testing.T) {
	s, _ := runServer(t, nil)
	a, p := apiOf(t, s.RESTConfig()), pageAt(t, s.DashboardURL())
	p.shows("/watches", "No watch has got 410")
	fill(a)
	rv, err := s.ResourceVersion(t.Context())
	if err != nil {
		t.Fatalf("ask for the resourceVersion: %v", err)
	}
	if _, err := s.Compact(t.Context(), rv); err != nil {
		t.Fatalf("compact: %v", err)
	}
	const watch = "/api/v1/namespaces/shop/configmaps?watch=true&labelSelector=app%3Dweb&resourceVersion=1000000001"
	a.send("GET", watch, "")
	p.shows("/watches", "configmaps in shop", "app=web", "from 1000000001", "what came before was removed on request")
}
