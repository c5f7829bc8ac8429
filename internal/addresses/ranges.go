package addresses

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// cidr is a range of addresses. Its first ones are given out only when it has no others, so that clients can choose
// among them (upstream's KEP-3070).
type cidr struct {
	prefix netip.Prefix
	first  netip.Addr // without that of the network
	size   uint64     // how many there are from first on, for IPv4 without the last one
	static uint64     // how many of these are the first ones
}

// newCIDR returns the range of a prefix. Errors: it is too large for upstream (ipallocator.NewIPAllocator).
func newCIDR(prefix netip.Prefix) (cidr, error) {
	prefix = prefix.Masked()
	c := cidr{prefix: prefix, first: prefix.Addr().Next()}
	host := prefix.Addr().BitLen() - prefix.Bits()
	if host > 64 {
		return c, fmt.Errorf("shortest allowed prefix length for service CIDR is 64, got %d", prefix.Bits())
	}
	whole := uint64(math.MaxUint64)
	if host < 64 {
		whole = 1 << host
	}
	unused := uint64(1)
	if prefix.Addr().Is4() {
		unused = 2
	}
	c.size = whole - min(unused, whole)
	if host == 64 {
		c.size = math.MaxUint64
	}
	c.static = band(whole, 16, 256)
	return c, nil
}

// band is how many of a range's first ones are given out last: a part of it, but neither fewer than 16 nor more than
// most, and none of a range that is not larger (upstream's calculateRangeOffset).
func band(size, part, most uint64) uint64 {
	const least = 16
	if size <= least {
		return 0
	}
	return min(max(size/part, least), most)
}

// at returns an address by its number.
func (c cidr) at(n uint64) netip.Addr {
	if c.first.Is4() {
		b := c.first.As4()
		binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])+uint32(n)) //nolint:gosec // it is in the range
		return netip.AddrFrom4(b)
	}
	b := c.first.As16()
	binary.BigEndian.PutUint64(b[8:], binary.BigEndian.Uint64(b[8:])+n)
	return netip.AddrFrom16(b)
}

// has reports whether an address can be given out (upstream's servicecidr.PrefixContainsIP).
func (c cidr) has(ip netip.Addr) bool {
	if !c.prefix.Contains(ip) || ip == c.prefix.Addr() {
		return false
	}
	return ip.Is6() || c.size > 0 && ip != c.at(c.size)
}

// free returns the addresses for which taken is false, in the order in which they are given out: from one at random in
// the larger part on, then likewise in the smaller one.
func (c cidr) free(taken func(netip.Addr) bool) func(yield func(netip.Addr) bool) {
	return func(yield func(netip.Addr) bool) {
		for _, part := range [][2]uint64{{min(c.static, c.size), c.size}, {0, min(c.static, c.size)}} {
			begin, n := part[0], part[1]-part[0]
			if n == 0 {
				continue
			}
			start := rand.Uint64N(n) //nolint:gosec // no secret
			for i := range n {
				offset := start + i
				if offset >= n || offset < start { // it may overflow
					offset -= n
				}
				if ip := c.at(begin + offset); !taken(ip) && !yield(ip) {
					return
				}
			}
		}
	}
}

// familyOf returns the family of an address.
func familyOf(ip netip.Addr) corev1.IPFamily {
	if ip.Is6() {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

func other(f corev1.IPFamily) corev1.IPFamily {
	if f == corev1.IPv4Protocol {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// checkRange returns an error for a range that nothing can be given out of.
func checkRange(prefix netip.Prefix) error {
	c, err := newCIDR(prefix)
	if err == nil && c.size == 0 {
		err = errors.New("it has no address besides that of the network; want a larger range")
	}
	return err
}
