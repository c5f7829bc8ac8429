package registry

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/kube"
)

// firstNamespaces always exist and cannot be deleted (server.md 5).
func firstNamespaces() []string { return []string{"default", "kube-system", "kube-public"} }

func namespacesGR() schema.GroupResource { return schema.GroupResource{Resource: "namespaces"} }

func isNamespace(r *schema.Resource) bool { return r.GR() == namespacesGR() }

// makeNamespaces creates the first namespaces, unless they are there.
func (r *Registry) makeNamespaces(ctx context.Context) error {
	resource, found := r.live.Load().Storage(namespacesGR())
	if !found {
		return nil // a catalog without namespaces: a test's
	}
	w, err := r.newSubject(schema.Target{Resource: resource}, nil)
	if err != nil {
		return err
	}
	for _, name := range firstNamespaces() {
		if _, found := w.kind.cache.Snapshot().Get(kube.Key{Name: name}); found {
			continue
		}
		u := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name},
		}}
		if _, err := r.create(ctx, w, u); err != nil && !isAlreadyExists(err) {
			return fmt.Errorf("create namespace %s: %w", name, err)
		}
	}
	return nil
}

// admit says whether an object may be created in its namespace and of its
// definition (upstream's plugin NamespaceLifecycle, and its handler of custom
// resources).
func (r *Registry) admit(ctx context.Context, t schema.Target) error {
	if err := r.admitDefined(ctx, t.Resource); err != nil {
		return err
	}
	kinds := *r.kinds.Load()
	namespaces := kinds[namespacesGR().String()]
	if !t.Resource.Namespaced || t.Namespace == "" || namespaces == nil {
		return nil
	}
	ns, err := r.find(ctx, namespaces, kube.Key{Name: t.Namespace})
	switch {
	case err != nil:
		return err
	case ns == nil:
		return kube.NotFound(namespacesGR(), t.Namespace)
	case ns.Deleting():
		return terminating(t)
	}
	return nil
}

// terminating is 403 with the cause by which clients know it.
func terminating(t schema.Target) error {
	e := kube.Forbidden(t.Resource.GR(), t.Name,
		fmt.Sprintf("unable to create new content in namespace %s because it is being terminated", t.Namespace))
	e.Status.Details.Causes = append(e.Status.Details.Causes, metav1.StatusCause{
		Type:    "NamespaceTerminating", // k8s.io/api core/v1 NamespaceTerminatingCause
		Message: fmt.Sprintf("namespace %s is being terminated", t.Namespace),
		Field:   "metadata.namespace",
	})
	return e
}

// protected refuses to delete the first namespaces.
func protected(t schema.Target) error {
	if isNamespace(t.Resource) && slices.Contains(firstNamespaces(), t.Name) {
		return kube.Forbidden(t.Resource.GR(), t.Name, "this namespace may not be deleted")
	}
	return nil
}

// namespaceFinalizers returns spec.finalizers: as long as there are any the
// namespace has not been emptied.
func namespaceFinalizers(u *unstructured.Unstructured) []string {
	finalizers, _, err := unstructured.NestedStringSlice(u.Object, "spec", "finalizers")
	if err != nil {
		return nil // the type has checked it: there are none
	}
	return finalizers
}
