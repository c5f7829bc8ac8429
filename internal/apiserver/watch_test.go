package apiserver_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

func TestWatchAnswersBeforeItsFirstEvent(t *testing.T) {
	d := openServer(t, nil)
	rv := rvOf(t, d.do("GET", configMaps, "").body)
	for _, client := range []*http.Client{d.h1, d.h2} {
		s := d.open(client, configMaps+"?watch=1&resourceVersion="+rv) // returns when the headers are there
		h := s.resp.Header
		if s.resp.StatusCode != http.StatusOK || h.Get("Content-Type") != "application/json" ||
			h.Get("Cache-Control") != "no-cache, private" || h.Get("Content-Encoding") != "" {
			t.Errorf("%s: %d %v", s.resp.Proto, s.resp.StatusCode, h)
		}
		if chunked := slices.Contains(s.resp.TransferEncoding, "chunked"); chunked != (s.resp.ProtoMajor == 1) {
			t.Errorf("%s: transfer encoding %v", s.resp.Proto, s.resp.TransferEncoding)
		}
	}
}

func TestWatchSendsWritesInOrderAsProtocolFrames(t *testing.T) {
	d := openServer(t, nil)
	rv := rvOf(t, d.do("GET", configMaps, "").body)
	streams := []*stream{
		d.open(d.h1, configMaps+"?watch=1&resourceVersion="+rv),
		d.open(d.h2, configMaps+"?watch=1&resourceVersion="+rv, "Accept-Encoding: gzip"),
	}
	d.create("a", "")
	d.do("PATCH", configMaps+"/a", `{"data":{"b":"2"}}`, "Content-Type: application/merge-patch+json")
	last := strings.TrimSpace(d.do("GET", configMaps+"/a", "").body)
	d.do("DELETE", configMaps+"/a", "")
	d.create("b", "")
	one := strings.TrimSpace(d.do("GET", configMaps+"/b", "").body)
	for _, s := range streams {
		for _, want := range []string{"ADDED a", "MODIFIED a"} {
			if got := s.say(); got != want {
				t.Errorf("%s: %s, want %s", s.resp.Proto, got, want)
			}
		}
		e := s.next()
		before, after := rvOf(t, last), at(e, "object", "metadata", "resourceVersion").(string)
		if e["type"] != "DELETED" || at(e, "object", "data", "b") != "2" || after <= before {
			t.Errorf("%s: %v", s.resp.Proto, e)
		}
		if !s.lines.Scan() || s.lines.Text() != `{"type":"ADDED","object":`+one+`}` {
			t.Errorf("%s: %s\nwant the bytes of %s", s.resp.Proto, s.lines.Text(), one)
		}
	}
}

func TestWatchWithASelectorSendsTransitions(t *testing.T) {
	d := openServer(t, nil)
	s := d.open(d.h2, configMaps+"?watch=1&labelSelector=x%3D1&resourceVersion="+rvOf(t, d.do("GET", configMaps, "").body))
	n := d.open(d.h2, configMaps+"?watch=1&fieldSelector=metadata.name%3Db")
	d.create("a", `"x":"1"`)
	d.create("b", `"x":"2"`)
	for _, x := range []string{"2", "1"} {
		d.do("PATCH", configMaps+"/a", `{"metadata":{"labels":{"x":"`+x+`"}}}`, "Content-Type: application/merge-patch+json")
	}
	for _, want := range []string{"ADDED a", "DELETED a", "ADDED a"} {
		if got := s.say(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := n.say(); got != "ADDED b" {
		t.Errorf("by name: %s", got)
	}
}

func TestExpiredWatchGetsAnErrorFrameInA200(t *testing.T) {
	d := openServer(t, nil)
	old := rvOf(t, d.do("GET", configMaps, "").body)
	d.create("a", "")
	d.do("DELETE", configMaps+"/a", "")
	now := rvOf(t, d.do("GET", configMaps, "").body)
	rv, err := kube.ParseResourceVersion(now)
	if err != nil {
		t.Fatalf("parse resource version: %v", err)
	}
	if _, err := d.reg.Compact(t.Context(), store.Compaction{UpTo: int64(rv)}); err != nil {
		t.Fatalf("compact reg: %v", err)
	}
	for _, client := range []*http.Client{d.h1, d.h2} {
		for _, accept := range []string{acceptJSON, acceptTable} {
			s := d.open(client, configMaps+"?watch=1&allowWatchBookmarks=1&resourceVersion="+old, accept)
			if s.resp.StatusCode != http.StatusOK {
				t.Fatalf("%s: %d", s.resp.Proto, s.resp.StatusCode)
			}
			e := s.next()
			status, _ := e["object"].(map[string]any)
			message, _ := status["message"].(string)
			if e["type"] != "ERROR" || status["kind"] != "Status" || status["code"] != float64(410) ||
				status["reason"] != "Expired" ||
				!strings.HasPrefix(message, "too old resource version: "+old+" (") {
				t.Errorf("%s: %v", s.resp.Proto, e)
			}
			s.end()
		}
	}
	if s := d.open(d.h2, configMaps+"?watch=1&resourceVersion="+now); s.resp.StatusCode != http.StatusOK {
		t.Errorf("at the floor: %d", s.resp.StatusCode)
	}
}

func TestErrorsBeforeAWatchAreStatusesOrFrames(t *testing.T) {
	var fails error
	d := openServer(t, func(cfg *apiserver.Config) {
		cfg.Reader = &reader{
			Reader: cfg.Reader, watch: func(context.Context, wire.ListOptions) (wire.Watch, error) { return nil, fails },
		}
	})
	for _, c := range []struct {
		err  error
		want string
	}{
		{wire.TooManyRequests("storage is (re)initializing", time.Second), "429 TooManyRequests"},
		{fmt.Errorf("read: %w", &kube.TooLargeResourceVersionError{Requested: 9, Current: 7}), "200 504 Timeout"},
		{&kube.ExpiredError{Requested: 1, Oldest: 4, Kind: kube.ExpiredWatch}, "200 410 Expired"},
		{context.DeadlineExceeded, "504 Timeout"},
	} {
		fails = c.err
		s := d.open(d.h2, configMaps+"?watch=1")
		e := s.next()
		got := fmt.Sprintf("%d %v", s.resp.StatusCode, e["reason"])
		if s.resp.StatusCode == http.StatusOK {
			got = fmt.Sprintf("200 %v %v", at(e, "object", "code"), at(e, "object", "reason"))
		}
		if got != c.want || (s.resp.StatusCode == http.StatusTooManyRequests) != (s.resp.Header.Get("Retry-After") == "1") {
			t.Errorf("%v: %s, want %s; headers %v", c.err, got, c.want, s.resp.Header)
		}
		s.end()
	}
}

func TestWatchWithANegativeTimeoutEndsImmediately(t *testing.T) {
	d := openServer(t, nil)
	d.create("a", "")
	for _, client := range []*http.Client{d.h1, d.h2} {
		if a := d.by(client, "GET", configMaps+"?watch=1&timeoutSeconds=-1", ""); a.StatusCode != http.StatusOK || a.body != "" {
			t.Errorf("%s: %d %q", a.Proto, a.StatusCode, a.body)
		}
	}
}

func TestResumedWatchBehindUnselectedWritesGetsABookmark(t *testing.T) {
	d := openServer(t, nil)
	d.create("a", "")
	rv := rvOf(t, d.do("GET", configMaps, "").body)
	if a := d.do("POST",
		"/api/v1/namespaces/default/secrets",
		`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s"}}`); a.StatusCode != http.StatusCreated {
		t.Fatal(a.body)
	}
	now := rvOf(t, d.do("GET", configMaps, "").body)
	asked := d.open(d.h2, configMaps+"?watch=1&allowWatchBookmarks=true&resourceVersion="+rv)
	e := asked.next()
	if e["type"] != "BOOKMARK" || at(e, "object", "metadata", "resourceVersion") != now ||
		at(e, "object", "kind") != "ConfigMap" || at(e, "object", "metadata", "annotations") != nil {
		t.Errorf("%v, want a bookmark at %s", e, now)
	}
	// Who did not ask gets none: kubectl prints it as a row without a name.
	plain := d.open(d.h2, configMaps+"?watch=1&resourceVersion="+rv)
	initial := d.open(d.h2, configMaps+"?watch=1")
	d.create("b", "")
	if got := plain.say(); got != "ADDED b" {
		t.Errorf("without bookmarks: %s", got)
	}
	for _, want := range []string{"ADDED a", "ADDED b"} {
		if got := initial.say(); got != want {
			t.Errorf("initial events without bookmarks: %s, want %s", got, want)
		}
	}
}

func TestDrainEndsEveryWatchWithABookmark(t *testing.T) {
	d := openServer(t, nil)
	d.create("a", "")
	rv := rvOf(t, d.do("GET", configMaps, "").body)
	var asked, plain []*stream
	for _, client := range []*http.Client{d.h1, d.h2} {
		for range 3 {
			asked = append(asked, d.open(client, configMaps+"?watch=1&allowWatchBookmarks=true&resourceVersion="+rv))
			plain = append(plain, d.open(client, configMaps+"?watch=1&resourceVersion="+rv))
		}
	}
	d.create("b", "")
	for _, s := range slices.Concat(asked, plain) {
		if got := s.say(); got != "ADDED b" {
			t.Fatal(got)
		}
	}
	if a := d.do("POST",
		"/api/v1/namespaces/default/secrets",
		`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s"}}`); a.StatusCode != http.StatusCreated {
		t.Fatal(a.body)
	}
	now := rvOf(t, d.do("GET", configMaps, "").body)
	d.api.Drain()
	for _, s := range asked {
		if e := s.next(); e["type"] != "BOOKMARK" || at(e, "object", "metadata", "resourceVersion") != now {
			t.Errorf("%s: %v, want a bookmark at %s", s.resp.Proto, e, now)
		}
		s.end()
	}
	for _, s := range plain {
		s.end()
	}
	a := d.do("GET", configMaps+"?watch=1", "")
	if s := tree(t, a.body); a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("Retry-After") != "1" ||
		s["reason"] != "ServiceUnavailable" || s["message"] != "apiserver is shutting down" {
		t.Errorf("a new watch: %d %v %s", a.StatusCode, a.Header, a.body)
	}
	if a := d.do("GET", configMaps, ""); a.StatusCode != http.StatusOK {
		t.Errorf("a list: %d", a.StatusCode)
	}
}

func TestDrainWhileAWatchOpensIs503(t *testing.T) {
	begun := make(chan struct{})
	d := openServer(t, func(cfg *apiserver.Config) {
		cfg.Reader = &reader{Reader: cfg.Reader, watch: func(ctx context.Context, _ wire.ListOptions) (wire.Watch, error) {
			close(begun)
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}}
	})
	done := make(chan answer, 1)
	go func() { done <- d.do("GET", configMaps+"?watch=1", "") }() // ends with the drain
	<-begun
	d.api.Drain()
	if a := <-done; a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("Retry-After") != "1" {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}

func TestStalledReaderBlocksNobodyAndMissesNothing(t *testing.T) {
	d := openServer(t, nil)
	rv := rvOf(t, d.do("GET", configMaps, "").body)
	const objects = 200
	slow := []*stream{
		d.open(d.client(1, d.h1.Transport.(*http.Transport).TLSClientConfig.Certificates...),
			configMaps+"?watch=1&resourceVersion="+rv),
		d.open(d.client(2, d.h1.Transport.(*http.Transport).TLSClientConfig.Certificates...),
			configMaps+"?watch=1&resourceVersion="+rv),
	}
	quick := d.open(d.h2, configMaps+"?watch=1&resourceVersion="+rv)
	for i := range objects { // 8 MB: more than all buffers on the way
		body := fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"cm-%03d"},"data":{"a":"%s"}}`,
			i, strings.Repeat("x", 40<<10))
		if a := d.do("POST", configMaps, body); a.StatusCode != http.StatusCreated {
			t.Fatalf("create: %s", a.body)
		}
		if got, want := quick.say(), fmt.Sprintf("ADDED cm-%03d", i); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
	for _, s := range slow {
		for i := range objects {
			if got, want := s.say(), fmt.Sprintf("ADDED cm-%03d", i); got != want {
				t.Fatalf("%s: %s, want %s", s.resp.Proto, got, want)
			}
		}
	}
}
