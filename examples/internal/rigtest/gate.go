package rigtest

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
)

// gate passes connections on, until they are cut or it is shut.
type gate struct {
	listener net.Listener
	group    sync.WaitGroup

	// mu guards what is below.
	mu   sync.Mutex
	to   string
	shut bool
	open map[net.Conn]struct{}
}

// openGate listens on a port of this machine until the test ends.
func openGate(t testing.TB) *gate {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{listener: listener, open: map[net.Conn]struct{}{}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	g.group.Go(func() { g.accept(ctx) }) // ends with the listener
	t.Cleanup(func() {
		cancel()
		_ = listener.Close() // once, here
		g.Shut()
		g.group.Wait()
	})
	return g
}

func (g *gate) address() string { return g.listener.Addr().String() }

// lead says where connections go from now on.
func (g *gate) lead(to string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.to = to
}

// Cut closes the connections that there are.
func (g *gate) Cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for conn := range g.open {
		_ = conn.Close() // reads on both sides fail
	}
}

// Shut closes the connections and refuses others.
func (g *gate) Shut() {
	g.mu.Lock()
	g.shut = true
	g.mu.Unlock()
	g.Cut()
}

// Open lets connections through again.
func (g *gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = false
}

func (g *gate) accept(ctx context.Context) {
	for {
		in, err := g.listener.Accept()
		if err != nil {
			return
		}
		g.group.Go(func() { g.pass(ctx, in) }) // ends with either connection
	}
}

// keep notes a connection, to be cut; if the gate is shut it closes it.
func (g *gate) keep(conn net.Conn) (to string, kept bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		_ = conn.Close() // it is unused
		return "", false
	}
	g.open[conn] = struct{}{}
	return g.to, true
}

func (g *gate) drop(conn net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.open, conn)
	_ = conn.Close() // perhaps again
}

func (g *gate) pass(ctx context.Context, in net.Conn) {
	to, kept := g.keep(in)
	if !kept {
		return
	}
	defer g.drop(in)
	out, err := new(net.Dialer).DialContext(ctx, "tcp", to)
	if err != nil {
		return
	}
	if _, kept := g.keep(out); !kept {
		return
	}
	defer g.drop(out)
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(out, in) // its end is the end of both
		g.drop(in)
		g.drop(out)
	})
	_, _ = io.Copy(in, out)
	g.drop(in)
	g.drop(out)
	both.Wait()
}
