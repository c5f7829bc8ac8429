package stream

import (
	"crypto/tls"
	"net"

	"golang.org/x/sys/unix"
)

// unsentBytes is how much the kernel takes of a watch beyond what is on its way to
// the client: without it, up to 4 MiB (tcp_wmem) for each client that does not read.
const unsentBytes = 4 * pieceBytes

// BoundUnsent bounds what waits in the kernel for a client that does not read, to
// 128 KiB. Hijack and Upgrade do it; for HTTP/2 it has to be done when the connection
// is accepted. Where it cannot be had the kernel's own bound stays.
func BoundUnsent(conn net.Conn) {
	if secure, is := conn.(*tls.Conn); is {
		conn = secure.NetConn()
	}
	if tcp, is := conn.(*net.TCPConn); is {
		raw, err := tcp.SyscallConn()
		if err != nil {
			return // it is closed
		}
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsentBytes)
		})
	}
}
