package discovery_test

import (
	"testing"

	"github.com/gapless-io/gapless/internal/kinds/discovery"
	"github.com/gapless-io/gapless/internal/kinds/table/tabletest"
)

func TestEndpointSliceRows(t *testing.T) {
	tabletest.Check(
		t,
		tabletest.Of(discovery.Kinds(), "endpointslices.discovery.k8s.io"),
		"Name | AddressType | Ports | Endpoints | Age",
		[]tabletest.Case{
			{"empty", `{addressType: IPv4, endpoints: []}`, "x | IPv4 | <unset> | <unset> | 90m"},
			{
				"many",
				`{addressType: IPv6, ports: [{name: http, port: 80}, {name: any}, {}], endpoints: [{addresses: ["fd00::1"]}, ` +
					`{addresses: ["fd00::2", "fd00::3", "fd00::4"]}, {addresses: ["fd00::5"]}]}`,
				"x | IPv6 | 80,any,* | fd00::1,fd00::2,fd00::3 + 2 more... | 90m",
			},
		},
	)
}
