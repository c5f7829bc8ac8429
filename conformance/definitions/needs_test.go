package definitions

// What upstream's tests import, so that go.mod has it.
import (
	_ "github.com/google/gnostic-models/openapiv2"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/google/uuid"
	_ "github.com/stretchr/testify/require"
	_ "go.etcd.io/etcd/client/v3"
	_ "k8s.io/api/autoscaling/v1"
	_ "k8s.io/apiextensions-apiserver/pkg/cmd/server/testing"
	_ "k8s.io/apimachinery/pkg/types"
	_ "k8s.io/apiserver/pkg/server"
	_ "k8s.io/client-go/dynamic"
	_ "k8s.io/component-base/logs/testinit"
	_ "k8s.io/klog/v2/ktesting"
	_ "k8s.io/kube-openapi/pkg/spec3"
	_ "k8s.io/utils/ptr"
	_ "sigs.k8s.io/yaml"
)
