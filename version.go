package gapless

import (
	"k8s.io/apimachinery/pkg/version"

	"github.com/gapless-io/gapless/internal/serve"
)

// KubernetesVersion is the version of the Kubernetes API that the server implements.
const KubernetesVersion = "1.37.2"

// Version returns what /version answers: the Kubernetes version with the
// module's own version, or the commit it was built from, behind "+gapless".
func Version() version.Info { return serve.Version("1", "37", KubernetesVersion) }
