package fault_test

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/gapless-io/gapless/fault"
)

// raw sends the request for a watch on a connection of its own, and returns it behind the header
// of the answer.
func (s stand) raw(t testing.TB) (*net.TCPConn, *bufio.Reader) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // it may have ended
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", watchPods); err != nil {
		t.Fatalf("print: %v", err)
	}
	from := bufio.NewReader(conn)
	for line := ""; line != "\r\n"; {
		if line, err = from.ReadString('\n'); err != nil {
			t.Fatalf("read a line: %v", err)
		}
	}
	return conn.(*net.TCPConn), from //nolint:forcetypeassert // it was dialled so
}

// chunk reads a chunk, which net/http makes of each write that is flushed.
func chunk(t testing.TB, from *bufio.Reader) string {
	t.Helper()
	head, err := from.ReadString('\n')
	if err != nil {
		t.Fatalf("read a line: %v", err)
	}
	var n int
	if _, err := fmt.Sscanf(head, "%x\r\n", &n); err != nil {
		t.Fatalf("%q: %v", head, err)
	}
	body := make([]byte, n+2)
	if _, err := io.ReadFull(from, body); err != nil {
		t.Fatalf("read: %v", err)
	}
	return string(body[:n])
}

func TestTwoEventsAreInOneWriteAndOneInMany(t *testing.T) {
	a, b := event("ADDED", "a", "1"), event("ADDED", "b", "2")
	_, from := serve(t, false, events(a, b), fault.Rule{Action: &fault.Coalesce{}}).raw(t)
	if got := chunk(t, from); got != a+"\n"+b+"\n" {
		t.Errorf("coalesce: %q", got)
	}
	_, from = serve(t, false, events(a), fault.Rule{Action: &fault.Split{Writes: 4}}).raw(t)
	got := ""
	for range 4 {
		piece := chunk(t, from)
		if len(piece) > len(a)/2 {
			t.Errorf("split: a piece of %d bytes of %d", len(piece), len(a))
		}
		got += piece
	}
	if got != a+"\n" {
		t.Errorf("split: %q", got)
	}
}

func TestEndsOfAConnectionOnTheWire(t *testing.T) {
	a := event("ADDED", "a", "1")
	for name, c := range map[string]struct {
		action fault.Action
		want   string
		reset  bool
	}{
		"clean":     {&fault.ShortWatch{Frames: 1}, a + "\n", false}, // and the chunk that ends the body
		"cut":       {&fault.Cut{Frames: 1}, a + "\n", false},
		"mid-frame": {&fault.Cut{How: "mid-frame"}, a[:(len(a)+1)/2], false},
		"reset":     {&fault.Cut{How: "reset", Frames: 1}, a + "\n", true},
	} {
		_, from := serve(t, false, events(a), fault.Rule{Action: c.action}).raw(t)
		if got := chunk(t, from); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
		rest, err := io.ReadAll(httputil.NewChunkedReader(from))
		want := io.ErrUnexpectedEOF
		if name == "clean" {
			want = nil
		}
		if c.reset {
			want = syscall.ECONNRESET
		}
		if len(rest) > 0 || !errors.Is(err, want) {
			t.Errorf("%s ends with %q, %v; want %v", name, rest, err, want)
		}
	}
}

func TestLargeFrameHasThreeMebibytes(t *testing.T) {
	a := event("ADDED", "a", "1")
	_, from := serve(t, false, events(a), fault.Rule{Action: &fault.LargeFrame{}}).raw(t)
	if got := chunk(t, from); len(got) < 3<<20 || !strings.Contains(got[:200], "gapless.io/fault") {
		t.Errorf("%d bytes: %.100q", len(got), got)
	}
}

func TestAnswersThatAreNoFramesPassUnchanged(t *testing.T) {
	for name, c := range map[string]struct {
		header http.Header
		body   string
	}{
		"compressed though nobody asked": {
			http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}}, "\x1f\x8b{}\"\n{",
		},
		"CBOR":    {http.Header{"Content-Type": {"application/cbor-seq"}}, "\xd9\xd9\xf7{}\n"},
		"no JSON": {http.Header{"Content-Type": {"application/json"}}, "upstream connect error\n"},
	} {
		s := serve(t, false, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			maps.Copy(w.Header(), c.header)
			_, _ = io.WriteString(w, c.body)
		}), fault.Rule{Action: &fault.Duplicate{}})
		_, from := s.raw(t)
		if got, err := io.ReadAll(httputil.NewChunkedReader(from)); string(got) != c.body || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestWatchesAreNotCompressedWhileTheirFramesAreChanged(t *testing.T) {
	s := serve(t, true, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			defer func() { _ = z.Close() }() // the client may be gone
			_, _ = io.WriteString(z, event("ADDED", "compressed", "1")+"\n")
			return
		}
		_, _ = io.WriteString(w, event("ADDED", "a", "1")+"\n")
	}), fault.Rule{Action: &fault.Duplicate{}})
	if got, err := s.lines(t, all); strings.Join(got, ",") != "ADDED a,ADDED a" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	s.faults.Clear()
	if got, err := s.lines(t, all); strings.Join(got, ",") != "ADDED compressed" || err != nil {
		t.Errorf("without a rule: %q, %v", got, err)
	}
}

// TestMessagesAreFoundWhenBothSidesCouldCompressThem: the extension is not offered.
func TestMessagesAreFoundWhenBothSidesCouldCompressThem(t *testing.T) {
	a := event("ADDED", "a", "1")
	s := serve(t, false, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{
			CompressionMode: websocket.CompressionContextTakeover, CompressionThreshold: 1,
		})
		if err != nil {
			return
		}
		defer func() { _ = ws.CloseNow() }() // it may have ended
		ctx := ws.CloseRead(r.Context())
		_ = ws.Write(ctx, websocket.MessageText, []byte(a))
		<-ctx.Done()
	}), fault.Rule{Action: &fault.Duplicate{}})
	ws, resp, err := websocket.Dial(t.Context(), s.URL+watchPods, &websocket.DialOptions{
		CompressionMode: websocket.CompressionContextTakeover, CompressionThreshold: 1,
	})
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	if resp.Body != nil {
		defer resp.Body.Close()
	}
	defer func() { _ = ws.CloseNow() }() // it may have ended
	for range 2 {
		if _, message, err := ws.Read(t.Context()); strings.TrimSpace(string(message)) != a || err != nil {
			t.Errorf("%q, %v", message, err)
		}
	}
}

// TestEventsOfAWebSocketWaitUntilTheRuleIsRemoved also where the handler has returned before.
func TestEventsOfAWebSocketWaitUntilTheRuleIsRemoved(t *testing.T) {
	for name, action := range map[string]fault.Action{
		"delay": &fault.Delay{Event: time.Hour}, "throttle": &fault.Throttle{BytesPerSecond: 1},
	} {
		written := make(chan struct{})
		s := serve(t, false, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ws, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			go func() { //nolint:contextcheck // it outlives the handler, as watches of gapless do; ends with the connection
				defer close(written)
				_ = ws.Write(t.Context(), websocket.MessageText, []byte(event("ADDED", "a", "1")))
			}()
		}), fault.Rule{Action: action})
		ws, resp, err := websocket.Dial(t.Context(), s.URL+watchPods, nil)
		if err != nil {
			t.Fatalf("connect: %v", err)
		}
		if resp.Body != nil {
			defer resp.Body.Close()
		}
		select {
		case <-written:
			t.Errorf("%s: the event was not held", name)
		case <-time.After(100 * time.Millisecond): // more would not show more
		}
		s.faults.Clear()
		if _, message, err := ws.Read(t.Context()); brief(string(message)) != "ADDED a" || err != nil {
			t.Errorf("%s: %q, %v", name, message, err)
		}
		<-written
		_ = ws.CloseNow() // it was read
	}
}
