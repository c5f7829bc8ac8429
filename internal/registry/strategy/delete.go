package strategy

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/custom"
	"github.com/gapless-io/gapless/internal/wire"
)

// DefinitionFinalizer keeps a definition until its objects are deleted (apiextensions
// v1 CustomResourceCleanupFinalizer).
const DefinitionFinalizer = "customresourcecleanup.apiextensions.k8s.io"

// Deletion is the effect of a DELETE on an object.
type Deletion int

// DeleteNow removes the object. DeleteLater marks it as being deleted, or shortens its
// grace period. DeleteMarked does both, one after the other: it marks an object whose grace
// period is 0, and then removes it. DeleteUnchanged does nothing, since the object is already
// marked.
const (
	DeleteNow Deletion = iota
	DeleteLater
	DeleteMarked
	DeleteUnchanged
)

// Delete decides what a DELETE does to an object, and for DeleteLater and DeleteMarked changes
// u in place (apiserver rest.BeforeDelete, and Store.updateForGracefulDeletionAndFinalizers).
func Delete(r *kinds.Resource, u *unstructured.Unstructured, o metav1.DeleteOptions) (Deletion, error) {
	deleting := u.GetDeletionTimestamp() != nil
	if r.IsDefinition() && !deleting {
		return DeleteLater, markDefinition(u, now())
	}
	finalizers := deletionFinalizers(r, u.GetFinalizers(), o)
	held := len(finalizers) > 0 || r.IsNamespace() && len(namespaceFinalizers(u)) > 0
	at, period := now(), int64(0)
	if deleting {
		pending := int64(0)
		if grace := u.GetDeletionGracePeriodSeconds(); grace != nil {
			pending = *grace
		}
		switch {
		case pending == 0 && !held:
			// Its grace period has ended, or a server ended between the two steps.
			return DeleteNow, nil
		case pending == 0 && !r.IsNamespace() && !sameElements(finalizers, u.GetFinalizers()):
			u.SetFinalizers(finalizers) // another policy than before
			return DeleteLater, nil
		case pending == 0, o.GracePeriodSeconds == nil, requested(o) >= pending:
			return DeleteUnchanged, nil
		}
		at, period = shortened(u, pending, requested(o))
	} else {
		// A namespace has content, maybe, also if its finalizers were removed before.
		if r.GracefulSeconds == 0 && !held && !r.IsNamespace() {
			return DeleteNow, nil
		}
		period = gracePeriod(r, u, o)
		at = metav1.NewTime(at.Add(time.Duration(period) * time.Second))
		if generation := u.GetGeneration(); generation > 0 {
			u.SetGeneration(generation + 1)
		}
	}
	u.SetDeletionTimestamp(&at)
	u.SetDeletionGracePeriodSeconds(&period)
	u.SetFinalizers(finalizers)
	if r.IsNamespace() {
		if err := unstructured.SetNestedField(u.Object, "Terminating", "status", "phase"); err != nil {
			return DeleteUnchanged, wire.Internal(err)
		}
	}
	if period == 0 && !held && !r.IsNamespace() {
		return DeleteMarked, nil
	}
	return DeleteLater, nil
}

// Finished says that nothing holds an object under deletion any more.
func Finished(r *kinds.Resource, u *unstructured.Unstructured) bool {
	grace := u.GetDeletionGracePeriodSeconds()
	return len(u.GetFinalizers()) == 0 && (grace == nil || *grace == 0) &&
		(!r.IsNamespace() || len(namespaceFinalizers(u)) == 0)
}

// now is the time as metadata has it.
func now() metav1.Time { return metav1.NewTime(time.Now().UTC().Truncate(time.Second)) }

// markDefinition marks a definition as being deleted: it adds the finalizer, so that
// the objects are deleted first, and says so in the status (apiextensions
// registry/customresourcedefinition REST.Delete).
func markDefinition(u *unstructured.Unstructured, at metav1.Time) error {
	if finalizers := u.GetFinalizers(); !slices.Contains(finalizers, DefinitionFinalizer) {
		u.SetFinalizers(append(finalizers, DefinitionFinalizer))
	}
	u.SetDeletionTimestamp(&at)
	if err := custom.Terminate(u, at); err != nil {
		return wire.Internal(err)
	}
	return nil
}

// namespaceFinalizers returns spec.finalizers: as long as there are any, the
// namespace may still have content.
func namespaceFinalizers(u *unstructured.Unstructured) []string {
	finalizers, _, err := unstructured.NestedStringSlice(u.Object, "spec", "finalizers")
	if err != nil {
		return nil // the type has checked it: there are none
	}
	return finalizers
}

// gracePeriod is how many seconds an object has that is not being deleted yet (pods:
// kubernetes pkg/registry/core/pod strategy.CheckGracefulDelete).
func gracePeriod(resource *kinds.Resource, u *unstructured.Unstructured, o metav1.DeleteOptions) int64 {
	if resource.GracefulSeconds == 0 {
		return 0
	}
	node, _, _ := unstructured.NestedString(u.Object, "spec", "nodeName") // "" for what is no string
	phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
	if node == "" || phase == "Succeeded" || phase == "Failed" {
		return 0 // nothing is running
	}
	if o.GracePeriodSeconds != nil {
		return requested(o)
	}
	if own, found, err := unstructured.NestedInt64(u.Object, "spec", "terminationGracePeriodSeconds"); found && err == nil {
		return notNegative(own)
	}
	return resource.GracefulSeconds
}

// requested is the grace period that a DELETE asks for, 0 for none.
func requested(o metav1.DeleteOptions) int64 {
	if o.GracePeriodSeconds == nil {
		return 0
	}
	return notNegative(*o.GracePeriodSeconds)
}

// notNegative is a grace period, which is 1 second where a client says less than none
// (apiserver rest.BeforeDelete).
func notNegative(seconds int64) int64 {
	if seconds < 0 {
		return 1
	}
	return seconds
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
	// The period is over already, but the kubelet must still confirm the end.
	return at, min(period, 1)
}
