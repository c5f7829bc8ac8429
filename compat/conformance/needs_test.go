package conformance

// What the suites import, so that go.mod has it.
import (
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/google/gofuzz"
	_ "github.com/onsi/ginkgo/v2"
	_ "github.com/onsi/gomega/gbytes"
	_ "github.com/stretchr/testify/assert"
	_ "go.uber.org/goleak"
	_ "k8s.io/api/core/v1"
	_ "k8s.io/apimachinery/pkg/watch"
	_ "k8s.io/client-go/tools/cache"
	_ "k8s.io/klog/v2/ktesting"
	_ "sigs.k8s.io/controller-runtime/examples/crd/pkg"
	_ "sigs.k8s.io/controller-runtime/pkg/builder"
	_ "sigs.k8s.io/controller-runtime/pkg/envtest"
	_ "sigs.k8s.io/controller-runtime/pkg/log/zap"
	_ "sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	_ "sigs.k8s.io/randfill"
)
