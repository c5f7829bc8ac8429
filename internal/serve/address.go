package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
)

// Listen returns a listener that is given, or else one on an address.
func Listen(ctx context.Context, given net.Listener, address string) (net.Listener, error) {
	if given != nil {
		return given, nil
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is in use by another program: stop it, "+
			"or use another address (127.0.0.1:0 picks a free port): %w", address, err)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return listener, nil
}

// URL returns the URL of what listens; for all interfaces that of the loopback one.
func URL(listener net.Listener) string {
	host, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "https://" + net.JoinHostPort(host, port)
}

// Reachable returns the address at which other programs reach a listener: its own, or,
// if it listens on all interfaces, that of the first one that is not loopback.
func Reachable(listener net.Addr) (netip.AddrPort, error) {
	own, err := netip.ParseAddrPort(listener.String())
	if err != nil {
		return own, fmt.Errorf("address of the listener: %w", err)
	}
	address := own.Addr().Unmap().WithZone("")
	if !address.IsUnspecified() {
		return netip.AddrPortFrom(address, own.Port()), nil
	}
	address = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if all, err := net.InterfaceAddrs(); err == nil {
		for _, a := range all {
			n, is := a.(*net.IPNet)
			if !is || !n.IP.IsGlobalUnicast() || n.IP.To4() == nil {
				continue // IPv4 as the Service
			}
			if found, ok := netip.AddrFromSlice(n.IP.To4()); ok {
				address = found
				break
			}
		}
	}
	return netip.AddrPortFrom(address, own.Port()), nil
}

// CertificateHosts returns the names that the serving certificate needs for an address,
// besides the loopback names that it always has.
func CertificateHosts(listen string) []string {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return nil
	}
	ip := net.ParseIP(host)
	if host != "" && (ip == nil || !ip.IsUnspecified()) {
		return []string{host}
	}
	var hosts []string
	if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, name)
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return hosts
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLinkLocalUnicast() {
			hosts = append(hosts, n.IP.String())
		}
	}
	return hosts
}
