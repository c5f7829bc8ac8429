//go:build !linux

package stream

import "net"

// BoundUnsent does nothing on this system: the kernel's own bound stays.
func BoundUnsent(net.Conn) {}
