package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

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
