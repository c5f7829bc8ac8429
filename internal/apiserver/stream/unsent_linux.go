package stream

import (
	"crypto/tls"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// unsentBytes is how much the kernel takes of a watch beyond what is on its way to
// the client: without it, up to 4 MiB (tcp_wmem) for each client that does not read.
const unsentBytes = 4 * pieceBytes

// BoundUnsent bounds what the kernel buffers for a client that does not read, to
// 128 KiB. Hijack and Upgrade call it; for HTTP/2 it must be called when the connection
// is accepted. If it fails the kernel's own bound stays.
func BoundUnsent(conn net.Conn) {
	if secure, is := conn.(*tls.Conn); is {
		conn = secure.NetConn()
	}
	if socket, is := conn.(syscall.Conn); is {
		raw, err := socket.SyscallConn()
		if err != nil {
			return // it is closed
		}
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsentBytes)
		})
	}
}
