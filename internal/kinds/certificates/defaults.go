package certificates

import "github.com/gapless-io/gapless/internal/kinds/tree"

// Defaults as of pkg/apis/certificates/v1/defaults.go of Kubernetes 1.37.

// defaultPodRequest fills in the defaults of a request for a certificate of a pod.
func defaultPodRequest(o tree.Object) {
	tree.SetPointer(tree.Made(o, "spec"), "maxExpirationSeconds", int64(86400))
}
