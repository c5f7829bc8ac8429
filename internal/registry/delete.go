package registry

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"

	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/kube"
)

// Delete removes an object, or marks it as being deleted when finalizers or a
// grace period hold it. The answer is a Status, or the object where it is held or
// its kind wants that. Errors: 403, 404, 409 for preconditions, 422 (server.md 5).
//
// There is no garbage collector. Dependants stay under every propagation policy,
// and the policies Foreground and Orphan do not hold the object: the finalizers
// by which a collector would find its work are not added, and are dropped.
func (r *Registry) Delete(ctx context.Context, t schema.Target, o metav1.DeleteOptions) (kube.Written, error) {
	if err := invalidOptions("DeleteOptions", metavalidation.ValidateDeleteOptions(&o)); err != nil {
		return kube.Written{}, err
	}
	w, err := r.newSubject(t, o.DryRun)
	if err != nil {
		return kube.Written{}, err
	}
	if err := protected(t); err != nil {
		return kube.Written{}, err
	}
	out, err := r.delete(ctx, w, o)
	if err != nil {
		return kube.Written{}, err
	}
	if out.removed && !t.Resource.ReturnDeleted {
		return kube.Written{Status: removed(t, out.object)}, nil
	}
	return kube.Written{Object: out.object.WithAPIVersion(t.Resource.APIVersion())}, nil
}

// removed is the answer to a deletion that took effect at once.
func removed(t schema.Target, last *kube.Object) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusSuccess,
		Details: &metav1.StatusDetails{
			Name: last.Key().Name, Group: t.Resource.Group, Kind: t.Resource.Plural, UID: last.UID(),
		},
	}
}

// delete deletes one object as far as it may be deleted now.
func (r *Registry) delete(ctx context.Context, w subject, o metav1.DeleteOptions) (outcome, error) {
	return r.mutate(ctx, w, func(current *kube.Object) (decision, error) {
		if current == nil {
			return decision{}, kube.NotFound(w.target.Resource.GR(), w.target.Name)
		}
		if err := preconditions(w.target, current, o.Preconditions); err != nil {
			return decision{}, err
		}
		return deletion(w.target.Resource, current, o)
	})
}

// preconditions compares uid and resourceVersion (apiserver rest.BeforeDelete, which
// names the kind where other conflicts name the resource).
func preconditions(t schema.Target, current *kube.Object, p *metav1.Preconditions) error {
	if p == nil {
		return nil
	}
	kind := schema.GroupResource{Group: t.Resource.Group, Resource: t.Resource.Kind}
	if p.UID != nil && *p.UID != current.UID() {
		return kube.Conflict(kind, current.Key().Name, fmt.Sprintf(
			"the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated",
			*p.UID, current.UID()))
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != current.ResourceVersion().String() {
		return kube.Conflict(kind, current.Key().Name, fmt.Sprintf(
			"the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified",
			*p.ResourceVersion, current.ResourceVersion()))
	}
	return nil
}

// deletion decides what a DELETE does to an object: remove it, mark it, shorten
// its grace period, or nothing because it is marked already.
func deletion(resource *schema.Resource, current *kube.Object, o metav1.DeleteOptions) (decision, error) {
	u, err := treeOf(current)
	if err != nil {
		return decision{}, err
	}
	finalizers := slices.DeleteFunc(u.GetFinalizers(), func(f string) bool {
		return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
	})
	held := len(finalizers) > 0 || isNamespace(resource) && len(namespaceFinalizers(u)) > 0
	period := gracePeriod(resource, u, o)
	at := now()
	if current.Deleting() {
		pending := int64(0)
		if grace := u.GetDeletionGracePeriodSeconds(); grace != nil {
			pending = *grace
		}
		switch {
		case pending == 0 && !held:
			return decision{remove: true}, nil
		case pending == 0, o.GracePeriodSeconds == nil, period >= pending:
			return decision{}, nil
		case period == 0 && !held:
			return decision{remove: true}, nil
		}
		at, period = shortened(u, pending, period)
	} else {
		if period == 0 && !held {
			return decision{remove: true}, nil
		}
		at = metav1.NewTime(at.Add(time.Duration(period) * time.Second))
		if generation := u.GetGeneration(); generation > 0 {
			u.SetGeneration(generation + 1)
		}
	}
	u.SetDeletionTimestamp(&at)
	u.SetDeletionGracePeriodSeconds(&period)
	u.SetFinalizers(finalizers)
	if isNamespace(resource) {
		if err := unstructured.SetNestedField(u.Object, "Terminating", "status", "phase"); err != nil {
			return decision{}, kube.Internal(err)
		}
	}
	value, err := encodeStored(resource, u)
	return decision{value: value}, err
}

// gracePeriod is how many seconds the object has from now on (pods: kubernetes
// pkg/registry/core/pod strategy.CheckGracefulDelete). Negative ones are 1.
func gracePeriod(resource *schema.Resource, u *unstructured.Unstructured, o metav1.DeleteOptions) int64 {
	if resource.GracefulSeconds == 0 {
		return 0
	}
	period := resource.GracefulSeconds
	if o.GracePeriodSeconds != nil {
		period = *o.GracePeriodSeconds
	} else if own, found, err := unstructured.NestedInt64(u.Object, "spec", "terminationGracePeriodSeconds"); found && err == nil {
		period = own
	}
	node, _, _ := unstructured.NestedString(u.Object, "spec", "nodeName") // "" for what is no string
	phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
	if node == "" || phase == "Succeeded" || phase == "Failed" {
		return 0 // nothing runs that could end in peace
	}
	if period < 0 {
		return 1
	}
	return period
}

// shortened is the end of a grace period that becomes shorter while it runs.
func shortened(u *unstructured.Unstructured, pending, period int64) (metav1.Time, int64) {
	at := now()
	if end := u.GetDeletionTimestamp(); end != nil {
		begun := end.Add(-time.Duration(pending) * time.Second)
		if sooner := metav1.NewTime(begun.Add(time.Duration(period) * time.Second)); at.Before(&sooner) {
			return sooner, period
		}
	}
	// It is over already, but whoever runs the object has the last word.
	return at, min(period, 1)
}
