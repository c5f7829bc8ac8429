package builtin

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	clientv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/kubernetes/pkg/apis/resource"
)

// allowed is the authorizer of strategies that ask one: it allows everything, as here.
type allowed struct{}

// Authorize implements authorizer.UnconditionalAuthorizer.
func (allowed) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionAllow, "", nil
}

// nothing resolves kinds to resources for strategies that authorize access to parameters:
// they have no authorizer, and so do not ask.
type nothing struct{}

// Resolve implements resolver.ResourceResolver.
func (nothing) Resolve(runtimeschema.GroupVersionKind) (runtimeschema.GroupVersionResource, error) {
	return runtimeschema.GroupVersionResource{}, nil
}

// administrated has the namespaces for strategies that look at them: each allows requests
// for the administration of devices.
type administrated struct{ clientv1.NamespaceInterface }

// Get returns a namespace.
func (administrated) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.Namespace, error) {
	labels := map[string]string{resource.DRAAdminNamespaceLabelKey: "true"}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, nil
}
