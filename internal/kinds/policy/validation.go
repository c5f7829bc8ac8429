package policy

import (
	policyv1 "k8s.io/api/policy/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// validatePodDisruptionBudget validates a PodDisruptionBudget.
func validatePodDisruptionBudget(o *policyv1.PodDisruptionBudget) field.ErrorList {
	var errs field.ErrorList
	if o.Spec.MinAvailable != nil && o.Spec.MaxUnavailable != nil {
		errs = append(errs, field.Invalid(check.Spec(), o.Spec, "minAvailable and maxUnavailable cannot be both set"))
	}
	errs = append(errs, check.IntOrPercent(check.Spec("minAvailable"), o.Spec.MinAvailable)...)
	errs = append(errs, check.IntOrPercent(check.Spec("maxUnavailable"), o.Spec.MaxUnavailable)...)
	errs = append(errs, check.NotMoreThanAll(check.Spec("minAvailable"), o.Spec.MinAvailable)...)
	errs = append(errs, check.NotMoreThanAll(check.Spec("maxUnavailable"), o.Spec.MaxUnavailable)...)
	errs = append(errs,
		check.KnownIfSet(check.Spec(), "unhealthyPodEvictionPolicy", o.Spec.UnhealthyPodEvictionPolicy, policyv1.AlwaysAllow,
			policyv1.IfHealthyBudget)...)
	errs = append(errs, budgetStatus(&o.Status)...)
	return append(errs, check.LabelSelector(check.Spec("selector"), o.Spec.Selector)...)
}

func budgetStatus(s *policyv1.PodDisruptionBudgetStatus) field.ErrorList {
	errs := check.Counts([]check.Count{
		{Name: "disruptionsAllowed", N: int64(s.DisruptionsAllowed)},
		{Name: "currentHealthy", N: int64(s.CurrentHealthy)},
		{Name: "desiredHealthy", N: int64(s.DesiredHealthy)},
		{Name: "expectedPods", N: int64(s.ExpectedPods)},
	}, nil)
	return append(errs, metavalidation.ValidateConditions(s.Conditions, field.NewPath("status", "conditions"))...)
}
