package apiserver_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// streamingList is what a client asks a watch for that is to begin with the list.
const streamingList = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"

// TestOnlyStreamingListWatchesAreCompressed: upstream decides which watches are compressed in
// k8s.io/apiserver 0.37.2, handlers/get.go isListWatchRequest and handlers/watch.go
// BeginStream; here the client must have asked for a streaming list itself.
func TestOnlyStreamingListWatchesAreCompressed(t *testing.T) {
	d := openServer(t, nil)
	d.create("a", "")
	rv := rvOf(t, d.do("GET", configMaps, "").body)
	for _, c := range []struct {
		query, encoding string
		want            bool
	}{
		{streamingList, "gzip", true},
		{streamingList + "&resourceVersion=0", "gzip", true},
		{streamingList + "&resourceVersion=" + rv, "gzip", true},
		{streamingList, "deflate, gzip, br", true}, // of browsers and node
		{streamingList, "identity", false},         // of Python
		{streamingList, "gzip;q=0", false},
		{"&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", "gzip", false}, // no bookmark marks the list's end
		{"&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", "gzip", false},
		{"&allowWatchBookmarks=true", "gzip", false}, // begins with the state, unasked
		{"&allowWatchBookmarks=true&resourceVersion=0", "gzip", false},
		{"", "gzip", false},
		{"&allowWatchBookmarks=true&resourceVersion=" + rv, "gzip", false}, // a plain watch
		{"&resourceVersion=" + rv, "gzip", false},
	} {
		for _, client := range []*http.Client{d.h1, d.h2} {
			s := d.open(client, configMaps+"?watch=1"+c.query, "Accept-Encoding: "+c.encoding)
			h := s.resp.Header
			if zipped := h.Get("Content-Encoding") == "gzip"; zipped != c.want ||
				zipped != (h.Get("Vary") == "Accept-Encoding") || h.Get("Content-Type") != "application/json" {
				t.Errorf("%s, %s, %q: %v", s.resp.Proto, c.encoding, c.query, h)
			}
			s.stop()
		}
	}
}

func TestCompressedStreamingListCanBeReadWhileItArrives(t *testing.T) {
	var s *script
	d := openServer(t, func(cfg *apiserver.Config) {
		cfg.Reader = &reader{
			Reader: cfg.Reader, watch: func(context.Context, wire.ListOptions) (wire.Watch, error) { return s, nil },
		}
	})
	for _, client := range []*http.Client{d.h1, d.h2} {
		s = newScript(0)
		w := d.open(client, configMaps+"?watch=1"+streamingList, "Accept-Encoding: gzip")
		if w.resp.Header.Get("Content-Encoding") != "gzip" {
			t.Fatalf("%s: %v", w.resp.Proto, w.resp.Header)
		}
		s.events <- []wire.WatchEvent{added(t, "a", 5, 100<<10), added(t, "b", 3, 10)}
		// A reader gets all of what was flushed, and all of it is one member.
		z, err := gzip.NewReader(bufio.NewReader(w.resp.Body))
		if err != nil {
			t.Fatalf("make a reader: %v", err)
		}
		z.Multistream(false)
		lines := &stream{t: t, lines: bufio.NewScanner(z)}
		lines.lines.Buffer(nil, 1<<20)
		want := []string{"ADDED a", "ADDED b"}
		for i := range 5 {
			for _, name := range want {
				if got := lines.say(); got != name {
					t.Fatalf("%s: %s, want %s", w.resp.Proto, got, name)
				}
			}
			// What comes next was not sent before the last was read.
			rv := kube.ResourceVersion(10 + i)
			if i == 0 {
				s.events <- []wire.WatchEvent{{Type: kube.InitialEventsEnd, ResourceVersion: rv}}
				want = []string{"BOOKMARK"}
				continue
			}
			s.events <- []wire.WatchEvent{added(t, fmt.Sprint("c", i), rv, 10)}
			want = []string{fmt.Sprint("ADDED c", i)}
		}
		w.stop()
	}
}

// An HTTP/1.1 watch has its connection for itself, and says so.
func TestWatchIsChunkedOverHTTP11AndPlainOverHTTP10(t *testing.T) {
	d := openServer(t, nil)
	rv := rvOf(t, d.do("GET", configMaps, "").body)
	d.create("a", "")
	line := `{"type":"ADDED","object":` + strings.TrimSpace(d.do("GET", configMaps+"/a", "").body) + "}\n"
	cases := []struct{ version, extra, want string }{
		{"1.1", "", "chunked"},
		{"1.1", "Connection: keep-alive\r\n", "chunked"},
		{"1.0", "", "plain"},
		{"1.0", "Connection: keep-alive\r\n", "plain"},
	}
	var answers []*bufio.Reader
	for _, c := range cases {
		_, from := d.raw("GET "+configMaps+"?watch=1&timeoutSeconds=1&resourceVersion="+rv+" HTTP/"+c.version, c.extra)
		answers = append(answers, from)
	}
	for i, c := range cases {
		resp := answerOf(t, answers[i])
		if !resp.Close || resp.ContentLength >= 0 {
			t.Errorf("HTTP/%s: close %v, length %d", c.version, resp.Close, resp.ContentLength)
		}
		got := "plain"
		if len(resp.TransferEncoding) == 1 {
			got = resp.TransferEncoding[0]
		}
		body, err := io.ReadAll(resp.Body)
		if got != c.want || string(body) != line || err != nil {
			t.Errorf("HTTP/%s: %s %q, %v; want %s", c.version, got, body, err, c.want)
		}
		if rest, err := io.ReadAll(answers[i]); len(rest) > 0 || err != nil {
			t.Errorf("HTTP/%s: after the end %q, %v", c.version, rest, err)
		}
	}
}

func TestLargeObjectsAndBatchesAreCompleteInChunks(t *testing.T) {
	s := newScript(7)
	d := openServer(t, func(cfg *apiserver.Config) {
		cfg.Reader = &reader{
			Reader: cfg.Reader, watch: func(context.Context, wire.ListOptions) (wire.Watch, error) { return s, nil },
		}
	})
	_, from := d.raw("GET "+configMaps+"?watch=1&resourceVersion=7 HTTP/1.1", "")
	answerOf(t, from) // does not read ahead of the header but into from
	batch := []wire.WatchEvent{added(t, "large", 8, 3<<20)}
	for i := range 2000 {
		batch = append(batch, added(t, fmt.Sprint("small-", i), kube.ResourceVersion(9+i), 10))
	}
	s.events <- batch
	lines := &stream{t: t, lines: bufio.NewScanner(httputil.NewChunkedReader(from))}
	lines.lines.Buffer(nil, 4<<20)
	for i := range batch {
		if got, want := lines.say(), "ADDED "+batch[i].Object.Key().Name; got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
	s.fails <- io.EOF // it is taken when all is written
	lines.end()
}

// net/http answers 200 for a ServeHTTP that returns and has written nothing.
func TestARequestCanceledBeforeItBeginsIsAborted(t *testing.T) {
	d := openServer(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	rec := httptest.NewRecorder()
	defer func() {
		if cause := recover(); cause != http.ErrAbortHandler { //nolint:errorlint // net/http compares it so
			t.Errorf("panic %v, want ErrAbortHandler", cause)
		}
		if rec.Body.Len() > 0 || len(rec.Header()) > 0 {
			t.Errorf("answered %q with %v", rec.Body, rec.Header())
		}
	}()
	d.api.ServeHTTP(rec, httptest.NewRequestWithContext(ctx, http.MethodGet, configMaps, http.NoBody))
	t.Error("it was answered")
}
