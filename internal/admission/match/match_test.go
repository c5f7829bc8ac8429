package match_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission/match"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/wire"
)

// namespaces are labels by the name of a namespace.
type namespaces map[string]string

func (n namespaces) Find(_ kinds.GroupResource, key wire.Key) *wire.Object {
	labels, is := n[key.Name]
	if !is {
		return nil
	}
	o, err := wire.ParseObject(
		[]byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+key.Name+`","labels":{`+labels+`}}}`), nil)
	if err != nil {
		panic(err)
	}
	return o
}

func newMatcher() *match.Matcher {
	return match.New(kinds.NewLive(builtin.Catalog()), namespaces{"prod": `"env":"prod"`, "test": ""})
}

// request is the creation of a horizontal pod autoscaler, unless a test changes it.
type request struct {
	group, version, resource, kind string
	subresource, namespace, name   string
	op                             admission.Operation
	labels                         map[string]any
}

func (r request) attributes() admission.Attributes {
	u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"labels": r.labels}}}
	gvk := kinds.GroupVersionKind{Group: r.group, Version: r.version, Kind: r.kind}
	gvr := kinds.GroupVersionResource{Group: r.group, Version: r.version, Resource: r.resource}
	if r.op == admission.Delete {
		return admission.NewAttributesRecord(nil, u, gvk, r.namespace, r.name, gvr, r.subresource, r.op, nil, false, nil)
	}
	return admission.NewAttributesRecord(u, nil, gvk, r.namespace, r.name, gvr, r.subresource, r.op, nil, false, nil)
}

func rule(group, version string, resources ...string) admissionregistration.NamedRuleWithOperations {
	return admissionregistration.NamedRuleWithOperations{RuleWithOperations: admissionregistration.RuleWithOperations{
		Operations: []admissionregistration.OperationType{admissionregistration.OperationAll},
		Rule: admissionregistration.Rule{
			APIGroups: []string{group}, APIVersions: []string{version}, Resources: resources,
		},
	}}
}

func TestRequestsMatchAsUpstreams(t *testing.T) {
	exact, equivalent := admissionregistration.Exact, admissionregistration.Equivalent
	scaler := request{
		group: "autoscaling", version: "v1", resource: "horizontalpodautoscalers", kind: "HorizontalPodAutoscaler",
		namespace: "test", name: "a", op: admission.Create,
	}
	with := func(r request, change func(*request)) request {
		change(&r)
		return r
	}
	v2 := rule("autoscaling", "v2", "horizontalpodautoscalers")
	named := func(names ...string) admissionregistration.NamedRuleWithOperations {
		r := rule("*", "*", "*")
		r.ResourceNames = names
		return r
	}
	prod := &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}
	scoped := rule("", "v1", "namespaces")
	clusterScope := admissionregistration.ClusterScope
	scoped.Scope = &clusterScope
	namespace := request{
		version: "v1", resource: "namespaces", kind: "Namespace", namespace: "prod", name: "prod", op: admission.Delete,
	}
	tests := []struct {
		name    string
		m       admissionregistration.MatchResources
		request request
		want    string // the resource by which it matches; "" for none
		err     string
	}{
		{
			"the same version",
			admissionregistration.MatchResources{
				ResourceRules: []admissionregistration.NamedRuleWithOperations{rule("autoscaling", "v1", "*")},
			},
			scaler, "autoscaling/v1", "",
		},
		{
			"another version, exactly",
			admissionregistration.MatchResources{
				ResourceRules: []admissionregistration.NamedRuleWithOperations{v2}, MatchPolicy: &exact,
			},
			scaler, "", "",
		},
		{
			"another version",
			admissionregistration.MatchResources{
				ResourceRules: []admissionregistration.NamedRuleWithOperations{v2}, MatchPolicy: &equivalent,
			},
			scaler, "autoscaling/v2", "",
		},
		{
			"another version excluded",
			admissionregistration.MatchResources{
				ExcludeResourceRules: []admissionregistration.NamedRuleWithOperations{v2}, MatchPolicy: &equivalent,
			},
			scaler, "", "",
		},
		{"no rules", admissionregistration.MatchResources{}, scaler, "autoscaling/v1", ""},
		{
			"the name",
			admissionregistration.MatchResources{ResourceRules: []admissionregistration.NamedRuleWithOperations{named("b", "a")}},
			scaler, "autoscaling/v1", "",
		},
		{
			"another name",
			admissionregistration.MatchResources{ResourceRules: []admissionregistration.NamedRuleWithOperations{named("b")}},
			scaler, "", "",
		},
		{
			"a subresource",
			admissionregistration.MatchResources{
				ResourceRules: []admissionregistration.NamedRuleWithOperations{rule("*", "*", "*")},
			},
			with(scaler, func(r *request) { r.subresource = "status" }), "", "",
		},
		{
			"any subresource",
			admissionregistration.MatchResources{
				ResourceRules: []admissionregistration.NamedRuleWithOperations{rule("*", "*", "*/*")},
			},
			with(scaler, func(r *request) { r.subresource = "status" }), "autoscaling/v1", "",
		},
		{"another namespace", admissionregistration.MatchResources{NamespaceSelector: prod}, scaler, "", ""},
		{
			"the namespace",
			admissionregistration.MatchResources{NamespaceSelector: prod},
			with(scaler, func(r *request) { r.namespace = "prod" }), "autoscaling/v1", "",
		},
		{
			"no namespace",
			admissionregistration.MatchResources{NamespaceSelector: prod},
			with(scaler, func(r *request) { r.namespace = "gone" }), "", `namespaces "gone" not found`,
		},
		{
			"no namespace, and no rule",
			admissionregistration.MatchResources{
				NamespaceSelector: prod, ResourceRules: []admissionregistration.NamedRuleWithOperations{scoped},
			},
			with(scaler, func(r *request) { r.namespace = "gone" }), "", "",
		},
		{
			"a namespace by its own labels",
			admissionregistration.MatchResources{
				NamespaceSelector: prod, ResourceRules: []admissionregistration.NamedRuleWithOperations{scoped},
			},
			namespace, "v1", "",
		},
		{
			"a new namespace by its own labels",
			admissionregistration.MatchResources{NamespaceSelector: prod},
			with(namespace, func(r *request) {
				r.op, r.name, r.namespace, r.labels = admission.Create, "new", "new", map[string]any{"env": "prod"}
			}), "v1", "",
		},
		{"labels", admissionregistration.MatchResources{ObjectSelector: prod}, scaler, "", ""},
		{
			"its labels",
			admissionregistration.MatchResources{ObjectSelector: prod},
			with(scaler, func(r *request) { r.labels = map[string]any{"env": "prod"} }), "autoscaling/v1", "",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, selector := range []**metav1.LabelSelector{&tt.m.NamespaceSelector, &tt.m.ObjectSelector} {
				if *selector == nil {
					*selector = &metav1.LabelSelector{}
				}
			}
			criteria, err := match.Compile(&tt.m)
			if err != nil {
				t.Fatalf("compile: %v", err)
			}
			m, a := newMatcher(), tt.request.attributes()
			plan := m.Plan(criteria, match.QuestionOf(a))
			var matched match.Matched
			is := false
			if plan != nil {
				matched, is, err = m.Matches(plan, a)
			}
			got := ""
			if is {
				got = matched.Resource.GroupVersion().String()
				if want := m.KindFor(matched.Resource, a.GetSubresource()); matched.Kind != want {
					t.Errorf("matched as %v, want %v", matched.Kind, want)
				}
			}
			text := ""
			if err != nil {
				text = err.Error()
			}
			if diff := cmp.Diff([]string{tt.want, tt.err}, []string{got, text}); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestPlansAreOnlyOfWhatRulesName(t *testing.T) {
	equivalent := admissionregistration.Equivalent
	all := &metav1.LabelSelector{}
	criteria, err := match.Compile(&admissionregistration.MatchResources{
		NamespaceSelector: all, ObjectSelector: all, MatchPolicy: &equivalent,
		ResourceRules: []admissionregistration.NamedRuleWithOperations{rule("events.k8s.io", "v1", "events")},
	})
	if err != nil {
		t.Fatalf("compile: %v", err)
	}
	m := newMatcher()
	for gvr, want := range map[kinds.GroupVersionResource]bool{
		{Version: "v1", Resource: "events"}:                         true, // the same objects
		{Group: "events.k8s.io", Version: "v1", Resource: "events"}: true,
		{Version: "v1", Resource: "pods"}:                           false,
	} {
		if got := m.Plan(criteria, match.Question{Resource: gvr, Operation: admission.Update}) != nil; got != want {
			t.Errorf("%v: planned %v, want %v", gvr, got, want)
		}
	}
}

func TestMissingSelectorsAreRefused(t *testing.T) {
	if _, err := match.Compile(&admissionregistration.MatchResources{}); err == nil ||
		!strings.Contains(err.Error(), "a nil namespace selector was passed") {
		t.Errorf("got %v", err)
	}
}

func TestKindsOfSubresources(t *testing.T) {
	m := newMatcher()
	deployments := kinds.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	pods := kinds.GroupVersionResource{Version: "v1", Resource: "pods"}
	tests := []struct {
		gvr  kinds.GroupVersionResource
		sub  string
		want string
	}{
		{deployments, "scale", "autoscaling/v1, Kind=Scale"},
		{deployments, "status", "apps/v1, Kind=Deployment"},
		{pods, "eviction", "policy/v1, Kind=Eviction"},
		{pods, "binding", "/v1, Kind=Binding"},
		{pods, "nothing", "/, Kind="},
	}
	for _, tt := range tests {
		if got := m.KindFor(tt.gvr, tt.sub).String(); got != tt.want {
			t.Errorf("%v/%s: %s, want %s", tt.gvr, tt.sub, got, tt.want)
		}
	}
	if got := m.Equivalents(pods, "nothing"); got != nil {
		t.Errorf("a subresource that no resource has: %v", got)
	}
}
