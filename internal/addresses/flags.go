package addresses

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// ParseRanges parses the values of --service-cluster-ip-range: one range, or one of each IP family. Errors: upstream's
// (cmd/kube-apiserver/app/options).
func ParseRanges(texts ...string) ([]netip.Prefix, error) {
	if len(texts) > 2 {
		return nil, errors.New("--service-cluster-ip-range must not contain more than two entries")
	}
	var all []netip.Prefix
	for i, text := range texts {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("service-cluster-ip-range[%d] is not a valid cidr: %q; want a range like 10.0.0.0/24", i, text)
		}
		if err := checkRange(prefix); err != nil {
			return nil, fmt.Errorf("--service-cluster-ip-range %s: %w", text, err)
		}
		all = append(all, prefix.Masked())
	}
	if len(all) == 2 && all[0].Addr().Is6() == all[1].Addr().Is6() {
		return nil, errors.New("--service-cluster-ip-range[0] and --service-cluster-ip-range[1] must be of different IP family")
	}
	return all, nil
}

// ParsePorts parses the value of --service-node-port-range.
func ParsePorts(text string) (utilnet.PortRange, error) {
	r, err := utilnet.ParsePortRange(text)
	if err != nil || r.Size == 0 || r.Base == 0 {
		return utilnet.PortRange{}, fmt.Errorf("--service-node-port-range %q: want a range of ports like 30000-32767", text)
	}
	return *r, nil
}
