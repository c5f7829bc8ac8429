package node

import (
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
	"github.com/gapless-io/gapless/internal/kinds/podrules"
)

// validateRuntimeClass validates a RuntimeClass.
func validateRuntimeClass(o *nodev1.RuntimeClass) field.ErrorList {
	errs := check.Required(nil, "handler", o.Handler, validation.IsDNS1123Label)
	if o.Overhead != nil {
		// Upstream checks it as the limits of a container.
		errs = append(errs, check.Amounts(field.NewPath("overhead", "limits"), o.Overhead.PodFixed)...)
	}
	if o.Scheduling == nil {
		return errs
	}
	at := field.NewPath("scheduling")
	errs = append(errs, metavalidation.ValidateLabels(o.Scheduling.NodeSelector, at.Child("nodeSelector"))...)
	seen := map[corev1.Toleration]bool{}
	for i, t := range o.Scheduling.Tolerations {
		p := at.Child("tolerations").Index(i)
		errs = append(errs, podrules.Toleration(p, &t)...)
		t.TolerationSeconds = nil
		if seen[t] {
			errs = append(errs, field.Duplicate(p, t))
		}
		seen[t] = true
	}
	return errs
}

// validateRuntimeClassUpdate validates the change of a RuntimeClass from old to o.
func validateRuntimeClassUpdate(o, old *nodev1.RuntimeClass) field.ErrorList {
	return check.Unchanged(nil, "handler", o.Handler, old.Handler)
}
