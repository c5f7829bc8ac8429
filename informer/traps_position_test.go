package informer_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/informer"
)

// TestBookmarksMoveTheVersionAndAreToldToNobody: the version of the cache itself, so
// that who waits for one is not left behind in a quiet collection.
func TestBookmarksMoveTheVersionAndAreToldToNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.put("a", 1)
		rec := newRecorder()
		i := w.informer()
		i.Handle(rec.handle)
		run(t, i, func() {
			after(time.Second)
			for range 30 {
				w.tick()
				after(time.Minute)
			}
			if rv := i.ResourceVersion(); rv < "1029" || rv > "1031" || i.Snapshot().RV() != rv {
				t.Errorf("after half an hour without changes it is at %s", rv)
			}
		})
		if diff := cmp.Diff([]string{"Added a 1 initial"}, rec.lines()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestABookmarkDoesNotSplitABatch: what comes in one go becomes one state, however
// chatty the server is.
func TestABookmarkDoesNotSplitABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		server := scripted{watch: func(ctx context.Context, _ request, say func(...string)) error {
			say(mark("1", theEnd))
			linger(ctx, time.Second)
			var frames []string
			for n := range 10 {
				rv := 10 + 2*n
				frames = append(frames, frame("ADDED", w.object(fmt.Sprint("o", n), n, rv, n)), mark(strconv.Itoa(rv+1), ""))
			}
			say(frames...)
			<-ctx.Done()
			return nil
		}}
		i := server.informer()
		var turns []string
		i.Mirror(func(turn informer.Turn[*thing]) { turns = append(turns, fmt.Sprint(turn.RV, " ", turn.Changed())) })
		run(t, i, func() { after(time.Minute) })
		if diff := cmp.Diff([]string{"1 0", "29 10"}, turns); diff != "" {
			t.Error(diff)
		}
	})
}

// TestAPositionThatTheServerDoesNotHaveYetIsGivenUp: the server was restored from a
// backup, and says "too large" to everything that names the position
// (kubernetes#107133: for ever).
func TestAPositionThatTheServerDoesNotHaveYetIsGivenUp(t *testing.T) {
	for name, opts := range map[string][]informer.Option{"LIST": {informer.NoStreamingLists()}, "streaming": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.put("a", 1)
				w.put("b", 2)
				rec := newRecorder()
				rec.rewinds = true
				w.fail(onceOnAWatch(fault{noBookmarks: true})) // nor is it said by one
				i := w.informer(opts...)
				i.Handle(rec.handle)
				run(t, i, func() {
					after(time.Second)
					w.mu.Lock()
					w.things, w.log, w.rv, w.floor = map[string]string{"a": w.object("a", 1, 400, 7)}, nil, 500, 500
					w.fault = func(r request) fault {
						if n, _ := strconv.Atoi(r.rv); n > 900 && r.watch && !r.initial {
							return fault{status: 504, reason: "Timeout", tooLarge: true}
						}
						return fault{}
					}
					w.mu.Unlock()
					after(12 * time.Minute) // the watch of before has ended
					s := i.Status()
					if s.Incidents[informer.TooLarge] < 3 || s.Incidents[informer.WentBack] != 1 {
						t.Errorf("status %+v", s)
					}
					w.put("a", 8)
					after(time.Second)
					for of, state := range map[string]map[string]string{"cache": cached(i), "handler": rec.state()} {
						if diff := cmp.Diff(w.state(t), state); diff != "" {
							t.Errorf("%s (-server +%s):\n%s", of, of, diff)
						}
					}
				})
				rec.check(t)
			})
		})
	}
}

// dying is a listener whose connections die without a word, as where a cable is pulled
// or a proxy forgets about them: what is written is lost, and nobody says so.
type dying struct {
	net.Listener
	mu    sync.Mutex
	conns []*dyingConn
}

type dyingConn struct {
	net.Conn
	mu   sync.Mutex
	dead bool
}

func (l *dying) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &dyingConn{Conn: conn}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, c)
	return c, nil
}

// die takes all connections that there are.
func (l *dying) die() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		c.mu.Lock()
		c.dead = true
		c.mu.Unlock()
	}
}

func (c *dyingConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// chatty is the world with a bookmark every 5 ms.
func chatty(w *world) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		r := requestOf(req.URL.Query())
		if !r.watch {
			w.ServeHTTP(rw, req)
			return
		}
		position, _ := strconv.Atoi(r.rv)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			w.mu.Lock()
			said := ""
			for _, l := range w.log {
				if l.rv > position {
					said += frame(l.event, l.object)
				}
			}
			position = w.rv
			w.mu.Unlock()
			if _, err := rw.Write([]byte(said + mark(strconv.Itoa(position), ""))); err != nil {
				return
			}
			_ = http.NewResponseController(rw).Flush()
			select {
			case <-tick.C:
			case <-req.Context().Done():
				return
			}
		}
	})
}

// TestADeadConnectionOverHTTP1IsNoticed: there is no ping in HTTP/1.1, and the kernel
// needs a quarter of an hour (client-go#374). The bookmarks that no longer come say it.
func TestADeadConnectionOverHTTP1IsNoticed(t *testing.T) {
	w := newWorld()
	w.put("a", 1)
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	line := &dying{Listener: plain}
	spoke := make(chan int, 1024)
	handler := chatty(w)
	srv := &httptest.Server{Listener: line, Config: &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		spoke <- r.ProtoMajor
		handler.ServeHTTP(rw, r)
	})}}
	srv.Start()
	defer srv.Close()
	defer srv.CloseClientConnections()
	silent := make(chan struct{}, 1)
	i := informer.New(informer.For[*thing](&rest.Config{Host: srv.URL}, thingsGVR()), informer.NoStreamingLists(),
		informer.Watchdog(300*time.Millisecond), informer.OnError(func(in informer.Incident) {
			if in.Kind == informer.Silent {
				select {
				case silent <- struct{}{}:
				default:
				}
			}
		}))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- i.Run(ctx) }()
	if err := i.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	w.tick()
	if err := i.WaitRevision(ctx, "1002"); err != nil { // by a bookmark
		t.Fatal(err)
	}
	line.die()
	w.put("b", 2) // lost in the dead connection
	<-silent
	eventually(t, w, i)
	if n := i.Status().Lists; n != 1 {
		t.Errorf("%d lists", n)
	}
	if major := <-spoke; major != 1 {
		t.Errorf("HTTP/%d", major)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
