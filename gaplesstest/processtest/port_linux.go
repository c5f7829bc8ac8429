package processtest

import (
	"context"
	"fmt"
	"net"
	"syscall"
)

// reserve reserves a port for all processes of a server, so that no other program gets it while
// the server is being restarted: by a socket that is bound and does not listen. Linux
// lets another socket listen there, as the server's, which names the port, and does not choose
// the port for a socket that asks for any.
func reserve(ctx context.Context) (*port, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return choose(ctx)
	}
	p := &port{release: func() error { return syscall.Close(fd) }}
	err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	if err == nil {
		err = syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	var bound syscall.Sockaddr
	if err == nil {
		bound, err = syscall.Getsockname(fd)
	}
	in, is := bound.(*syscall.SockaddrInet4)
	if err != nil || !is {
		_ = p.close()
		return choose(ctx)
	}
	p.address = (&net.TCPAddr{IP: in.Addr[:], Port: in.Port}).String()
	// Not every kernel that says it is Linux does so.
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", p.address)
	if err != nil {
		_ = p.close()
		return choose(ctx)
	}
	if err := l.Close(); err != nil {
		return nil, fmt.Errorf("try the port of the server: %w", err)
	}
	return p, nil
}
