package e2e_test

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// gate is a TCP proxy with a fixed address, so that a server behind it can be replaced.
type gate struct {
	listener net.Listener
	all      sync.WaitGroup

	// mu guards to and open.
	mu   sync.Mutex
	to   string
	open map[net.Conn]bool
}

// newGate returns a gate that refuses connections; it ends with the test.
func newGate(t *testing.T) *gate {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	g := &gate{listener: listener, open: map[net.Conn]bool{}}
	g.all.Go(g.accept) // ends when the listener is closed
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Errorf("close listener: %v", err)
		}
		g.connect("")
		g.all.Wait()
	})
	return g
}

// connect closes all connections and forwards new ones to an address; "": to none.
func (g *gate) connect(to string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.to = to
	for conn := range g.open {
		_ = conn.Close() // both ends see that
	}
	clear(g.open)
}

func (g *gate) accept() {
	for {
		in, err := g.listener.Accept()
		if err != nil {
			return
		}
		g.mu.Lock()
		to := g.to
		g.mu.Unlock()
		out, err := net.Dial("tcp", to)
		if to == "" || err != nil {
			_ = in.Close() // that is the point of it
			continue
		}
		g.mu.Lock()
		g.open[in], g.open[out] = true, true
		if g.to != to {
			_, _ = in.Close(), out.Close() // closed meanwhile
		}
		g.mu.Unlock()
		for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
			g.all.Go(func() { // ends when either is closed
				_, _ = io.Copy(pair[0], pair[1])
				_, _ = pair[0].Close(), pair[1].Close()
			})
		}
	}
}

// config is a client's that goes through the gate.
func (g *gate) config(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Host = "https://" + g.listener.Addr().String()
	return cfg
}

func host(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatalf("parse an address: %v", err)
	}
	return u.Host
}
