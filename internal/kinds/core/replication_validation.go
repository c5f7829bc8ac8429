package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
	"github.com/gapless-io/gapless/internal/kinds/podrules"
)

func replicationStatus(s *corev1.ReplicationControllerStatus) field.ErrorList {
	replicas := int64(s.Replicas)
	errs := check.Counts([]check.Count{
		{Name: "observedGeneration", N: s.ObservedGeneration}, {Name: "replicas", N: replicas},
	}, nil)
	errs = append(errs, check.Counts([]check.Count{
		{Name: "fullyLabeledReplicas", N: int64(s.FullyLabeledReplicas)},
		{Name: "readyReplicas", N: int64(s.ReadyReplicas)},
		{Name: "availableReplicas", N: int64(s.AvailableReplicas)},
	}, &replicas)...)
	return append(errs, check.Available(s.AvailableReplicas, s.ReadyReplicas, "readyReplicas")...)
}

// validateReplicationController validates a ReplicationController.
func validateReplicationController(o *corev1.ReplicationController) field.ErrorList {
	errs := check.NotNegative(check.Spec(), "replicas", o.Spec.Replicas)
	errs = append(errs, check.NotNegative(check.Spec(), "minReadySeconds", &o.Spec.MinReadySeconds)...)
	if len(o.Spec.Selector) == 0 {
		errs = append(errs, field.Required(check.Spec("selector"), ""))
	}
	template := o.Spec.Template
	if template == nil {
		return append(errs, field.Required(check.Spec("template"), ""))
	}
	if !labels.SelectorFromSet(o.Spec.Selector).Matches(labels.Set(template.Labels)) {
		errs = append(errs, podrules.NotSelected(check.Spec(), template.Labels))
	}
	errs = append(errs, replicationStatus(&o.Status)...)
	return append(errs, podrules.RunningTemplate(check.Spec("template"), template, "ReplicationController")...)
}
