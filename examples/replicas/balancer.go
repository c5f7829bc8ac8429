//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// dialWithin is how long a replica may take to accept a connection.
const dialWithin = time.Second

// balancer passes each connection on to the next of several servers that accepts it. It knows nothing of TLS or HTTP:
// a client whose replica has gone connects again, and gets another one.
type balancer struct {
	listener net.Listener
	servers  []string // host:port

	mu   sync.Mutex
	next int // mu guards it
}

// run passes connections on until ctx ends.
func (b *balancer) run(ctx context.Context) error {
	var open sync.WaitGroup
	defer open.Wait()
	stop := context.AfterFunc(ctx, func() { _ = b.listener.Close() }) // Accept returns
	defer stop()
	for {
		client, err := b.listener.Accept()
		if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept a connection: %w", err)
		}
		open.Go(func() { b.pass(ctx, client) }) // it ends with either side, or with ctx
	}
}

// pass passes on what a client and one of the servers send, until one of them has ended.
func (b *balancer) pass(ctx context.Context, client net.Conn) {
	ctx, done := context.WithCancel(ctx)
	defer done()
	server, err := b.dial(ctx)
	if err != nil {
		_ = client.Close() // it tries again
		return
	}
	context.AfterFunc(ctx, func() { _, _ = client.Close(), server.Close() }) // both copies end
	var copies sync.WaitGroup
	defer copies.Wait()
	// They end when both connections are closed, which the first that ends brings about.
	copies.Go(func() { defer done(); _, _ = io.Copy(server, client) })
	copies.Go(func() { defer done(); _, _ = io.Copy(client, server) })
}

// dial connects to the next server that accepts the connection.
func (b *balancer) dial(ctx context.Context) (net.Conn, error) {
	b.mu.Lock()
	first := b.next
	b.next++
	b.mu.Unlock()
	var all error
	for i := range b.servers {
		dialer := net.Dialer{Timeout: dialWithin}
		conn, err := dialer.DialContext(ctx, "tcp", b.servers[(first+i)%len(b.servers)])
		if err == nil {
			return conn, nil
		}
		all = errors.Join(all, err)
	}
	return nil, all
}
