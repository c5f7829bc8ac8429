package core

import (
	"reflect"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/gokind"
)

// binding is the kind that is created to put a pod on a node.
func binding(pods *kinds.Resource) *kinds.Resource {
	b := gokind.Of(gokind.Row{Version: "v1", Kind: "Binding", Question: true}, gokind.Rules[*corev1.Binding]{})
	b.Through = &kinds.Through{Resource: pods, Subresource: "binding"}
	return b
}

// ofPods are the subresources of pods that are served without anything that runs
// them.
func ofPods() []kinds.Subresource {
	binding := kinds.GroupVersionKind{Version: "v1", Kind: "Binding"}
	eviction := kinds.GroupVersionKind{Group: "policy", Version: "v1", Kind: "Eviction"}
	return []kinds.Subresource{
		{
			Name: "binding", Verbs: []string{"create"}, Apply: bind, SameGeneration: true,
			Kind: binding, Body: gokind.Body[corev1.Binding](binding), GoType: reflect.TypeFor[corev1.Binding](),
		},
		{
			Name: "ephemeralcontainers", Verbs: []string{"get", "patch", "update"},
			Kind:  kinds.GroupVersionKind{Version: "v1", Kind: "Pod"},
			Apply: takeEphemeralContainers, Check: checkEphemeralContainers,
		},
		{
			Name: "eviction", Verbs: []string{"create"}, Kind: eviction,
			// policy/v1beta1 is what clients older than 1.22 send, kubectl drain among them
			// (upstream's EvictionREST.AcceptsGroupVersion).
			Body: gokind.Body[policyv1.Eviction](eviction, "v1beta1"), GoType: reflect.TypeFor[policyv1.Eviction](),
		},
		{
			Name: "resize", Verbs: []string{"get", "patch", "update"},
			Kind:  kinds.GroupVersionKind{Version: "v1", Kind: "Pod"},
			Apply: takeResources, Check: checkResize,
		},
	}
}

// ofServiceAccounts are the subresources of service accounts.
func ofServiceAccounts() []kinds.Subresource {
	request := gokind.Of(gokind.Row{
		Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest", Question: true,
	}, gokind.Rules[*authenticationv1.TokenRequest]{})
	return []kinds.Subresource{{
		Name: "token", Verbs: []string{"create"}, Kind: request.GVK(),
		Body: request.Type, GoType: request.GoType, Question: request,
	}}
}
