package discovery

import (
	"strconv"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/table"
)

func endpointSliceTable() kinds.Table {
	return table.Of(sliceCells, table.Name(),
		table.Str("AddressType", table.Doc(discoveryv1.EndpointSlice{}, "addressType")),
		table.Str("Ports", table.Doc(discoveryv1.EndpointSlice{}, "ports")),
		table.Str("Endpoints", table.Doc(discoveryv1.EndpointSlice{}, "endpoints")),
		table.Age())
}

func sliceCells(o *discoveryv1.EndpointSlice, r table.Meta) []any {
	var ports, endpoints []string
	for _, p := range o.Ports {
		port := table.Text(p.Name, "*")
		if p.Port != nil {
			port = strconv.Itoa(int(*p.Port))
		}
		ports = append(ports, port)
	}
	for _, e := range o.Endpoints {
		endpoints = append(endpoints, e.Addresses...)
	}
	return []any{
		r.Name, string(o.AddressType), table.Or(table.JoinFirst(ports, table.ShownAddresses, ","), "<unset>"),
		table.Or(table.JoinFirst(endpoints, table.ShownAddresses, ","), "<unset>"), r.Age,
	}
}
