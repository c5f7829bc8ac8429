package apiserver_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/apiserver/pipetest"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// script is a watch that a test plays: events and errors come when it says so.
type script struct {
	events   chan []wire.WatchEvent
	fails    chan error
	position atomic.Uint64
	closed   chan struct{}
	once     sync.Once
}

func newScript(position kube.ResourceVersion) *script {
	s := &script{events: make(chan []wire.WatchEvent), fails: make(chan error), closed: make(chan struct{})}
	s.position.Store(uint64(position))
	return s
}

func (s *script) Next(ctx context.Context) ([]wire.WatchEvent, error) {
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case err := <-s.fails:
		return nil, err
	case events := <-s.events:
		s.position.Store(max(s.position.Load(), uint64(events[len(events)-1].ResourceVersion)))
		return events, nil
	}
}

func (s *script) Position() kube.ResourceVersion { return kube.ResourceVersion(s.position.Load()) }
func (s *script) Close()                         { s.once.Do(func() { close(s.closed) }) }

// added is an event whose frame is bytes long.
func added(t testing.TB, name string, rv kube.ResourceVersion, bytes int) wire.WatchEvent {
	t.Helper()
	body := fmt.Sprintf(
		`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":%q,"namespace":"default","resourceVersion":"%d"},"data":{"a":"%s"}}`,
		name, rv, strings.Repeat("x", bytes))
	o, err := wire.ParseObject([]byte(body), nil)
	if err != nil {
		t.Fatalf("parse the object: %v", err)
	}
	return wire.WatchEvent{Type: kube.Added, ResourceVersion: rv, Object: o}
}

// clockwork is a server in a bubble, without TLS: every caller is the administrator.
type clockwork struct {
	t     *testing.T
	api   *apiserver.Server
	pipes *pipetest.Listener
	began time.Time
}

func wind(t *testing.T, s *script) *clockwork {
	t.Helper()
	return windUp(t, &reader{watch: func(context.Context, wire.ListOptions) (wire.Watch, error) { return s, nil }})
}

func windUp(t *testing.T, behind *reader) *clockwork {
	t.Helper()
	return windConfig(t, apiserver.Config{Reader: behind})
}

func windConfig(t *testing.T, cfg apiserver.Config) *clockwork {
	t.Helper()
	c := &clockwork{t: t, pipes: pipetest.New(), began: time.Now()}
	cfg.Live = kinds.NewLive(builtin.Catalog())
	c.api = apiserver.New(t.Context(), cfg)
	admin := &x509.Certificate{Subject: pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}}}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{admin}}}
		c.api.ServeHTTP(w, r)
	})}
	srv.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(c.pipes) }() // ends with Close
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Errorf("close the server: %v", err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
		synctest.Wait()
	})
	return c
}

// send writes a request on a new connection.
func (c *clockwork) send(text string) (net.Conn, *bufio.Reader) {
	c.t.Helper()
	client, err := c.pipes.Dial()
	if err != nil {
		c.t.Fatalf("connect: %v", err)
	}
	c.t.Cleanup(func() { _ = client.Close() })
	if _, err := io.WriteString(client, text); err != nil {
		c.t.Fatalf("write: %v", err)
	}
	return client, bufio.NewReader(client)
}

// watch opens a watch of config maps and reports each frame, and the end, with
// its time: "60s BOOKMARK 7", "75s end".
func (c *clockwork) watch(query string) *reports {
	c.t.Helper()
	conn, from := c.send("GET " + configMaps + "?watch=1" + query + " HTTP/1.1\r\nHost: x\r\n\r\n")
	resp, err := http.ReadResponse(from, nil) //nolint:bodyclose // the pipe is closed by send
	if err != nil {
		c.t.Fatalf("read response: %v", err)
	}
	if resp.StatusCode != http.StatusOK {
		c.t.Fatalf("watch: %d", resp.StatusCode)
	}
	r := &reports{t: c.t, conn: conn, ended: make(chan struct{})}
	say := func(format string, args ...any) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.lines = append(r.lines, time.Since(c.began).String()+" "+fmt.Sprintf(format, args...))
	}
	go func() { // ends with the connection
		defer close(r.ended)
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			e := tree(c.t, lines.Text())
			meta, _ := at(e, "object", "metadata").(map[string]any)
			what := fmt.Sprint(e["type"])
			if meta["annotations"] != nil {
				what = "INITIAL-END"
			}
			if e["type"] == "ERROR" {
				say("ERROR %v", at(e, "object", "code"))
				continue
			}
			say("%s %v", what, meta["resourceVersion"])
		}
		if err := lines.Err(); err != nil {
			say("cut off")
			return
		}
		say("end")
	}()
	return r
}

// reports is what a client saw of a watch, and when.
type reports struct {
	t     *testing.T
	conn  net.Conn
	ended chan struct{}

	mu sync.Mutex
	// mu guards lines.
	lines []string
}

// want waits for the end of the watch and compares.
func (r *reports) want(lines ...string) {
	r.t.Helper()
	<-r.ended
	r.mu.Lock()
	defer r.mu.Unlock()
	if diff := cmp.Diff(lines, r.lines); diff != "" {
		r.t.Error(diff)
	}
}

// after lets time pass.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestBookmarksComeEachMinuteAndBeforeTheDeadline(t *testing.T) {
	for _, c := range []struct {
		query string
		want  []string
	}{
		{
			"&resourceVersion=7&allowWatchBookmarks=1&timeoutSeconds=75",
			[]string{"1m0s BOOKMARK 7", "1m13s BOOKMARK 7", "1m15s end"},
		},
		{
			"&resourceVersion=7&allowWatchBookmarks=1&timeoutSeconds=180",
			[]string{"1m0s BOOKMARK 7", "2m0s BOOKMARK 7", "2m58s BOOKMARK 7", "3m0s end"},
		},
		{"&resourceVersion=7&allowWatchBookmarks=1&timeoutSeconds=8", []string{"6s BOOKMARK 7", "8s end"}},
		{"&resourceVersion=7&allowWatchBookmarks=1&timeoutSeconds=4", []string{"2s BOOKMARK 7", "4s end"}},
		{"&resourceVersion=7&allowWatchBookmarks=1&timeoutSeconds=2", []string{"2s end"}},
		{"&resourceVersion=7&timeoutSeconds=75", []string{"1m15s end"}}, // an idle answer of HTTP/1.1 ends cleanly
		{"&resourceVersion=7&allowWatchBookmarks=false&timeoutSeconds=75", []string{"1m15s end"}},
		{"&resourceVersion=5&allowWatchBookmarks=1&timeoutSeconds=2", []string{"0s BOOKMARK 7", "2s end"}}, // at the attach
		{"&resourceVersion=5&timeoutSeconds=2", []string{"2s end"}},
		// The extension: the interval that the client requests.
		{
			"&resourceVersion=7&allowWatchBookmarks=1&timeoutSeconds=9&bookmarkIntervalSeconds=3",
			[]string{"3s BOOKMARK 7", "6s BOOKMARK 7", "7s BOOKMARK 7", "9s end"},
		},
		{
			"&resourceVersion=7&allowWatchBookmarks=1&timeoutSeconds=300&bookmarkIntervalSeconds=200",
			[]string{"3m20s BOOKMARK 7", "4m58s BOOKMARK 7", "5m0s end"},
		},
		{"&resourceVersion=7&timeoutSeconds=9&bookmarkIntervalSeconds=3", []string{"9s end"}},
	} {
		t.Run(c.query, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript(7)
				wind(t, s).watch(c.query).want(c.want...)
				<-s.closed
			})
		})
	}
}

func TestLastBookmarkHasTheWatchPosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(7)
		r := wind(t, s).watch("&resourceVersion=7&allowWatchBookmarks=1&timeoutSeconds=30")
		after(29 * time.Second) // one second after the bookmark before the deadline
		s.position.Store(9)
		r.want("28s BOOKMARK 7", "30s BOOKMARK 9", "30s end")
	})
}

func TestNoBookmarkComesBeforeTheInitialEventsAreComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(0)
		r := wind(t, s).watch("&allowWatchBookmarks=1&timeoutSeconds=200")
		after(70 * time.Second)
		s.events <- []wire.WatchEvent{added(t, "a", 5, 10)}
		s.position.Store(0)
		after(60 * time.Second)
		s.events <- []wire.WatchEvent{added(t, "b", 3, 10), {Type: kube.InitialEventsEnd, ResourceVersion: 8}}
		r.want("1m10s ADDED 5", "2m10s ADDED 3", "2m10s INITIAL-END 8", "3m0s BOOKMARK 8", "3m18s BOOKMARK 8", "3m20s end")
	})
}

func TestInitialEventsHaveNoBookmarkUnlessRequested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(0)
		r := wind(t, s).watch("&timeoutSeconds=90")
		s.events <- []wire.WatchEvent{added(t, "a", 5, 10), {Type: kube.InitialEventsEnd, ResourceVersion: 8}}
		s.events <- []wire.WatchEvent{added(t, "b", 9, 10)}
		r.want("0s ADDED 5", "0s ADDED 9", "1m30s end")
	})
}

func TestWatchWithoutATimeoutLastsBetweenHalfAnHourAndAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := wind(t, newScript(7))
		lasted := map[time.Duration]bool{}
		for range 5 {
			began := time.Now()
			<-c.watch("&resourceVersion=7&timeoutSeconds=0").ended
			took := time.Since(began)
			if took < 30*time.Minute || took > time.Hour {
				t.Errorf("a watch lasted %v", took)
			}
			lasted[took] = true
		}
		if len(lasted) == 1 {
			t.Errorf("all watches lasted %v: their clients come back all at once", lasted)
		}
	})
}

func TestErrorFrameIsTheLastFrameOfAWatch(t *testing.T) {
	for err, code := range map[error]int{
		&kube.ExpiredError{Requested: 1, Oldest: 5, Kind: kube.ExpiredWatch}: 410,
		&kube.TooLargeResourceVersionError{Requested: 9, Current: 5}:         504,
		errors.New("the disk is on fire"):                                    500,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newScript(7)
			r := wind(t, s).watch("&resourceVersion=7&allowWatchBookmarks=1")
			after(time.Minute)
			s.position.Store(9)
			s.fails <- err
			r.want("1m0s BOOKMARK 7", fmt.Sprintf("1m0s ERROR %d", code), "1m0s end")
			<-s.closed
		})
	}
}

func TestServerEndsAWatchOnlyAfterABookmark(t *testing.T) {
	for _, how := range []string{"drain", "gone"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript(7)
				c := wind(t, s)
				asked, plain := c.watch("&resourceVersion=7&allowWatchBookmarks=1"), c.watch("&resourceVersion=7")
				after(10 * time.Second)
				s.position.Store(9)
				if how == "drain" {
					c.api.Drain()
				} else {
					s.fails <- io.EOF
					s.fails <- io.EOF
				}
				asked.want("10s BOOKMARK 9", "10s end")
				plain.want("10s end")
			})
		})
	}
}

// fabric8 7.8 takes a clean end within two seconds and without a frame for an
// expired resourceVersion, and lists again.
func TestWatchWithoutFramesLastsAtLeastTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(7)
		c := wind(t, s)
		asked, plain, current := c.watch("&resourceVersion=7&allowWatchBookmarks=1"), c.watch("&resourceVersion=7"), c.watch(
			"&resourceVersion=9&allowWatchBookmarks=1")
		after(500 * time.Millisecond)
		s.position.Store(9)
		c.api.Drain()
		asked.want("500ms BOOKMARK 9", "500ms end")
		plain.want("2s end")
		current.want("2s end")
	})
}

func TestStalledWatcherIsKeptUntilItsDeadlineAndASlowOneFinishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(7)
		c := wind(t, s)
		_, from := c.send("GET " + configMaps + "?watch=1&resourceVersion=7&timeoutSeconds=100 HTTP/1.1\r\nHost: x\r\n\r\n")
		if _, err := http.ReadResponse(from, nil); err != nil { //nolint:bodyclose // the pipe is closed by send
			t.Fatalf("read response: %v", err)
		}
		s.events <- []wire.WatchEvent{added(t, "a", 8, 100<<10)}
		began := time.Now()
		<-s.closed
		if took := time.Since(began); took != 130*time.Second {
			t.Errorf("given up after %v", took)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := newScript(7)
		c := wind(t, s)
		conn, from := c.send("GET " + configMaps + "?watch=1&resourceVersion=7&timeoutSeconds=100 HTTP/1.1\r\nHost: x\r\n\r\n")
		defer func() { _ = conn.Close() }()
		resp, err := http.ReadResponse(from, nil) //nolint:bodyclose // the pipe is closed by send
		if err != nil {
			t.Fatalf("read response: %v", err)
		}
		var batch []wire.WatchEvent
		for i := range 8 {
			batch = append(batch, added(t, "a", kube.ResourceVersion(8+i), 60<<10))
		}
		s.events <- batch
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 1<<20)
		for i := range 8 { // 60 KB each 20 s: 160 s for a batch
			after(20 * time.Second)
			if !lines.Scan() {
				t.Fatalf("cut off before event %d: %v", i, lines.Err())
			}
		}
		if lines.Scan() || lines.Err() != nil {
			t.Errorf("no clean end: %q %v", lines.Text(), lines.Err())
		}
	})
}

func TestWatchEndsWhenItsClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(7)
		r := wind(t, s).watch("&resourceVersion=7")
		if err := r.conn.Close(); err != nil {
			t.Fatalf("close conn: %v", err)
		}
		<-s.closed
		<-r.ended
	})
}

func TestSlowBodyIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		query string
		every time.Duration // a byte
		code  int
		after time.Duration
	}{
		"nothing comes":                      {"", 0, http.StatusRequestTimeout, 10 * time.Second},
		"a byte each second":                 {"", time.Second, http.StatusRequestTimeout, 10 * time.Second},
		"the time of the request is shorter": {"?timeout=3s", 0, http.StatusGatewayTimeout, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				conn, from := wind(t,
					newScript(7)).send("POST " + configMaps + c.query + " HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
				if c.every > 0 {
					tick := time.NewTicker(c.every)
					defer tick.Stop()
					go func() { // ends with the test
						for {
							select {
							case <-tick.C:
								_, _ = io.WriteString(conn, " ") // the server may have closed it
							case <-t.Context().Done():
								return
							}
						}
					}()
				}
				resp, err := http.ReadResponse(from, nil) //nolint:bodyclose // the pipe is closed by send
				if err != nil {
					t.Fatalf("read response: %v", err)
				}
				body, err := io.ReadAll(resp.Body)
				took := time.Since(began).Truncate(time.Millisecond) // bytes that came give a moment more
				if err != nil || resp.StatusCode != c.code || took != c.after || !resp.Close {
					t.Errorf("%d after %v, closed %t: %s, %v", resp.StatusCode, took, resp.Close, body, err)
				}
			})
		})
	}
}

func TestClientThatDoesNotReadItsAnswerIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		large := added(t, "a", 7, 1<<20).Object
		c := windUp(t, &reader{get: func(context.Context) (*wire.Object, error) { return large, nil }})
		conn, from := c.send("GET " + configMaps + "/a HTTP/1.1\r\nHost: x\r\n\r\n")
		resp, err := http.ReadResponse(from, nil) //nolint:bodyclose // the pipe is closed by send
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(resp, err)
		}
		after(89 * time.Second)
		if _, err := io.CopyN(io.Discard, resp.Body, 10<<10); err != nil {
			t.Fatalf("cut off too early: %v", err)
		}
		after(2 * time.Second)
		if _, err := io.Copy(io.Discard, resp.Body); err == nil {
			t.Error("a part of the answer looked like all of it")
		}
		if _, err := io.WriteString(conn, "x"); err == nil {
			t.Error("the connection is still there")
		}
	})
}
