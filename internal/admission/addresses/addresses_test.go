package addresses_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission/addresses"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

type spec = map[string]any

// cluster is a cluster with one ServiceCIDR, or none ("").
type cluster string

func (c cluster) Find(gr kinds.GroupResource, key wire.Key) *wire.Object {
	if c == "" || gr.String() != "servicecidrs.networking.k8s.io" || key.Name != "kubernetes" {
		return nil
	}
	ranges := `"` + strings.ReplaceAll(string(c), ",", `","`) + `"`
	o, err := wire.ParseObject(
		[]byte(`{"apiVersion":"networking.k8s.io/v1","kind":"ServiceCIDR","metadata":{"name":"kubernetes"},`+
			`"spec":{"cidrs":[`+ranges+`]}}`), nil)
	if err != nil {
		panic(err)
	}
	return o
}

const (
	unknown = cluster("")
	single  = cluster("10.96.0.0/16")
	sixth   = cluster("fd00::/112")
	dual    = cluster("10.96.0.0/16,fd00::/112")
)

func service(s spec) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "a"}, "spec": runtime.DeepCopyJSON(s),
	}}
}

// write asks the plugin as the registry does, and returns what is stored.
func write(t *testing.T, c cluster, was, now spec) (spec, error) {
	t.Helper()
	gv := apischema.GroupVersion{Version: "v1"}
	op, object := upstream.Create, service(now)
	var old runtime.Object
	if was != nil {
		op, old = upstream.Update, service(was)
	}
	a := upstream.NewAttributesRecord(object, old, gv.WithKind("Service"), "default", "a", gv.WithResource("services"), "", op,
		nil, false, nil)
	p := addresses.New(c)
	if err := p.Admit(t.Context(), a, func() error { return nil }); err != nil {
		t.Fatalf("admit a Service: %v", err)
	}
	return object.Object["spec"].(map[string]any), p.Validate(t.Context(), a)
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

var (
	headless = spec{"type": "ClusterIP", "clusterIP": "None", "selector": spec{"app": "a"}}
	external = spec{"type": "ExternalName", "externalName": "example.org"}
	cluster4 = spec{
		"type": "ClusterIP", "clusterIP": "10.96.0.9", "clusterIPs": []any{"10.96.0.9"}, "ipFamilies": []any{"IPv4"},
		"ipFamilyPolicy": "SingleStack", "ports": []any{spec{"port": int64(80), "protocol": "TCP"}},
	}
	nodePort = with(cluster4, "type", "NodePort",
		"ports", []any{spec{"port": int64(80), "protocol": "TCP", "nodePort": int64(30080)}})
	balanced = with(nodePort, "type", "LoadBalancer", "externalTrafficPolicy", "Local", "healthCheckNodePort", int64(30081))
)

func TestAHeadlessServiceGetsTheFamiliesThatUpstreamGivesIt(t *testing.T) {
	bare := with(headless, "selector", nil)
	for name, c := range map[string]struct {
		in       cluster
		now      spec
		policy   string
		families []any
	}{
		"with a selector": {single, headless, "SingleStack", []any{"IPv4"}},
		"on IPv6":         {sixth, headless, "SingleStack", []any{"IPv6"}},
		"on both":         {dual, headless, "SingleStack", []any{"IPv4"}},
		"it prefers both, there is one": {
			single, with(headless, "ipFamilyPolicy", "PreferDualStack"), "PreferDualStack", []any{"IPv4"},
		},
		"it prefers both": {
			dual, with(headless, "ipFamilyPolicy", "PreferDualStack"), "PreferDualStack", []any{"IPv4", "IPv6"},
		},
		"it names one of both": {
			dual, with(headless, "ipFamilies", []any{"IPv6"}), "SingleStack", []any{"IPv6"},
		},
		"without a selector":          {single, bare, "RequireDualStack", []any{"IPv4", "IPv6"}},
		"without a selector, on IPv6": {sixth, bare, "RequireDualStack", []any{"IPv6", "IPv4"}},
		"without a selector, it wants one": {
			dual, with(bare, "ipFamilyPolicy", "SingleStack"), "SingleStack", []any{"IPv4"},
		},
		"without a selector, it names one": {
			unknown, with(bare, "ipFamilies", []any{"IPv6"}), "RequireDualStack", []any{"IPv6", "IPv4"},
		},
		"everything is said, nothing is known": {
			unknown, with(headless, "ipFamilies", []any{"IPv4"}, "ipFamilyPolicy", "SingleStack"), "SingleStack", []any{"IPv4"},
		},
		"the family is said, nothing is known": {
			unknown, with(headless, "ipFamilies", []any{"IPv6"}), "SingleStack", []any{"IPv6"},
		},
		"clusterIPs says that it is headless": {
			single, with(headless, "clusterIP", nil, "clusterIPs", []any{"None"}), "SingleStack", []any{"IPv4"},
		},
		"a policy is said, and one of two known": {
			dual, with(headless, "ipFamilyPolicy", "PreferDualStack", "ipFamilies", []any{"IPv6"}), "PreferDualStack",
			[]any{"IPv6", "IPv4"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := write(t, c.in, nil, c.now)
			if err != nil {
				t.Fatalf("create the Service: %v", err)
			}
			if diff := cmp.Diff(c.families, got["ipFamilies"]); diff != "" || got["ipFamilyPolicy"] != c.policy {
				t.Errorf("policy %v, want %s; families -want +got:\n%s", got["ipFamilyPolicy"], c.policy, diff)
			}
		})
	}
}

// stored is a headless Service as upstream completes it.
func stored(policy string, families ...any) spec {
	return with(headless, "ipFamilyPolicy", policy, "ipFamilies", families)
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
	four, bare := cluster("10.96.0.0/16"), with(headless, "selector", nil)
	for name, c := range map[string]struct {
		in       cluster
		was, now spec
		want     []string
	}{
		"it requires both families": {four, nil, with(headless, "ipFamilyPolicy", "RequireDualStack"), []string{both}},
		"it names another family":   {four, nil, with(headless, "ipFamilies", []any{"IPv6"}), []string{family(0, "IPv6")}},
		"on IPv6":                   {sixth, nil, stored("SingleStack", "IPv4"), []string{family(0, "IPv4")}},
		"it prefers both, and names them": {
			four, nil, stored("PreferDualStack", "IPv4", "IPv6"), []string{family(1, "IPv6")},
		},
		"it requires and names both": {
			four, nil, stored("RequireDualStack", "IPv6", "IPv4"), []string{both, family(0, "IPv6")},
		},
		"it names two, and wants one": {dual, nil, stored("SingleStack", "IPv4", "IPv6"), []string{single}},
		"it names two without a policy": {
			dual, nil, with(headless, "ipFamilies", []any{"IPv4", "IPv6"}), []string{single},
		},
		"it names two, and wants one, nothing is known": {unknown, nil, stored("SingleStack", "IPv4", "IPv6"), []string{single}},
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
			_, err := write(t, c.in, c.was, c.now)
			refused, is := errors.AsType[*wire.StatusError](err)
			if !is || refused.ErrStatus.Code != http.StatusUnprocessableEntity {
				t.Fatalf("the write: %v, want 422", err)
			}
			want := c.want[0]
			if len(c.want) > 1 {
				want = "[" + strings.Join(c.want, ", ") + "]"
			}
			if diff := cmp.Diff(`Service "a" is invalid: `+want, err.Error()); diff != "" {
				t.Errorf("the refusal (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnUpdatedHeadlessServiceHasTheFamiliesThatUpstreamGivesIt(t *testing.T) {
	for name, c := range map[string]struct {
		in       cluster
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
			single, stored("PreferDualStack", "IPv4", "IPv6"),
			with(stored("PreferDualStack", "IPv4", "IPv6"), "selector", spec{"app": "b"}),
			"PreferDualStack",
			[]any{"IPv4", "IPv6"},
		},
		"it gives one of two families back": {
			dual, stored("RequireDualStack", "IPv6", "IPv4"), stored("SingleStack", "IPv6", "IPv4"), "SingleStack", []any{"IPv6"},
		},
		"it has no selector": {
			single, with(stored("SingleStack", "IPv4"), "selector", nil),
			with(stored("RequireDualStack", "IPv4"), "selector", nil),
			"RequireDualStack",
			[]any{"IPv4", "IPv6"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := write(t, c.in, c.was, c.now)
			if err != nil {
				t.Fatalf("update the Service: %v", err)
			}
			if diff := cmp.Diff(c.families, got["ipFamilies"]); diff != "" || got["ipFamilyPolicy"] != c.policy {
				t.Errorf("policy %v, want %s; families -want +got:\n%s", got["ipFamilyPolicy"], c.policy, diff)
			}
		})
	}
}

func TestAServiceThatNeedsAnAddressIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		in       cluster
		was, now spec
		at       string
	}{
		"a new one":                    {single, nil, spec{"type": "ClusterIP"}, "spec.clusterIP"},
		"one that chooses its address": {single, nil, cluster4, "spec.clusterIP"},
		"with a node port":             {single, nil, nodePort, "spec.clusterIP"},
		"of no known family":           {unknown, nil, headless, "spec.ipFamilies"},
		"of two families, one known": {
			unknown, nil, with(headless, "ipFamilyPolicy", "RequireDualStack", "ipFamilies", []any{"IPv4"}), "spec.ipFamilies",
		},
		"one that had a name":           {single, external, spec{"type": "ClusterIP"}, "spec.type"},
		"one that had a name, headless": {unknown, external, headless, "spec.ipFamilies"},
		"it gives its address back":     {single, cluster4, external, "spec.clusterIPs"},
		"it changes its address": {
			single, cluster4, with(cluster4, "clusterIP", "10.96.0.8", "clusterIPs", []any{"10.96.0.8"}), "spec.clusterIPs",
		},
		"it becomes one with node port": {single, cluster4, with(cluster4, "type", "NodePort"), "spec.ports"},
		"it changes its node port": {single, nodePort, with(nodePort,
			"ports", []any{spec{"port": int64(80), "protocol": "TCP", "nodePort": int64(30082)}}), "spec.ports"},
		"it gives its node port back": {single, nodePort, cluster4, "spec.ports"},
		"it has another port": {single, nodePort, with(nodePort, "ports", []any{
			spec{"port": int64(80), "protocol": "TCP", "nodePort": int64(30080)}, spec{"port": int64(81), "protocol": "TCP"},
		}), "spec.ports"},
		"it has health checks": {
			single, with(balanced, "externalTrafficPolicy", "Cluster", "healthCheckNodePort", nil),
			with(balanced, "healthCheckNodePort", nil), "spec.externalTrafficPolicy",
		},
		"it has none any more": {
			single, balanced, with(balanced, "externalTrafficPolicy", "Cluster", "healthCheckNodePort", nil),
			"spec.healthCheckNodePort",
		},
		"it wants both families": {dual, cluster4, with(cluster4, "ipFamilyPolicy", "PreferDualStack"), "spec.ipFamilyPolicy"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := write(t, c.in, c.was, c.now)
			refused, is := errors.AsType[*wire.StatusError](err)
			if !is || refused.ErrStatus.Code != http.StatusUnprocessableEntity {
				t.Fatalf("the write: %v, want 422", err)
			}
			if !strings.Contains(err.Error(), c.at+":") || !strings.Contains(err.Error(), "kube-apiserver") {
				t.Errorf("the refusal %q does not name %s, or not what to do", err, c.at)
			}
		})
	}
}

func TestAServiceThatKeepsItsAddressesIsWritten(t *testing.T) {
	for name, c := range map[string]struct{ was, now spec }{
		"a new name":       {nil, external},
		"another selector": {cluster4, with(cluster4, "selector", spec{"app": "b"})},
		"another port":     {cluster4, with(cluster4, "ports", []any{spec{"port": int64(8080), "protocol": "TCP"}})},
		"a renamed port": {
			nodePort,
			with(nodePort, "ports", []any{spec{"name": "x", "port": int64(80), "protocol": "TCP", "nodePort": int64(30080)}}),
		},
		"a balanced one": {balanced, with(balanced, "loadBalancerSourceRanges", []any{"10.0.0.0/8"})},
		"a headless one": {
			with(headless, "ipFamilies", []any{"IPv4"}, "ipFamilyPolicy", "SingleStack"),
			with(headless, "selector", spec{"app": "b"}),
		},
		"a name to a name":  {external, with(external, "externalName", "example.com")},
		"headless to name":  {headless, external},
		"one without an IP": {spec{"type": "ClusterIP"}, spec{"type": "ClusterIP", "selector": spec{"app": "b"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := write(t, unknown, c.was, c.now); err != nil {
				t.Errorf("the write: %v", err)
			}
		})
	}
}

func TestOnlyWritesOfServicesAreHandled(t *testing.T) {
	services, pods := &kinds.Resource{Plural: "services"}, &kinds.Resource{Plural: "pods"}
	p := addresses.New(unknown)
	for _, c := range []struct {
		of          *kinds.Resource
		subresource string
		op          upstream.Operation
		want        bool
	}{
		{services, "", upstream.Create, true},
		{services, "", upstream.Update, true},
		{services, "", upstream.Delete, false},
		{services, "status", upstream.Update, false},
		{pods, "", upstream.Create, false},
	} {
		if got := p.Handles(c.of, c.subresource, c.op); got != c.want {
			t.Errorf("%v %s/%s is handled: %v, want %v", c.op, c.of.Plural, c.subresource, got, c.want)
		}
	}
}
