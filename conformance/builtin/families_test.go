package builtin_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/conformance/builtin"
	"github.com/gapless-io/gapless/internal/addresses"
	"github.com/gapless-io/gapless/internal/wire"
)

// completed is what gapless makes of a Service.
func completed(of addresses.Families, now, was *corev1.Service) (*corev1.Service, error) {
	now = now.DeepCopy()
	if errs := of.Complete(now, was); len(errs) > 0 {
		return nil, wire.Invalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), now.Name, errs)
	}
	return now, nil
}

func shown(t *testing.T, s *corev1.Service) string {
	t.Helper()
	body, err := json.Marshal(s)
	if err != nil {
		t.Fatalf("show a Service: %v", err)
	}
	return string(body)
}

// TestTheFamiliesOfServicesAreUpstreams compares what is stored of random ones, and why not,
// with what kube-apiserver makes of them: creations, updates of them, and of others with a name only.
func TestTheFamiliesOfServicesAreUpstreams(t *testing.T) {
	t.Logf("seed %d", *seed)
	r := rand.New(rand.NewPCG(uint64(*seed), 13))
	four, six := corev1.IPv4Protocol, corev1.IPv6Protocol
	clusters := []addresses.Families{{four}, {six}, {four, six}, {six, four}}
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
	address := map[corev1.IPFamily]string{four: "10.96.0.9", six: "fd00:96::9"}
	addressed := func(families []corev1.IPFamily, of ...corev1.IPFamily) *corev1.Service {
		s := headless(families)
		s.Spec.ClusterIP, s.Spec.ClusterIPs = "", nil
		for _, family := range of {
			s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, address[family])
			s.Spec.ClusterIP = s.Spec.ClusterIPs[0]
		}
		return s
	}
	orders := [][]corev1.IPFamily{nil, {four}, {six}, {four, six}, {six, four}}
	stored, refused, kept := 0, 0, 0
	for range 5000 {
		var was *corev1.Service
		switch of := clusters[r.IntN(len(clusters))]; r.IntN(4) {
		case 0:
			was = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeExternalName, ExternalName: "example.com",
			}}
		case 1, 2:
			if was = headless(nil); r.IntN(2) > 0 {
				was = addressed(nil)
			}
			if builtin.Families(of, was, nil) != nil {
				continue
			}
			for _, family := range was.Spec.IPFamilies {
				if was.Spec.ClusterIP != "None" {
					was.Spec.ClusterIPs = append(was.Spec.ClusterIPs, address[family])
					was.Spec.ClusterIP = was.Spec.ClusterIPs[0]
				}
			}
		}
		families := slices.Clone(orders)
		if was != nil && len(was.Spec.IPFamilies) > 0 {
			families[0] = was.Spec.IPFamilies // an update that leaves them out keeps them
		}
		of, now := clusters[r.IntN(len(clusters))], headless(families[r.IntN(len(families))])
		if was != nil && len(was.Spec.ClusterIPs) > 0 && was.Spec.ClusterIP != "None" || was == nil && r.IntN(2) > 0 {
			now = addressed(now.Spec.IPFamilies, orders[r.IntN(len(orders))]...)
			if was != nil && r.IntN(2) > 0 {
				now.Spec.ClusterIP, now.Spec.ClusterIPs = was.Spec.ClusterIP, slices.Clone(was.Spec.ClusterIPs)
			}
		}
		got, err := completed(of, now, was)
		want := now.DeepCopy()
		why := builtin.Families(of, want, was)
		what := func() string { return fmt.Sprintf("%s on %v, which was %s", shown(t, now), of, shown(t, was)) }
		if err == nil && why != nil && was != nil && was.Spec.IPFamilyPolicy != nil &&
			slices.Equal(was.Spec.IPFamilies, got.Spec.IPFamilies) && *was.Spec.IPFamilyPolicy == *got.Spec.IPFamilyPolicy {
			kept++ // it was stored on another cluster: gapless asks for nothing again that it has
			continue
		}
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
	t.Logf("%d stored, %d refused, %d kept", stored, refused, kept)
	if stored < 500 || refused < 500 {
		t.Errorf("%d are stored and %d refused: too few to tell", stored, refused)
	}
}
