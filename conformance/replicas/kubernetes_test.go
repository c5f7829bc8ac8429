package replicas_test

import (
	"fmt"
	"net/url"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/compat/harness"
)

// ports are those of the endpoints of the Service kubernetes: in the Endpoints and in the EndpointSlice; 0 where there are
// none.
func ports(t *testing.T, c kubernetes.Interface) (all [2]int32) {
	t.Helper()
	endpoints, err := c.CoreV1().Endpoints("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		t.Fatalf("read the Endpoints: %v", err)
	case len(endpoints.Subsets) == 1:
		all[0] = endpoints.Subsets[0].Ports[0].Port
	}
	slice, err := c.DiscoveryV1().EndpointSlices("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		t.Fatalf("read the EndpointSlice: %v", err)
	case len(slice.Endpoints) == 1:
		all[1] = *slice.Ports[0].Port
	}
	return all
}

func portOf(t *testing.T, at string) (port int32) {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatalf("parse a URL: %v", err)
	}
	if _, err := fmt.Sscan(u.Port(), &port); err != nil {
		t.Fatalf("read the port of %s: %v", at, err)
	}
	return port
}

// own are the ports of a replica.
func (r *replica) own(t *testing.T) [2]int32 {
	t.Helper()
	port := portOf(t, r.URL())
	return [2]int32{port, port}
}

// TestTheServiceKubernetesLeadsToTheLeader where there is no kube-apiserver.
func TestTheServiceKubernetesLeadsToTheLeader(t *testing.T) {
	at := member(t)
	server := func(cfg *gapless.Config) { cfg.Bootstrap = gapless.BootstrapServer }
	a := start(t, at, t.TempDir(), server)
	harness.Eventually(t, "the endpoints are those of the leader", func() bool { return ports(t, a.client) == a.own(t) })
	service, err := a.client.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil || service.Spec.ClusterIP != "10.0.0.1" {
		t.Errorf("the Service is %v (%v)", service, err)
	}
	if _, err := a.client.NetworkingV1().IPAddresses().Get(t.Context(), "10.0.0.1", metav1.GetOptions{}); err != nil {
		t.Errorf("read its IPAddress: %v", err)
	}
	b := start(t, at, t.TempDir(), server)
	if got := ports(t, b.client); got != a.own(t) {
		t.Errorf("the endpoints are %v, want those of the leader", got)
	}
	a.stop(t)
	harness.Eventually(t, "the endpoints are those of the next leader", func() bool { return ports(t, b.client) == b.own(t) })
}

// TestTheServiceKubernetesIsLeftToKubeAPIServer: the leader makes what is missing of the rest, and nothing of it.
func TestTheServiceKubernetesIsLeftToKubeAPIServer(t *testing.T) {
	cluster := harness.StartCluster(t, "--endpoint-reconciler-type=lease",
		"--advertise-address=192.0.2.9") // not a loopback address
	admin := cluster.Admin
	upstream, err := kubernetes.NewForConfig(&rest.Config{
		Host: cluster.URL, TLSClientConfig: rest.TLSClientConfig{CAData: admin.CA, CertData: admin.Cert, KeyData: admin.Key},
	})
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	port := portOf(t, cluster.URL)
	harness.Eventually(t, "kube-apiserver makes its endpoints", func() bool {
		return ports(t, upstream) == [2]int32{port, port}
	})
	r := start(t, cluster.EtcdURL(), t.TempDir(), func(cfg *gapless.Config) { cfg.Bootstrap = gapless.BootstrapCluster })
	harness.Eventually(t, "the replica leads, and has made what is missing", func() bool {
		_, err := r.client.CoreV1().ConfigMaps("default").Get(t.Context(), rootCA, metav1.GetOptions{})
		return err == nil
	})
	service, err := upstream.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil || service.Spec.Ports[0].TargetPort.IntVal != port {
		t.Errorf("the Service is %v (%v), want kube-apiserver's", service, err)
	}
	if got := ports(t, upstream); got != [2]int32{port, port} {
		t.Errorf("the endpoints have the ports %v, want kube-apiserver's %d", got, port)
	}
}
