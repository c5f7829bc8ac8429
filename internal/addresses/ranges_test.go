package addresses

import (
	"net/netip"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/net"
)

// TestTheFirstAddressesAreGivenOutLast: the figures are those of KEP-3070.
func TestTheFirstAddressesAreGivenOutLast(t *testing.T) {
	for text, want := range map[string]struct{ first, last, size, static uint64 }{
		"10.0.0.0/24":  {1, 254, 254, 16},
		"10.0.0.0/28":  {1, 14, 14, 0},
		"10.0.0.0/27":  {1, 30, 30, 16},
		"10.0.0.0/20":  {1, 4094, 4094, 256},
		"10.0.0.0/30":  {1, 2, 2, 0},
		"fd00::/112":   {1, 65535, 65535, 256},
		"fd00::f0/124": {0xf1, 0xff, 15, 0},
	} {
		c, err := newCIDR(netip.MustParsePrefix(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		number := func(ip netip.Addr) uint64 {
			b := ip.As16()
			return uint64(b[14])<<8 + uint64(b[15])
		}
		got := struct{ first, last, size, static uint64 }{number(c.first), number(c.at(c.size - 1)), c.size, c.static}
		if got != want {
			t.Errorf("%s has %v, want %v", text, got, want)
		}
		var given []netip.Addr
		for ip := range c.free(func(netip.Addr) bool { return false }) {
			given = append(given, ip)
		}
		for i, ip := range given {
			if late := number(ip)-want.first < want.static; late != (uint64(i) >= want.size-want.static) || !c.has(ip) {
				t.Errorf("%s: %v is the %d. that is given out", text, ip, i)
			}
		}
		slices.SortFunc(given, netip.Addr.Compare)
		if unique := slices.Compact(slices.Clone(given)); uint64(len(unique)) != want.size || len(unique) != len(given) {
			t.Errorf("%s: %d addresses are given out, %d of them different, want %d", text, len(given), len(unique), want.size)
		}
		if c.has(c.prefix.Addr()) || c.first.Is4() && c.has(c.at(c.size)) {
			t.Errorf("%s: the addresses of the network are given out", text)
		}
	}
}

func TestARangeOfNoUseIsRefused(t *testing.T) {
	for text, wrong := range map[string]bool{
		"10.0.0.0/32": true, "10.0.0.0/31": true, "10.0.0.0/30": false, "fd00::/63": true, "fd00::/64": false, "fd00::/128": true,
		"0.0.0.0/0": false,
	} {
		if err := checkRange(netip.MustParsePrefix(text)); (err != nil) != wrong {
			t.Errorf("%s: %v, want an error: %v", text, err, wrong)
		}
	}
}

func TestTheFirstPortsAreGivenOutLast(t *testing.T) {
	for text, static := range map[string]int{"30000-32767": 86, "30000-30009": 0, "30000-30099": 16, "1024-65535": 128} {
		r, err := net.ParsePortRange(text)
		if err != nil {
			t.Fatalf("parse a range: %v", err)
		}
		taken := map[int]bool{}
		in := portRange(*r)
		for i := range in.Size {
			port, ok := in.free(func(port int) bool { return taken[port] })
			if !ok || taken[port] || !in.has(port) {
				t.Fatalf("%s: the %d. port is %d, %v", text, i, port, ok)
			}
			if late := port-in.Base < static; late != (i >= in.Size-static) {
				t.Fatalf("%s: %d is the %d. that is given out", text, port, i)
			}
			taken[port] = true
		}
		if port, ok := in.free(func(port int) bool { return taken[port] }); ok {
			t.Errorf("%s: %d is given out twice", text, port)
		}
	}
}
