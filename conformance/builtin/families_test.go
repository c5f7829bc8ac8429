package builtin_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/conformance/builtin"
	"github.com/gapless-io/gapless/internal/admission/addresses"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// ranges is a cluster with the ServiceCIDR of some IP families.
type ranges []corev1.IPFamily

func (r ranges) Find(kinds.GroupResource, wire.Key) *wire.Object {
	text := ""
	for i, family := range r {
		if i > 0 {
			text += ","
		}
		text += map[corev1.IPFamily]string{corev1.IPv4Protocol: `"10.96.0.0/16"`, corev1.IPv6Protocol: `"fd00:96::/112"`}[family]
	}
	o, err := wire.ParseObject([]byte(`{"apiVersion":"networking.k8s.io/v1","kind":"ServiceCIDR",`+
		`"metadata":{"name":"kubernetes"},"spec":{"cidrs":[`+text+`]}}`), nil)
	if err != nil {
		panic(err)
	}
	return o
}

// admitted is what gapless stores of a Service, beside an etcd.
func admitted(t *testing.T, of ranges, now, was *corev1.Service) (*corev1.Service, error) {
	t.Helper()
	tree := func(s *corev1.Service) *unstructured.Unstructured {
		o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s)
		if err != nil {
			t.Fatalf("convert a Service: %v", err)
		}
		return &unstructured.Unstructured{Object: o}
	}
	object, op, old := tree(now), admission.Create, runtime.Object(nil)
	if was != nil {
		op, old = admission.Update, tree(was)
	}
	gv := corev1.SchemeGroupVersion
	a := admission.NewAttributesRecord(object, old, gv.WithKind("Service"), "default", now.Name, gv.WithResource("services"), "",
		op, nil, false, nil)
	p := addresses.New(of)
	if err := p.Admit(t.Context(), a, func() error { return nil }); err != nil {
		t.Fatalf("admit a Service: %v", err)
	}
	if err := p.Validate(t.Context(), a); err != nil {
		return nil, err
	}
	s := &corev1.Service{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, s); err != nil {
		t.Fatalf("convert a Service back: %v", err)
	}
	return s, nil
}

func shown(t *testing.T, s *corev1.Service) string {
	t.Helper()
	body, err := json.Marshal(s)
	if err != nil {
		t.Fatalf("show a Service: %v", err)
	}
	return string(body)
}

// TestTheFamiliesOfHeadlessServicesAreUpstreams compares what is stored of random ones, and why not,
// with what kube-apiserver makes of them: creations, updates of them, and of others with a name only.
func TestTheFamiliesOfHeadlessServicesAreUpstreams(t *testing.T) {
	t.Logf("seed %d", *seed)
	r := rand.New(rand.NewPCG(uint64(*seed), 13))
	four, six := corev1.IPv4Protocol, corev1.IPv6Protocol
	clusters := []ranges{{four}, {six}, {four, six}, {six, four}}
	policies := []corev1.IPFamilyPolicy{
		corev1.IPFamilyPolicySingleStack, corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack,
	}
	headless := func(families []corev1.IPFamily) *corev1.Service {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: "None", ClusterIPs: []string{"None"}, IPFamilies: families,
		}}
		if r.IntN(3) > 0 {
			s.Spec.Selector = map[string]string{"app": "a"}
		}
		if n := r.IntN(len(policies) + 1); n < len(policies) {
			s.Spec.IPFamilyPolicy = &policies[n]
		}
		return s
	}
	stored, refused := 0, 0
	for range 5000 {
		var was *corev1.Service
		switch of := clusters[r.IntN(len(clusters))]; r.IntN(4) {
		case 0:
			was = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeExternalName, ExternalName: "example.com",
			}}
		case 1, 2:
			if was = headless(nil); builtin.Families(of, was, nil) != nil {
				continue
			}
		}
		families := [][]corev1.IPFamily{nil, {four}, {six}, {four, six}, {six, four}}
		if was != nil && len(was.Spec.IPFamilies) > 0 {
			families[0] = was.Spec.IPFamilies // an update that leaves them out keeps them
		}
		of, now := clusters[r.IntN(len(clusters))], headless(families[r.IntN(len(families))])
		got, err := admitted(t, of, now, was)
		want := now.DeepCopy()
		why := builtin.Families(of, want, was)
		what := func() string { return fmt.Sprintf("%s on %v, which was %s", shown(t, now), of, shown(t, was)) }
		if fmt.Sprint(err) != fmt.Sprint(why) {
			t.Fatalf("%s:\n%v, want\n%v", what(), err, why)
		}
		if why != nil {
			refused++
			continue
		}
		stored++
		if diff := cmp.Diff(want.Spec.IPFamilies, got.Spec.IPFamilies); diff != "" ||
			*got.Spec.IPFamilyPolicy != *want.Spec.IPFamilyPolicy {
			t.Fatalf("%s: policy %s, want %s, families (-want +got):\n%s", what(), *got.Spec.IPFamilyPolicy,
				*want.Spec.IPFamilyPolicy, diff)
		}
	}
	if stored < 500 || refused < 500 {
		t.Errorf("%d are stored and %d refused: too few to tell", stored, refused)
	}
}
