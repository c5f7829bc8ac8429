package discovery

import (
	discoveryv1 "k8s.io/api/discovery/v1"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/warn"
)

// warnEndpointSlice warns about an EndpointSlice. Addresses that upstream's controllers have
// written are in order.
func warnEndpointSlice(o, old *discoveryv1.EndpointSlice) []string {
	var l warn.List
	if old == nil && o.AddressType == discoveryv1.AddressTypeFQDN {
		l.Say("spec.addressType: FQDN endpoints are deprecated")
	}
	switch o.Labels[discoveryv1.LabelManagedBy] {
	case "endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io":
		return l.Texts()
	}
	for i := range o.Endpoints {
		for j, address := range o.Endpoints[i].Addresses {
			l.Address(func() *field.Path { return field.NewPath("endpoints").Index(i).Child("addresses").Index(j) }, address)
		}
	}
	return l.Texts()
}
