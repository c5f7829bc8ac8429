package integration

// What upstream's tests and this directory import, so that go.mod has it.
import (
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/stretchr/testify/require"
	_ "go.etcd.io/etcd/client/v3"
	_ "go.uber.org/goleak"
	_ "k8s.io/client-go/kubernetes"
	_ "k8s.io/kubernetes/pkg/controlplane"
	_ "k8s.io/sample-apiserver/pkg/apiserver"
)
