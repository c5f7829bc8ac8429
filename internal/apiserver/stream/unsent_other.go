//go:build !linux

package stream

import "net"

// boundUnsent leaves the kernel's own bound.
func boundUnsent(net.Conn) {}
