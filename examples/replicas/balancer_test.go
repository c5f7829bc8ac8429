//go:build unix

package main

import (
	"context"
	"io"
	"net"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// listen listens on a port of this machine until the test ends.
func listen(t *testing.T) net.Listener {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	t.Cleanup(func() { _ = l.Close() }) // the test may have closed it
	return l
}

// greet answers every connection with a name, and closes it.
func greet(l net.Listener, name string) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, name) // the client sees what is missing
		_ = conn.Close()
	}
}

func TestTheBalancerPassesOverServersThatAreAway(t *testing.T) {
	one, two, away := listen(t), listen(t), listen(t)
	if err := away.Close(); err != nil {
		t.Fatalf("close a listener: %v", err)
	}
	go greet(one, "one") // they end with their listeners
	go greet(two, "two")
	b := &balancer{
		listener: listen(t), servers: []string{one.Addr().String(), away.Addr().String(), two.Addr().String()},
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.run(ctx) }() // it ends with ctx
	answered := map[string]int{}
	for range 6 {
		var dialer net.Dialer
		conn, err := dialer.DialContext(t.Context(), "tcp", b.listener.Addr().String())
		if err != nil {
			t.Fatalf("connect to the balancer: %v", err)
		}
		name, err := io.ReadAll(conn)
		if err != nil {
			t.Errorf("read an answer: %v", err)
		}
		_ = conn.Close() // it was read completely
		answered[string(name)]++
	}
	if answered["one"] != 2 || answered["two"] != 4 { // in the place of the one that is away, too
		t.Errorf("the servers have answered %v", answered)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("run the balancer: %v", err)
	}
}
