package strategy

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gapless-io/gapless/internal/kinds"
)

// Warnings returns the warnings about a write that is accepted; old is nil for a
// creation. They are about new finalizers of kinds with [kinds.AdvisedFinalizers] (apiextensions
// registry/customresource, generateWarningsFromObj).
func Warnings(r *kinds.Resource, u, old *unstructured.Unstructured) []string {
	if r.Finalizers != kinds.AdvisedFinalizers {
		return nil
	}
	var known, warnings []string
	if old != nil {
		known = old.GetFinalizers()
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(u.GetFinalizers()))) {
		if !slices.Contains(known, name) {
			warnings = append(warnings, finalizerWarnings(name)...)
		}
	}
	return warnings
}

// finalizerWarnings returns warnings about the name of a finalizer (upstream's
// validateKubeFinalizerName, with its texts).
func finalizerWarnings(name string) []string {
	var warnings []string
	warn := func(why string) {
		warnings = append(warnings, fmt.Sprintf("metadata.finalizers: %q: %s", name, why))
	}
	for _, why := range validation.IsQualifiedName(name) {
		warn(why)
	}
	standard := []string{metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents, "kubernetes"}
	switch {
	case strings.Contains(name, "/") || slices.Contains(standard, name):
	case strings.Contains(name, "."):
		warn(
			"prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with " +
				"other finalizer writers")
	default:
		warn("prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers")
	}
	return warnings
}
