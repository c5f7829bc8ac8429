package fault_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/gapless-io/gapless/fault"
)

// events is the handler of a watch with these events, which then waits for its client. On a
// WebSocket each is a message.
func events(lines ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		if r.Header.Get("Upgrade") != "" {
			ws, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			defer func() { _ = ws.CloseNow() }() // it may have ended
			ctx = ws.CloseRead(ctx)
			for _, line := range lines {
				if ws.Write(ctx, websocket.MessageText, []byte(line+"\n")) != nil {
					return
				}
			}
			<-ctx.Done()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		flush := http.NewResponseController(w).Flush
		_ = flush()
		for _, line := range lines {
			if _, err := io.WriteString(w, line+"\n"); err != nil {
				return
			}
			_ = flush()
		}
		<-ctx.Done()
	}
}

func event(eventType, name, rv string) string {
	return fmt.Sprintf(`{"type":%q,"object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"resourceVersion":%q}}}`,
		eventType, name, rv)
}

// stand is a server with faults; h2 says that it speaks HTTP/2.
type stand struct {
	*httptest.Server

	faults  *fault.Set
	handler *fault.Handler
}

func serve(t testing.TB, h2 bool, next http.Handler, rules ...fault.Rule) stand {
	t.Helper()
	s := fault.New(1)
	if err := s.Add(rules...); err != nil {
		t.Fatalf("add: %v", err)
	}
	handler := s.Handler(next)
	server := httptest.NewUnstartedServer(handler)
	server.Listener = s.Listener(server.Listener)
	server.Config.ConnContext = s.ConnContext
	server.EnableHTTP2 = h2
	if h2 {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(func() {
		s.Clear()
		server.CloseClientConnections()
		server.Close()
	})
	return stand{server, s, handler}
}

// get sends a request.
func (s stand) get(ctx context.Context, t testing.TB, target string) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+target, nil)
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	return s.Client().Do(r)
}

const watchPods = "/api/v1/pods?watch=1"

// lines reads the answer to a watch to its end, or to so many lines.
func (s stand) lines(t testing.TB, most int) ([]string, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	resp, err := s.get(ctx, t, watchPods)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var lines []string
	from := bufio.NewReader(resp.Body)
	for len(lines) < most {
		line, err := from.ReadString('\n')
		if line != "" {
			lines = append(lines, brief(line))
		}
		if errors.Is(err, io.EOF) && line == "" {
			return lines, nil
		}
		if err != nil {
			return lines, err
		}
	}
	return lines, nil
}

// brief is the type of an event, with the name or the code of its object: "ADDED a".
func brief(line string) string {
	var e struct {
		Type   string
		Object struct {
			Metadata struct{ Name string }
			Code     int
		}
	}
	if json.Unmarshal([]byte(line), &e) != nil {
		return line
	}
	if e.Object.Code != 0 {
		return fmt.Sprintf("%s %d", e.Type, e.Object.Code)
	}
	return strings.TrimSpace(e.Type + " " + e.Object.Metadata.Name)
}

const (
	all = 1000
	// anything is events of which a load decides how many there are.
	anything = "…"
)

func TestEventsOfAWatchAreChanged(t *testing.T) {
	a, b, mark := event("ADDED", "a", "1"), event("MODIFIED", "b", "2"), event("BOOKMARK", "", "3")
	end := `{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"2",` +
		`"annotations":{"k8s.io/initial-events-end":"true"}}}}`
	for name, c := range map[string]struct {
		action fault.Action
		most   int
		want   string
		ended  error // how the answer ends; nil: it does not, or cleanly
	}{
		"gone":                    {&fault.Gone{}, all, "ERROR 410", nil},
		"gone later":              {&fault.Gone{Frames: 2}, all, "ADDED a,BOOKMARK,ERROR 410", nil},
		"gone, empty":             {&fault.Gone{As: "empty"}, all, "", nil},
		"gone, close":             {&fault.Gone{As: "close"}, all, "", nil},
		"short watch":             {&fault.ShortWatch{}, all, "", nil},
		"short watch of 2 events": {&fault.ShortWatch{Frames: 2}, all, "ADDED a,BOOKMARK", nil},
		"short watch of a time":   {&fault.ShortWatch{For: 300 * time.Millisecond}, all, anything, nil},
		"cut":                     {&fault.Cut{}, all, "", errAny},
		"cut later":               {&fault.Cut{Frames: 1}, all, "ADDED a", errAny},
		"cut within an event": {
			&fault.Cut{How: "mid-frame", Frames: 2}, all, "ADDED a,BOOKMARK," + (b + "\n")[:(len(b)+1)/2], errAny,
		},
		"reset":                 {&fault.Cut{How: "reset", Frames: 1}, all, "ADDED a", errAny},
		"no bookmarks":          {&fault.NoBookmarks{}, 3, "ADDED a,BOOKMARK,MODIFIED b", nil},
		"no initial-events-end": {&fault.NoInitialEventsEnd{}, 3, "ADDED a,MODIFIED b,BOOKMARK", nil},
		"early bookmark":        {&fault.EarlyBookmark{}, 3, "BOOKMARK,ADDED a,BOOKMARK", nil},
		"duplicate":             {&fault.Duplicate{}, 4, "ADDED a,ADDED a,BOOKMARK,BOOKMARK", nil},
		"delay": {
			&fault.Delay{For: time.Millisecond, Event: time.Millisecond}, 4, "ADDED a,BOOKMARK,MODIFIED b,BOOKMARK", nil,
		},
		"throttle":       {&fault.Throttle{BytesPerSecond: 10000}, 4, "ADDED a,BOOKMARK,MODIFIED b,BOOKMARK", nil},
		"internal error": {&fault.InternalError{Frames: 1}, all, "ADDED a,ERROR 500", nil},
		"undecodable":    {&fault.Undecodable{Frames: 1}, 3, "ADDED a,BOOKMARK,MODIFIED b", nil},
		"large":          {&fault.LargeFrame{}, 3, "ADDED a,BOOKMARK,MODIFIED b", nil},
		"coalesce":       {&fault.Coalesce{}, 4, "ADDED a,BOOKMARK,MODIFIED b,BOOKMARK", nil},
		"split":          {&fault.Split{}, 4, "ADDED a,BOOKMARK,MODIFIED b,BOOKMARK", nil},
		"too large":      {&fault.TooLarge{}, 1, "ADDED a", nil}, // without a resourceVersion
	} {
		for _, h2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s h2=%v", name, h2), func(t *testing.T) {
				t.Parallel()
				s := serve(t, h2, events(a, end, b, mark), fault.Rule{Action: c.action})
				got, err := s.lines(t, c.most)
				if c.want != anything && strings.Join(got, ",") != c.want || (err == nil) != (c.ended == nil) {
					t.Errorf("%q, %v; want %q, %v", got, err, c.want, c.ended)
				}
				s.faults.Clear()
				if got, err := s.lines(t, 4); strings.Join(got, ",") != "ADDED a,BOOKMARK,MODIFIED b,BOOKMARK" || err != nil {
					t.Errorf("after the removal: %q, %v", got, err)
				}
			})
		}
	}
}

var errAny = errors.New("an error")

func TestMessagesOfAWebSocketAreChanged(t *testing.T) {
	a, b := event("ADDED", "a", "1"), event("ADDED", "b", "2")
	for name, c := range map[string]struct {
		action fault.Action
		want   string
		clean  bool // it ends with a Close message
	}{
		"gone":                {&fault.Gone{Frames: 1}, "ADDED a,ERROR 410", true},
		"gone, close":         {&fault.Gone{As: "close"}, "", true},
		"short watch":         {&fault.ShortWatch{Frames: 1}, "ADDED a", true},
		"short watch, a time": {&fault.ShortWatch{For: 300 * time.Millisecond}, anything, true},
		"cut":                 {&fault.Cut{Frames: 1}, "ADDED a", false},
		"cut within":          {&fault.Cut{How: "mid-frame", Frames: 1}, "ADDED a", false},
		"reset":               {&fault.Cut{How: "reset", Frames: 1}, "ADDED a", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, false, events(a, b), fault.Rule{Action: c.action})
			read := func(most int) (got []string, err error) {
				ws, resp, err := websocket.Dial(t.Context(), s.URL+watchPods, nil)
				if err != nil {
					return nil, err
				}
				if resp.Body != nil {
					defer resp.Body.Close()
				}
				defer func() { _ = ws.CloseNow() }() // it may have ended
				for len(got) < most {
					_, message, err := ws.Read(t.Context())
					if err != nil {
						return got, err
					}
					got = append(got, brief(string(message)))
				}
				return got, nil
			}
			got, err := read(all)
			if clean := websocket.CloseStatus(err) == websocket.StatusNormalClosure; c.want != anything &&
				strings.Join(got, ",") != c.want || clean != c.clean {
				t.Errorf("%q, %v", got, err)
			}
			s.faults.Clear()
			if got, err := read(2); strings.Join(got, ",") != "ADDED a,ADDED b" || err != nil {
				t.Errorf("after the removal: %q, %v", got, err)
			}
		})
	}
}

func TestSilentConnectionStaysOpenUntilTheRuleIsRemoved(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		s := serve(t, h2, events(event("ADDED", "a", "1"), event("ADDED", "b", "2")), fault.Rule{
			Name: "quiet", Action: &fault.Silence{Frames: 1},
		})
		resp, err := s.get(t.Context(), t, watchPods)
		if err != nil {
			t.Fatalf("get: %v", err)
		}
		from := bufio.NewReader(resp.Body)
		if line, err := from.ReadString('\n'); brief(line) != "ADDED a" || err != nil {
			t.Fatalf("%q, %v", line, err)
		}
		ended := make(chan error, 1)
		go func() { // ends with the connection
			_, err := from.ReadByte()
			ended <- err
		}()
		select {
		case err := <-ended:
			t.Fatalf("h2 %v: the silence ended with %v", h2, err)
		case <-time.After(100 * time.Millisecond): // more would not show more
		}
		s.faults.Remove("quiet")
		if err := <-ended; err == nil {
			t.Error("an event came after all")
		}
		_ = resp.Body.Close() // it was cut
	}
}

func TestPingsOfASilentConnectionAreNotAnswered(t *testing.T) {
	s := serve(t, true, fine(), fault.Rule{Action: &fault.Silence{}})
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	transport := s.Client().Transport.(*http.Transport).Clone() //nolint:forcetypeassert // httptest's is
	transport.HTTP2 = &http.HTTP2Config{SendPingTimeout: 50 * time.Millisecond, PingTimeout: 50 * time.Millisecond}
	transport.Protocols = protocols
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/api/v1/pods", nil)
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	resp, err := transport.RoundTrip(r) // it would last without the pings
	if err == nil {
		_ = resp.Body.Close() // it is not to be
		t.Error("an answer")
	}
	transport.CloseIdleConnections()
}

// removing is a listener of connections that remove a rule when they are closed.
type removing struct {
	net.Listener

	remove func()
}

type removingConn struct {
	net.Conn

	remove func()
}

func (l removing) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return removingConn{c, l.remove}, err
}

func (c removingConn) Close() error {
	c.remove()
	return c.Conn.Close()
}

func TestARestartEndsWhenItsRuleIsRemovedAsItBegins(t *testing.T) {
	s := fault.New(1)
	if err := s.Add(fault.Rule{Name: "restart", Action: &fault.Restart{For: time.Minute}, Count: 1}); err != nil {
		t.Fatalf("add: %v", err)
	}
	var first atomic.Bool
	removed := make(chan error, 1)
	server := httptest.NewUnstartedServer(s.Handler(fine()))
	server.Listener = s.Listener(removing{server.Listener, func() {
		if first.Swap(true) {
			return
		}
		s.Remove("restart")
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		if err == nil {
			_, err = conn.Write([]byte("GET /version HTTP/1.0\r\n\r\n"))
		}
		if err == nil {
			_, err = io.ReadAll(conn)
			_ = conn.Close() // it was read
		}
		removed <- err
	}})
	server.Config.ConnContext = s.ConnContext
	server.Start()
	defer server.Close()
	if resp, err := (stand{server, s, nil}).get(t.Context(), t, "/version"); err == nil {
		_ = resp.Body.Close() // it is not to be
		t.Error("no restart")
	}
	if err := <-removed; err != nil {
		t.Errorf("after the removal: %v", err)
	}
}

func TestRestartClosesAndRefusesConnections(t *testing.T) {
	s := serve(t, false, events(event("ADDED", "a", "1")),
		fault.Rule{
			Match: fault.Match{Verbs: []string{"list"}}, Action: &fault.Restart{For: time.Minute}, Count: 1, Name: "restart",
		})
	resp, err := s.get(t.Context(), t, watchPods)
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	if resp, err := s.get(t.Context(), t, "/api/v1/pods"); err == nil {
		_ = resp.Body.Close() // it is not to be
		t.Error("the request that the server restarted with is answered")
	}
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the watch went on, or ended cleanly")
	}
	_ = resp.Body.Close() // it was cut
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
	if err == nil {
		_, err = conn.Read(make([]byte, 1))
		_ = conn.Close() // it was reset
	}
	if err == nil {
		t.Error("a connection during the restart")
	}
	s.faults.Remove("restart")
	if got, err := s.lines(t, 1); len(got) != 1 || err != nil {
		t.Errorf("after the removal: %q, %v", got, err)
	}
}
