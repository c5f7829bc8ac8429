package harness

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
)

// Proxy forwards TCP connections to a server, and can cut and refuse them.
type Proxy struct {
	address string
	wg      sync.WaitGroup

	mu sync.Mutex
	// mu guards target, listener (nil while connections are refused), open and taken.
	target   string
	listener net.Listener
	open     map[net.Conn]struct{}
	taken    int
}

// NewProxy starts a proxy to a server, a relay or a cluster, until the test ends.
func NewProxy(t testing.TB, to interface{ Address() string }) *Proxy {
	t.Helper()
	p := &Proxy{target: to.Address(), address: "127.0.0.1:" + freePort(t), open: map[net.Conn]struct{}{}}
	p.Accept(t)
	t.Cleanup(func() {
		p.Refuse()
		p.Cut()
		p.wg.Wait()
	})
	return p
}

// URL returns the proxy's URL for clients.
func (p *Proxy) URL() string { return "https://" + p.address }

// Refuse refuses new connections by closing the listener; open ones continue.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
}

// Accept takes new connections again, at the same address.
func (p *Proxy) Accept(t testing.TB) {
	t.Helper()
	// Connections end with Cut and Refuse, not with the test's context.
	ctx := context.WithoutCancel(t.Context())
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", p.address)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener = listener
	p.wg.Go(func() { // ends when the listener is closed
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.pass(ctx, client) }) // ends when either side is closed
		}
	})
}

// Connections returns how many connections it has taken.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}

// Cut closes all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		_ = c.Close()
	}
}

// Move makes new connections go to another server, and closes those to the one before.
func (p *Proxy) Move(to interface{ Address() string }) {
	p.mu.Lock()
	p.target = to.Address()
	p.mu.Unlock()
	p.Cut()
}

// keep records a connection. It returns where new ones go; "" while they are refused.
func (p *Proxy) keep(c net.Conn) (target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener == nil {
		return ""
	}
	p.open[c] = struct{}{}
	return p.target
}

func (p *Proxy) drop(c net.Conn) {
	p.mu.Lock()
	delete(p.open, c)
	p.mu.Unlock()
	_ = c.Close()
}

func (p *Proxy) pass(ctx context.Context, client net.Conn) {
	defer p.drop(client)
	target := p.keep(client)
	if target == "" {
		return
	}
	p.mu.Lock()
	p.taken++
	p.mu.Unlock()
	var d net.Dialer
	server, err := d.DialContext(ctx, "tcp", target)
	if err != nil {
		return
	}
	defer p.drop(server)
	if p.keep(server) != target { // it has moved meanwhile
		return
	}
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			_, _ = client.Close(), server.Close()
		})
	}
	both.Wait()
}
