// Package discovery has the kinds of the group discovery.k8s.io: where services are reached.
package discovery

import (
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/gokind"
)

// Kinds returns the kinds of the group.
func Kinds() []*kinds.Resource {
	return []*kinds.Resource{
		gokind.Of(gokind.Row{
			Group: "discovery.k8s.io", Version: "v1", Kind: "EndpointSlice", Defaults: defaultEndpointSlice,
			Complete: completeEndpointSlice, Generation: kinds.GenerationOfContentAndLabels,
			Table: endpointSliceTable(),
		}, gokind.Rules[*discoveryv1.EndpointSlice]{
			Object: validateEndpointSlice, Create: validateNewEndpointSlice,
			Update: validateEndpointSliceUpdate, Warn: warnEndpointSlice,
		}),
	}
}
