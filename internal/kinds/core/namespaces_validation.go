package core

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// validateNamespace validates the finalizers of a Namespace: each is Kubernetes' own, or has the name of a domain.
func validateNamespace(o *corev1.Namespace) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("spec", "finalizers")
	for _, f := range o.Spec.Finalizers {
		name := string(f)
		errs = append(errs, check.Invalid(at, name, validation.IsQualifiedName(name))...)
		switch name {
		case string(corev1.FinalizerKubernetes), metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents:
			continue
		}
		if !strings.Contains(name, "/") {
			errs = append(errs,
				field.Invalid(at, name, "name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return errs
}

// validateNamespaceStatus validates the status of a Namespace: it says the phase that the namespace is in.
func validateNamespaceStatus(o, _ *corev1.Namespace) field.ErrorList {
	at := field.NewPath("status", "Phase") // upstream's path begins with a capital letter
	switch {
	case o.DeletionTimestamp == nil && o.Status.Phase != corev1.NamespaceActive:
		return field.ErrorList{field.Invalid(at, o.Status.Phase, "may only be 'Active' if `deletionTimestamp` is empty")}
	case o.DeletionTimestamp != nil && o.Status.Phase != corev1.NamespaceTerminating:
		return field.ErrorList{field.Invalid(at, o.Status.Phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")}
	}
	return nil
}
