package strategy

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/gapless-io/gapless/internal/kinds"
)

// deletionFinalizers returns the finalizers of an object once it is under deletion: with
// those for the collector that the options, the finalizers that it has, or its kind ask
// for, in this order of precedence (apiserver Store deletionFinalizersForGarbageCollection,
// as with kube-apiserver's --enable-garbage-collector, which is its default). Which program
// runs the collector does not matter here.
func deletionFinalizers(r *kinds.Resource, finalizers []string, o metav1.DeleteOptions) []string {
	policy := propagation(r, finalizers, o)
	finalizers = slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool {
		return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
	})
	switch policy {
	case metav1.DeletePropagationOrphan:
		finalizers = append(finalizers, metav1.FinalizerOrphanDependents)
	case metav1.DeletePropagationForeground:
		finalizers = append(finalizers, metav1.FinalizerDeleteDependents)
	case metav1.DeletePropagationBackground:
	}
	return finalizers
}

// propagation returns the policy of a deletion.
func propagation(r *kinds.Resource, finalizers []string, o metav1.DeleteOptions) metav1.DeletionPropagation {
	orphan := o.OrphanDependents //nolint:staticcheck // deprecated, and still sent by old clients
	switch {
	case r.NoDependents:
	case orphan != nil && *orphan:
		return metav1.DeletePropagationOrphan
	case orphan != nil && r.IsNamespace():
		// namespace/storage shouldHaveDeleteDependentsFinalizer.
		return metav1.DeletePropagationForeground
	case orphan != nil:
	case o.PropagationPolicy != nil:
		return *o.PropagationPolicy
	case slices.Contains(finalizers, metav1.FinalizerOrphanDependents):
		return metav1.DeletePropagationOrphan
	case slices.Contains(finalizers, metav1.FinalizerDeleteDependents):
		return metav1.DeletePropagationForeground
	case r.OrphansByDefault:
		return metav1.DeletePropagationOrphan
	}
	return metav1.DeletePropagationBackground
}

// DeleteWarnings returns the warnings about a deletion.
func DeleteWarnings(r *kinds.Resource, o metav1.DeleteOptions) []string {
	chosen := o.PropagationPolicy != nil || o.OrphanDependents != nil //nolint:staticcheck // as above
	if r.OrphanWarning == "" || chosen {
		return nil
	}
	return []string{r.OrphanWarning}
}

// sameElements compares sets.
func sameElements(a, b []string) bool {
	return sets.New(a...).Equal(sets.New(b...))
}
