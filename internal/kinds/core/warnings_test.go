package core

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The texts of all kinds are compared with upstream's in conformance/builtin.

func pod(containers ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.PodSpec{Containers: containers}}
}

func TestEnvironmentsThatHideVariablesAreWarnedAbout(t *testing.T) {
	// Few and many are compared in different ways.
	for _, n := range []int{0, 20} {
		var c corev1.Container
		for i := range n {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprint("V", i)})
		}
		c.Env = append(c.Env,
			corev1.EnvVar{Name: "A", Value: "1"}, corev1.EnvVar{Name: "A", Value: "$(A):2"},
			corev1.EnvVar{Name: "A", Value: "$(A)"}, corev1.EnvVar{Name: "A", Value: "3"})
		want := []string{
			fmt.Sprintf(
				`spec.containers[0].env[%d]: hides previous definition of "A", which may be dropped when using apply`,
				n+2,
			),
			fmt.Sprintf(
				`spec.containers[0].env[%d]: hides previous definition of "A", which may be dropped when using apply`,
				n+3,
			),
		}
		if diff := cmp.Diff(want, warnPod(pod(c), nil)); diff != "" {
			t.Errorf("after %d others:\n%s", n, diff)
		}
	}
}

func TestUpdatesOfPodsAreNotWarnedAbout(t *testing.T) {
	p := pod(corev1.Container{Env: []corev1.EnvVar{{Name: "A"}, {Name: "A"}}})
	if got := warnPod(p, p); got != nil {
		t.Errorf("%q", got)
	}
}

func TestOnlyUnusualAddressesAreWarnedAbout(t *testing.T) {
	o := &corev1.Service{Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeExternalName, LoadBalancerIP: "no address",
		LoadBalancerSourceRanges: []string{"10.0.0.0/8", "2001:db8::/32", "2001:DB8::/32", "10.0.0.1/8", " 10.0.0.0/8"},
	}}
	want := []string{
		`spec.loadBalancerSourceRanges[2]: IPv6 CIDR value "2001:DB8::/32" should be in RFC 5952 canonical ` +
			`format ("2001:db8::/32")`,
		`spec.loadBalancerSourceRanges[3]: CIDR value "10.0.0.1/8" is ambiguous in this context (should be ` +
			`"10.0.0.0/8" or "10.0.0.1/32"?)`,
	}
	if diff := cmp.Diff(want, warnService(o, nil)); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestManyWarningsAboutEndpointsAreCutOff(t *testing.T) {
	const n, most = 60_000, 400
	addresses := make([]corev1.EndpointAddress, n)
	for i := range n {
		addresses[i] = corev1.EndpointAddress{IP: fmt.Sprintf("2001:DB8::%x", i)}
	}
	subset := corev1.EndpointSubset{Addresses: addresses} //nolint:staticcheck // a server serves it
	o := &corev1.Endpoints{}                              //nolint:staticcheck // as above
	o.Subsets = append(o.Subsets, subset)
	if got := warnEndpoints(o, nil); len(got) != most {
		t.Errorf("%d warnings about endpoints, want %d", len(got), most)
	}
}

// BenchmarkPod is about a usual pod, which gets no warnings.
func BenchmarkPod(b *testing.B) {
	container := func(name string, port int32) corev1.Container {
		return corev1.Container{
			Name: name, Image: "i", Env: []corev1.EnvVar{{Name: "A"}, {Name: "B"}, {Name: "C"}},
			Ports: []corev1.ContainerPort{{Name: name, ContainerPort: port, Protocol: corev1.ProtocolTCP}},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
			},
		}
	}
	p := pod(container("a", 80), container("b", 81))
	p.Annotations, p.Spec.NodeSelector = map[string]string{"a": "b"}, map[string]string{"zone": "a"}
	b.ReportAllocs()
	for b.Loop() {
		if got := warnPod(p, nil); got != nil {
			b.Fatalf("warnings: %q", got)
		}
	}
}
