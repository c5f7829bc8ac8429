//go:build !linux

package stream

import "net"

// BoundUnsent leaves the kernel's own bound: what it does on Linux is not done here.
func BoundUnsent(net.Conn) {}
