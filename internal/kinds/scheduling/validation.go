package scheduling

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// validateNewPriorityClass validates a new PriorityClass; what it checks cannot change.
func validateNewPriorityClass(o *schedulingv1.PriorityClass) field.ErrorList {
	// 1e9: HighestUserDefinablePriority of pkg/apis/scheduling/types.go.
	const highest = 1_000_000_000
	system := map[string]int32{"system-cluster-critical": 2 * highest, "system-node-critical": 2*highest + 1000}
	var errs field.ErrorList
	if strings.HasPrefix(o.Name, "system-") {
		if value, known := system[o.Name]; !known || value != o.Value {
			errs = append(errs, field.Forbidden(field.NewPath("metadata", "name"),
				"priority class names with 'system-' prefix are reserved for system use only"))
		}
	} else if o.Value > highest {
		errs = append(errs,
			field.Forbidden(field.NewPath("value"), "maximum allowed value of a user defined priority is 1000000000"))
	}
	if o.PreemptionPolicy != nil {
		errs = append(errs,
			check.OneOf(nil, "preemptionPolicy", *o.PreemptionPolicy, corev1.PreemptLowerPriority, corev1.PreemptNever)...)
	}
	return errs
}

// validatePriorityClassUpdate validates the change of a PriorityClass from old to o.
func validatePriorityClassUpdate(o, old *schedulingv1.PriorityClass) field.ErrorList {
	var errs field.ErrorList
	if o.Value != old.Value {
		errs = append(errs, field.Forbidden(field.NewPath("value"), "may not be changed in an update."))
	}
	return append(errs, check.Unchanged(nil, "preemptionPolicy", o.PreemptionPolicy, old.PreemptionPolicy)...)
}
