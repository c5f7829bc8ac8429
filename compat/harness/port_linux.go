package harness

import (
	"net/netip"
	"strconv"
	"syscall"
	"testing"
)

// freePort returns a port of the loopback address that the system gives to nobody else until the test
// ends, also while the program that listens there is stopped. A socket is bound to it that does not
// listen: connections are refused, and programs that set SO_REUSEADDR, as Go's do, may listen.
func freePort(t testing.TB) string {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("reserve a port: %v", err)
		}
	}
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	must(err)
	t.Cleanup(func() { _ = syscall.Close(socket) }) // it was open
	must(syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1))
	must(syscall.Bind(socket, &syscall.SockaddrInet4{Addr: netip.MustParseAddr("127.0.0.1").As4()}))
	name, err := syscall.Getsockname(socket)
	must(err)
	bound, _ := name.(*syscall.SockaddrInet4)
	return strconv.Itoa(bound.Port)
}
