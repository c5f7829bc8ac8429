package etcdstore_test

import (
	"context"
	"net"
	"net/url"
	"sync"
	"testing"
)

// wire forwards connections to an etcd, and can hold what goes one way: the other side only sees that
// nothing comes.
type wire struct {
	listener net.Listener
	wg       sync.WaitGroup

	// mu guards what follows.
	mu     sync.Mutex
	target string
	held   map[direction]chan struct{} // closed when it is let go; nil: nothing is held
	full   map[direction]bool          // something has come that is held
	passed map[direction]bool          // something has come at all
	conns  map[net.Conn]bool
	opened int // how many connections there were
}

type direction int

const (
	requests direction = iota
	answers
)

func newWire(t *testing.T, memberURL string) *wire {
	t.Helper()
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	w := &wire{
		listener: listener, held: map[direction]chan struct{}{}, full: map[direction]bool{}, passed: map[direction]bool{},
		conns: map[net.Conn]bool{},
	}
	w.lead(t, memberURL)
	ctx := context.WithoutCancel(t.Context())
	w.wg.Go(func() { // ends when the listener is closed
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			w.wg.Go(func() { w.pass(ctx, client) }) // ends with either side
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		w.release()
		w.cut()
		w.wg.Wait()
	})
	return w
}

func (w *wire) url() string { return "http://" + w.listener.Addr().String() }

// lead has new connections lead to an etcd.
func (w *wire) lead(t *testing.T, memberURL string) {
	t.Helper()
	u, err := url.Parse(memberURL)
	if err != nil {
		t.Fatalf("parse the URL of etcd: %v", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.target = u.Host
}

func (w *wire) pass(ctx context.Context, client net.Conn) {
	var d net.Dialer
	w.mu.Lock()
	target := w.target
	w.mu.Unlock()
	server, err := d.DialContext(ctx, "tcp", target)
	if err != nil {
		_ = client.Close()
		return
	}
	w.mu.Lock()
	w.conns[client], w.conns[server] = true, true
	w.opened++
	w.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { w.copy(requests, server, client) })
	both.Go(func() { w.copy(answers, client, server) })
	both.Wait()
	w.mu.Lock()
	delete(w.conns, client)
	delete(w.conns, server)
	w.mu.Unlock()
}

func (w *wire) copy(d direction, to, from net.Conn) {
	defer func() {
		_ = to.Close()
		_ = from.Close()
	}()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		w.mu.Lock()
		held := w.held[d]
		w.passed[d] = w.passed[d] || n > 0
		w.full[d] = w.full[d] || held != nil && n > 0
		w.mu.Unlock()
		if held != nil {
			<-held
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// hold holds what goes in a direction from now on.
func (w *wire) hold(d direction) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held[d] == nil {
		w.held[d] = make(chan struct{})
	}
}

// holding reports whether something has come in a direction that is held.
func (w *wire) holding(d direction) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.full[d]
}

// connections returns how many there were.
func (w *wire) connections() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.opened
}

// answered reports whether etcd has answered over it.
func (w *wire) answered() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.passed[answers]
}

// release lets everything go on.
func (w *wire) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for d, c := range w.held {
		close(c)
		delete(w.held, d)
		delete(w.full, d)
	}
}

// cut ends the open connections. What is held is lost.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		_ = c.Close()
	}
}
