package processtest

import (
	"context"
	"fmt"
	"net"
)

// port is the address on which each process of a server listens.
type port struct {
	address string
	release func() error // gives back the reservation
}

func (p *port) close() error { return p.release() }

// choose returns a port that is free now.
func choose(ctx context.Context) (*port, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("find a port: %w", err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, fmt.Errorf("find a port: %w", err)
	}
	return &port{address: address, release: func() error { return nil }}, nil
}
