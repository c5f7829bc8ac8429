package warnings

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
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
			corev1.EnvVar{Name: "A", Value: "1"}, corev1.EnvVar{Name: "A", Value: "$(A):2"}, corev1.EnvVar{Name: "A", Value: "$(A)"}, corev1.EnvVar{Name: "A", Value: "3"})
		want := []string{
			fmt.Sprintf(`spec.containers[0].env[%d]: hides previous definition of "A", which may be dropped when using apply`, n+2),
			fmt.Sprintf(`spec.containers[0].env[%d]: hides previous definition of "A", which may be dropped when using apply`, n+3),
		}
		if diff := cmp.Diff(want, Pod(pod(c), nil)); diff != "" {
			t.Errorf("after %d others:\n%s", n, diff)
		}
	}
}

func TestUpdatesOfPodsAreNotWarnedAbout(t *testing.T) {
	p := pod(corev1.Container{Env: []corev1.EnvVar{{Name: "A"}, {Name: "A"}}})
	if got := Pod(p, p); got != nil {
		t.Errorf("%q", got)
	}
}

func TestOnlyUnusualAddressesAreWarnedAbout(t *testing.T) {
	o := &corev1.Service{Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeExternalName, LoadBalancerIP: "no address",
		LoadBalancerSourceRanges: []string{"10.0.0.0/8", "2001:db8::/32", "2001:DB8::/32", "10.0.0.1/8", " 10.0.0.0/8"},
	}}
	want := []string{
		`spec.loadBalancerSourceRanges[2]: IPv6 CIDR value "2001:DB8::/32" should be in RFC 5952 canonical format ("2001:db8::/32")`,
		`spec.loadBalancerSourceRanges[3]: CIDR value "10.0.0.1/8" is ambiguous in this context (should be "10.0.0.0/8" or "10.0.0.1/32"?)`,
	}
	if diff := cmp.Diff(want, Service(o, nil)); diff != "" {
		t.Error(diff)
	}
	var l list
	for _, ip := range []string{"10.0.0.1", "2001:db8::1", "fe80::1", "no address", ""} {
		l.address(nil, ip) // a path would be asked for
	}
	if l.texts != nil {
		t.Errorf("%q", l.texts)
	}
}

// TestTheWorkOnOneObjectIsBounded takes objects of the maximum size of which each part is to
// be compared with all others, or gets a warning.
func TestTheWorkOnOneObjectIsBounded(t *testing.T) {
	const n = 60_000
	ports := make([]corev1.ContainerPort, n)
	items := make([]corev1.KeyToPath, n)
	addresses := make([]corev1.EndpointAddress, n)
	peers := make([]networkingv1.NetworkPolicyPeer, n)
	for i := range n {
		// One number, and no two that collide: nothing to warn about.
		ports[i] = corev1.ContainerPort{ContainerPort: 1, HostPort: 1, HostIP: fmt.Sprintf("10.0.%d.%d", i/256, i%256)}
		items[i] = corev1.KeyToPath{Path: fmt.Sprint(i)}
		addresses[i] = corev1.EndpointAddress{IP: fmt.Sprintf("2001:DB8::%x", i)}
		peers[i] = networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: fmt.Sprintf("2001:DB8::%x/128", i)}}
	}
	var l list
	p := pod(corev1.Container{Ports: ports})
	p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{Items: items}}}}
	l.pod(nil, &p.Spec, &p.ObjectMeta)
	if l.pairs > maxCompared {
		t.Errorf("%d pairs were compared, want at most %d", l.pairs, maxCompared)
	}
	subset := corev1.EndpointSubset{Addresses: addresses}                                                     //nolint:staticcheck // clients may use EndpointSlice; a server serves both
	if got := Endpoints(&corev1.Endpoints{Subsets: []corev1.EndpointSubset{subset}}, nil); len(got) != most { //nolint:staticcheck // as above
		t.Errorf("%d warnings about endpoints, want %d", len(got), most)
	}
	policy := &networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{From: peers}}}}
	if got := NetworkPolicy(policy, nil); len(got) != most {
		t.Errorf("%d warnings about a policy, want %d", len(got), most)
	}
}

func TestWebhooksForReviewsAreWarnedAbout(t *testing.T) {
	rule := func(group string, resources ...string) admissionv1.RuleWithOperations {
		return admissionv1.RuleWithOperations{Rule: admissionv1.Rule{APIGroups: []string{group}, Resources: resources}}
	}
	o := &admissionv1.MutatingWebhookConfiguration{Webhooks: []admissionv1.MutatingWebhook{{Rules: []admissionv1.RuleWithOperations{
		rule("*", "tokenreviews"), rule("authentication.k8s.io", "tokenreviews", "pods", "tokenreviews"), rule("authentication.k8s.io", "*"),
	}}}}
	want := []string{"webhooks[0].rules[1]: tokenreviews.authentication.k8s.io is excluded from admission webhooks; this rule will have no effect"}
	if diff := cmp.Diff(want, MutatingWebhooks(o, nil)); diff != "" {
		t.Error(diff)
	}
}

// BenchmarkPod is about a usual pod, which gets no warnings.
func BenchmarkPod(b *testing.B) {
	container := func(name string, port int32) corev1.Container {
		return corev1.Container{
			Name: name, Image: "i", Env: []corev1.EnvVar{{Name: "A"}, {Name: "B"}, {Name: "C"}},
			Ports:     []corev1.ContainerPort{{Name: name, ContainerPort: port, Protocol: corev1.ProtocolTCP}},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}},
		}
	}
	p := pod(container("a", 80), container("b", 81))
	p.Annotations, p.Spec.NodeSelector = map[string]string{"a": "b"}, map[string]string{"zone": "a"}
	b.ReportAllocs()
	for b.Loop() {
		if got := Pod(p, nil); got != nil {
			b.Fatal(got)
		}
	}
}
