package pass_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gapless-io/gapless/internal/relay/pass"
	"github.com/gapless-io/gapless/internal/relay/relaytest"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

const (
	jsonWatch     = "application/json"
	protobufWatch = "application/vnd.kubernetes.protobuf;stream=watch"
)

// framedEvent returns an event of protobuf with its length.
func framedEvent(t *testing.T, event metav1.WatchEvent) string {
	t.Helper()
	body, err := event.Marshal()
	if err != nil {
		t.Fatalf("marshal event: %v", err)
	}
	return framed(string(body))
}

// watching is a server whose watch a test writes, behind a handler that ends it when over is closed.
type watching struct {
	front  *relaytest.Front
	header http.Header
	parts  chan string // what upstream sends; "" begins the answer
	over   chan struct{}
}

func newWatching(t *testing.T, header http.Header) *watching {
	t.Helper()
	w := &watching{header: header, parts: make(chan string), over: make(chan struct{})}
	_, cfg := foreign(t, func(out http.ResponseWriter, r *http.Request) {
		for {
			select {
			case part := <-w.parts:
				maps.Copy(out.Header(), w.header)
				_, _ = io.WriteString(out, part) // the relay may have left
				_ = http.NewResponseController(out).Flush()
			case <-r.Context().Done():
				return
			}
		}
	})
	h, _ := inFront(t, pass.Config{Upstream: cfg})
	w.front = relaytest.Serve(t, http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		h.ServeWatch(out, r, pass.Ending{Ended: w.over, Why: func() error {
			return &kube.ExpiredError{Requested: 210, Oldest: 7, Reason: kube.ReasonReplaced, Kind: kube.ExpiredWatch}
		}})
	}), nil, nil)
	return w
}

// begin opens the watch, of which upstream sends a part. The caller closes the body.
func (w *watching) begin(t *testing.T, proto, part string) *http.Response {
	t.Helper()
	sent := make(chan struct{})
	go func() { // this call waits for it
		defer close(sent)
		w.parts <- part
	}()
	defer func() { <-sent }()
	resp, err := send(t, w.front.Client(t, proto), "GET "+w.front.URL, nil)
	if err != nil {
		t.Fatalf("send: %v", err)
	}
	return resp
}

// read reads n bytes.
func read(t *testing.T, from io.Reader, n int) string {
	t.Helper()
	got := make([]byte, n)
	if _, err := io.ReadFull(from, got); err != nil {
		t.Fatalf("after %q: %v", got, err)
	}
	return string(got)
}

// isReplaced checks that a Status is 410 because upstream's history is another one.
func isReplaced(t *testing.T, status metav1.Status) {
	t.Helper()
	why := kube.WhyExpired(&wire.StatusError{ErrStatus: status})
	if status.Code != http.StatusGone || why == nil || why.Reason != kube.ReasonReplaced {
		t.Errorf("the status is %+v, want 410 because the history was replaced", status)
	}
}

// TestAWatchThatIsPassedOnEndsBetweenTwoEvents: with an error as the last event, whatever of the one before
// is on its way.
func TestAWatchThatIsPassedOnEndsBetweenTwoEvents(t *testing.T) {
	first := framedEvent(t, metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: []byte("k8s\x00one")}})
	for _, c := range []struct{ name, media, event string }{
		{"JSON", jsonWatch, `{"type":"ADDED","object":{"kind":"ConfigMap"}}` + "\n"},
		{"indented", jsonWatch, "{\n  \"type\": \"ADDED\",\n  \"object\": {}\n}\n"}, // cut behind a line break, too
		{"protobuf", protobufWatch, first},
	} {
		for _, proto := range []string{"HTTP/1.1", "HTTP/2"} {
			for within := range 3 { // of the event: nothing, a part of its length, most of it
				t.Run(strings.Join([]string{c.name, proto, []string{"between", "at its beginning", "within"}[within]}, ", "),
					func(t *testing.T) {
						w := newWatching(t, http.Header{"Content-Type": {c.media}})
						cut := []int{0, 2, len(c.event) - 3}[within]
						resp := w.begin(t, proto, c.event+c.event[:cut])
						defer func() { _ = resp.Body.Close() }()
						if got := read(t, resp.Body, len(c.event)+cut); got != c.event+c.event[:cut] {
							t.Errorf("the watch begins with %q", got)
						}
						close(w.over)
						if cut > 0 {
							w.parts <- c.event[cut:] + c.event // the last one is of the other history
							if got := read(t, resp.Body, len(c.event)-cut); got != c.event[cut:] {
								t.Errorf("the event ends with %q", got)
							}
						}
						rest, err := io.ReadAll(resp.Body)
						if err != nil {
							t.Errorf("the watch ends with %v, want a complete answer", err)
						}
						rest, _ = bytes.CutPrefix(rest, []byte(c.event)) // it may have come before the end did
						isReplaced(t, lastStatus(t, c.media, rest))
					})
			}
		}
	}
}

// lastStatus returns the Status in the event that rest is.
func lastStatus(t *testing.T, media string, rest []byte) metav1.Status {
	t.Helper()
	var event metav1.WatchEvent
	var status metav1.Status
	if media == jsonWatch {
		if err := json.Unmarshal(rest, &event); err != nil {
			t.Fatalf("the rest is %q: %v", rest, err)
		}
		if err := json.Unmarshal(event.Object.Raw, &status); err != nil {
			t.Fatalf("decode JSON: %v", err)
		}
		return status
	}
	var unknown runtime.Unknown
	if err := event.Unmarshal(rest[4:]); err != nil {
		t.Fatalf("the rest is %q: %v", rest, err)
	}
	if diff := cmp.Diff(len(rest)-4, int(binary.BigEndian.Uint32(rest))); diff != "" || event.Type != "ERROR" {
		t.Errorf("the event is %+v of %d bytes", event, len(rest))
	}
	object, is := bytes.CutPrefix(event.Object.Raw, []byte("k8s\x00"))
	if err := errors.Join(unknown.Unmarshal(object), status.Unmarshal(unknown.Raw)); err != nil || !is ||
		unknown.Kind != "Status" {
		t.Fatalf("%q: %+v, %v", object, unknown, err)
	}
	return status
}

// TestAWatchThatEndsBeforeItsAnswerIs410 has an upstream that does not answer.
func TestAWatchThatEndsBeforeItsAnswerIs410(t *testing.T) {
	w := newWatching(t, nil)
	close(w.over)
	got := get(t, w.front.Client(t, "HTTP/2"), "GET "+w.front.URL, "")
	var status metav1.Status
	if err := json.Unmarshal([]byte(got.body), &status); err != nil || got.code != http.StatusGone {
		t.Fatalf("%d %s: %v", got.code, got.body, err)
	}
	isReplaced(t, status)
}

// TestAWatchWithoutEventsToAddToIsCut: an end that looks complete would hide that the history is another one.
func TestAWatchWithoutEventsToAddToIsCut(t *testing.T) {
	w := newWatching(t, http.Header{"Content-Type": {jsonWatch}, "Content-Encoding": {"gzip"}})
	resp := w.begin(t, "HTTP/1.1", "bytes")
	defer func() { _ = resp.Body.Close() }()
	read(t, resp.Body, len("bytes"))
	close(w.over)
	if rest, err := io.ReadAll(resp.Body); err == nil || len(rest) > 0 {
		t.Errorf("the watch ends with %q, %v, want a connection that is cut", rest, err)
	}
}
