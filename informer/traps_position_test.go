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
	"github.com/gapless-io/gapless/informer/listwatchtest"
)

// TestBookmarksAdvanceTheVersionWithoutAnEvent: WaitRevision returns in a collection
// without changes too.
func TestBookmarksAdvanceTheVersionWithoutAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		rec := newRecorder()
		i := w.informer()
		i.Handle(rec.handle)
		run(t, i, func() {
			after(time.Second)
			for range 30 {
				w.Tick()
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

// TestABookmarkDoesNotSplitABatch: events that arrive together become one state, also with
// bookmarks between them.
func TestABookmarkDoesNotSplitABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := listwatchtest.Script{OnWatch: func(ctx context.Context, _ request, say func(...string)) error {
			say(listwatchtest.InitialEventsEnd("1"))
			sleep(ctx, time.Second)
			var frames []string
			for n := range 10 {
				rv := 10 + 2*n
				frames = append(frames, listwatchtest.Frame("ADDED", object(fmt.Sprint("o", n), n, rv, n)),
					listwatchtest.Bookmark(strconv.Itoa(rv+1)))
			}
			say(frames...)
			<-ctx.Done()
			return nil
		}}
		i := scripted(server)
		var turns []string
		i.Mirror(func(update informer.Update[*thing]) {
			turns = append(turns, fmt.Sprint(update.RV, " ", update.Changed()))
		})
		run(t, i, func() { after(time.Minute) })
		if diff := cmp.Diff([]string{"1 0", "29 10"}, turns); diff != "" {
			t.Error(diff)
		}
	})
}

// TestAVersionAheadOfTheServerLeadsToAList: the server was restored from a backup and
// answers "Too large resource version" to each request with the cache's version
// (kubernetes#107133: client-go retries forever).
func TestAVersionAheadOfTheServerLeadsToAList(t *testing.T) {
	for name, opts := range map[string][]informer.Option{"LIST": {informer.NoStreamingLists()}, "streaming": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newServer()
				w.Put("a", 1)
				w.Put("b", 2)
				rec := newRecorder()
				rec.rewinds = true
				w.Fail(onceOnAWatch(fault{NoBookmarks: true})) // nor is it said by one
				i := w.informer(opts...)
				i.Handle(rec.handle)
				run(t, i, func() {
					after(time.Second)
					w.Fail(func(r request) fault {
						if n, _ := strconv.Atoi(r.RV); n > 900 && r.Watch && !r.Initial {
							return fault{Status: 504, Reason: "Timeout", TooLarge: true}
						}
						return fault{}
					})
					w.Reset(500, listwatchtest.Object{Key: key("a"), UID: "u1", RV: 400, Value: 7})
					after(12 * time.Minute) // the watch of before has ended
					s := i.Status()
					if s.Incidents[informer.TooLarge] < 3 || s.Incidents[informer.WentBack] != 1 {
						t.Errorf("status %+v", s)
					}
					w.Put("a", 8)
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

// dying is a listener whose connections can die silently, as with a pulled cable: writes
// succeed and are lost.
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

// TestADeadHTTP1ConnectionIsReplaced when its bookmarks stop. HTTP/1.1 has no ping, and
// the kernel takes a quarter of an hour (client-go#374).
func TestADeadHTTP1ConnectionIsReplaced(t *testing.T) {
	w := newServer()
	w.Put("a", 1)
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	line := &dying{Listener: plain}
	spoke := make(chan int, 1024)
	w.BookmarkEvery = 5 * time.Millisecond
	srv := &httptest.Server{
		Listener: line, Config: &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			spoke <- r.ProtoMajor
			w.ServeHTTP(rw, r)
		})},
	}
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
		t.Fatalf("wait until it is synced: %v", err)
	}
	w.Tick()
	if err := i.WaitRevision(ctx, "1002"); err != nil { // by a bookmark
		t.Fatalf("wait for the revision: %v", err)
	}
	line.die()
	w.Put("b", 2) // lost in the dead connection
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
		t.Errorf("wait for the end: %v", err)
	}
}
