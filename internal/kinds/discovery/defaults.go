package discovery

import "github.com/gapless-io/gapless/internal/kinds/tree"

// Defaults as of pkg/apis/discovery/v1/defaults.go of Kubernetes 1.37.

// defaultEndpointSlice fills in the defaults of an endpoint slice.
func defaultEndpointSlice(o tree.Object) {
	for port := range tree.Items(o, "ports") {
		tree.SetPointer(port, "name", "")
		tree.SetPointer(port, "protocol", "TCP")
	}
}

// completeEndpointSlice removes the topology of endpoints, which only the beta versions had.
func completeEndpointSlice(u, old tree.Object) error {
	if old != nil {
		return nil
	}
	for endpoint := range tree.Items(u, "endpoints") {
		delete(endpoint, "deprecatedTopology")
	}
	return nil
}
