package addresses

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

type spec = map[string]any

var (
	only  = Families{corev1.IPv4Protocol}
	sixth = Families{corev1.IPv6Protocol}
	dual  = Families{corev1.IPv4Protocol, corev1.IPv6Protocol}

	headlessSpec = spec{"type": "ClusterIP", "clusterIP": "None", "clusterIPs": []any{"None"}, "selector": spec{"app": "a"}}
	external     = spec{"type": "ExternalName", "externalName": "example.org"}
)

// completed completes a Service as an Allocator does, and returns its spec.
func completed(t *testing.T, in Families, was, now spec) (spec, field.ErrorList) {
	t.Helper()
	read := func(s spec) *corev1.Service {
		if s == nil {
			return nil
		}
		o := &corev1.Service{}
		o.Name = "a"
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(s, &o.Spec); err != nil {
			t.Fatalf("read a Service: %v", err)
		}
		return o
	}
	before, after := read(was), read(now)
	if before != nil {
		in.completeStored(&before.Spec)
	}
	errs := in.Complete(after, before)
	raw, err := json.Marshal(after.Spec)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	var out spec
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatalf("decode: %v", err)
	}
	return out, errs
}

func with(s spec, pairs ...any) spec {
	s = runtime.DeepCopyJSON(s)
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == nil {
			delete(s, pairs[i].(string))
			continue
		}
		s[pairs[i].(string)] = pairs[i+1]
	}
	return s
}

func TestAHeadlessServiceGetsTheFamiliesThatUpstreamGivesIt(t *testing.T) {
	bare := with(headlessSpec, "selector", nil)
	for name, c := range map[string]struct {
		in       Families
		now      spec
		policy   string
		families []any
	}{
		"with a selector": {only, headlessSpec, "SingleStack", []any{"IPv4"}},
		"on IPv6":         {sixth, headlessSpec, "SingleStack", []any{"IPv6"}},
		"on both":         {dual, headlessSpec, "SingleStack", []any{"IPv4"}},
		"it prefers both, there is one": {
			only, with(headlessSpec, "ipFamilyPolicy", "PreferDualStack"), "PreferDualStack", []any{"IPv4"},
		},
		"it prefers both": {
			dual, with(headlessSpec, "ipFamilyPolicy", "PreferDualStack"), "PreferDualStack", []any{"IPv4", "IPv6"},
		},
		"it names one of both": {
			dual, with(headlessSpec, "ipFamilies", []any{"IPv6"}), "SingleStack", []any{"IPv6"},
		},
		"without a selector":          {only, bare, "RequireDualStack", []any{"IPv4", "IPv6"}},
		"without a selector, on IPv6": {sixth, bare, "RequireDualStack", []any{"IPv6", "IPv4"}},
		"without a selector, it wants one": {
			dual, with(bare, "ipFamilyPolicy", "SingleStack"), "SingleStack", []any{"IPv4"},
		},

		"a policy is said, and one of two known": {
			dual, with(headlessSpec, "ipFamilyPolicy", "PreferDualStack", "ipFamilies", []any{"IPv6"}), "PreferDualStack",
			[]any{"IPv6", "IPv4"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, errs := completed(t, c.in, nil, c.now)
			if len(errs) > 0 {
				t.Fatalf("create the Service: %v", errs)
			}
			if diff := cmp.Diff(c.families, got["ipFamilies"]); diff != "" || got["ipFamilyPolicy"] != c.policy {
				t.Errorf("policy %v, want %s; families -want +got:\n%s", got["ipFamilyPolicy"], c.policy, diff)
			}
		})
	}
}

// stored is a headless Service as upstream completes it.
func stored(policy string, families ...any) spec {
	return with(headlessSpec, "ipFamilyPolicy", policy, "ipFamilies", families)
}

// TestAHeadlessServiceThatTheClusterCannotHaveIsRefusedAsUpstream: the texts are those of
// pkg/registry/core/service/storage/alloc.go initIPFamilyFields.
func TestAHeadlessServiceThatTheClusterCannotHaveIsRefusedAsUpstream(t *testing.T) {
	const (
		both   = `spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services`
		single = `spec.ipFamilyPolicy: Invalid value: "SingleStack": must be 'RequireDualStack' or 'PreferDualStack' ` +
			`when multiple IP families are specified`
		lost = `spec.ipFamilyPolicy: Invalid value: "PreferDualStack": must be 'SingleStack' to release the secondary IP family`
	)
	family := func(i int, of string) string {
		return fmt.Sprintf(`spec.ipFamilies[%d]: Invalid value: %q: not configured on this cluster`, i, of)
	}
	four, bare := only, with(headlessSpec, "selector", nil)
	for name, c := range map[string]struct {
		in       Families
		was, now spec
		want     []string
	}{
		"it requires both families": {four, nil, with(headlessSpec, "ipFamilyPolicy", "RequireDualStack"), []string{both}},
		"it names another family":   {four, nil, with(headlessSpec, "ipFamilies", []any{"IPv6"}), []string{family(0, "IPv6")}},
		"on IPv6":                   {sixth, nil, stored("SingleStack", "IPv4"), []string{family(0, "IPv4")}},
		"it prefers both, and names them": {
			four, nil, stored("PreferDualStack", "IPv4", "IPv6"), []string{family(1, "IPv6")},
		},
		"it requires and names both": {
			four, nil, stored("RequireDualStack", "IPv6", "IPv4"), []string{both, family(0, "IPv6")},
		},
		"it names two, and wants one": {dual, nil, stored("SingleStack", "IPv4", "IPv6"), []string{single}},
		"it names two without a policy": {
			dual, nil, with(headlessSpec, "ipFamilies", []any{"IPv4", "IPv6"}), []string{single},
		},
		"it names two, and wants one, without a selector": {
			four, nil, with(bare, "ipFamilyPolicy", "SingleStack", "ipFamilies", []any{"IPv4", "IPv6"}), []string{single},
		},
		"it had a name": {
			four, external, stored("RequireDualStack", "IPv4", "IPv6"), []string{both, family(1, "IPv6")},
		},
		"it requires both from now on": {
			four, stored("SingleStack", "IPv4"), stored("RequireDualStack", "IPv4"), []string{both},
		},
		"it has another family now": {
			four, stored("SingleStack", "IPv4"), stored("SingleStack", "IPv6"), []string{family(0, "IPv6")},
		},
		"it has one of two families left": {
			dual, stored("PreferDualStack", "IPv4", "IPv6"), stored("PreferDualStack", "IPv4"), []string{lost},
		},
		"it has a selector now": {
			four, with(stored("RequireDualStack", "IPv4", "IPv6"), "selector", nil), stored("RequireDualStack", "IPv4", "IPv6"),
			[]string{both, family(1, "IPv6")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, errs := completed(t, c.in, c.was, c.now)
			var got []string
			for _, err := range errs {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("the refusal (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnUpdatedHeadlessServiceHasTheFamiliesThatUpstreamGivesIt(t *testing.T) {
	for name, c := range map[string]struct {
		in       Families
		was, now spec
		policy   string
		families []any
	}{
		"it prefers both from now on": {
			dual, stored("SingleStack", "IPv6"), stored("PreferDualStack", "IPv6"), "PreferDualStack", []any{"IPv6", "IPv4"},
		},
		"it requires both from now on": {
			dual, stored("SingleStack", "IPv4"), stored("RequireDualStack", "IPv4"), "RequireDualStack", []any{"IPv4", "IPv6"},
		},
		"it prefers both since the cluster had one family": {
			dual, stored("PreferDualStack", "IPv4"), with(stored("PreferDualStack", "IPv4"), "selector", spec{"app": "b"}),
			"PreferDualStack",
			[]any{"IPv4"},
		},
		"it prefers both since the cluster had two families": {
			only, stored("PreferDualStack", "IPv4", "IPv6"),
			with(stored("PreferDualStack", "IPv4", "IPv6"), "selector", spec{"app": "b"}),
			"PreferDualStack",
			[]any{"IPv4", "IPv6"},
		},
		"it gives one of two families back": {
			dual, stored("RequireDualStack", "IPv6", "IPv4"), stored("SingleStack", "IPv6", "IPv4"), "SingleStack", []any{"IPv6"},
		},
		"it has no selector": {
			only, with(stored("SingleStack", "IPv4"), "selector", nil),
			with(stored("RequireDualStack", "IPv4"), "selector", nil),
			"RequireDualStack",
			[]any{"IPv4", "IPv6"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, errs := completed(t, c.in, c.was, c.now)
			if len(errs) > 0 {
				t.Fatalf("update the Service: %v", errs)
			}
			if diff := cmp.Diff(c.families, got["ipFamilies"]); diff != "" || got["ipFamilyPolicy"] != c.policy {
				t.Errorf("policy %v, want %s; families -want +got:\n%s", got["ipFamilyPolicy"], c.policy, diff)
			}
		})
	}
}

func TestAServiceWithAddressesGetsTheFamiliesThatUpstreamGivesIt(t *testing.T) {
	four := spec{
		"type": "ClusterIP", "clusterIP": "10.0.0.9", "clusterIPs": []any{"10.0.0.9"}, "ipFamilies": []any{"IPv4"},
		"ipFamilyPolicy": "SingleStack",
	}
	six := with(four, "clusterIP", "fd00::9", "clusterIPs", []any{"fd00::9"}, "ipFamilies", []any{"IPv6"})
	both := with(four, "clusterIPs", []any{"10.0.0.9", "fd00::9"}, "ipFamilies", []any{"IPv4", "IPv6"},
		"ipFamilyPolicy", "RequireDualStack")
	bare, fresh := spec{"type": "ClusterIP"}, spec{"type": "ClusterIP", "clusterIP": "fd00::9", "clusterIPs": []any{"fd00::9"}}
	old := func(s spec) spec { return with(s, "ipFamilies", nil, "ipFamilyPolicy", nil) }
	prefer, require := "PreferDualStack", "RequireDualStack"
	for name, c := range map[string]struct {
		in       Families
		was, now spec
		policy   string
		families []any
		refused  int
	}{
		"a new one":                 {only, nil, spec{"type": "ClusterIP"}, "SingleStack", []any{"IPv4"}, 0},
		"it prefers both":           {dual, nil, with(bare, "ipFamilyPolicy", prefer), prefer, []any{"IPv4", "IPv6"}, 0},
		"an address of a family":    {dual, nil, fresh, "SingleStack", []any{"IPv6"}, 0},
		"one that is not there":     {only, nil, fresh, "SingleStack", nil, 1},
		"both from now on":          {dual, four, with(four, "ipFamilyPolicy", require), require, []any{"IPv4", "IPv6"}, 0},
		"one from now on":           {dual, both, with(both, "ipFamilyPolicy", "SingleStack"), "SingleStack", []any{"IPv4"}, 0},
		"it has what is not there":  {only, six, with(six, "selector", spec{"a": "b"}), "SingleStack", []any{"IPv6"}, 0},
		"it has both, there is one": {only, both, with(both, "selector", spec{"a": "b"}), require, []any{"IPv4", "IPv6"}, 0},
		"it was stored without":     {only, old(four), old(four), "SingleStack", []any{"IPv4"}, 0},
		"stored without, not there": {only, old(six), old(six), "SingleStack", []any{"IPv6"}, 0},
		"stored without an address": {only, bare, with(bare, "selector", spec{"a": "b"}), "SingleStack", []any{"IPv4"}, 0},
		"it wants both of one":      {only, four, with(four, "ipFamilyPolicy", require), require, []any{"IPv4"}, 1},
		"a name has none":           {only, four, external, "", nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, errs := completed(t, c.in, c.was, c.now)
			if len(errs) != c.refused {
				t.Fatalf("refused: %v, want %d reasons", errs, c.refused)
			}
			families, _ := got["ipFamilies"].([]any)
			policy, _ := got["ipFamilyPolicy"].(string)
			if diff := cmp.Diff(c.families, families); diff != "" || policy != c.policy {
				t.Errorf("policy %q, want %q; families -want +got:\n%s", policy, c.policy, diff)
			}
		})
	}
}
