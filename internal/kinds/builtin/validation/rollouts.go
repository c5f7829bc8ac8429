package validation

import (
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/builtin/validation/check"
)

// checkDeploymentStrategy checks how a deployment replaces its pods.
func checkDeploymentStrategy(at *field.Path, s *appsv1.DeploymentStrategy) field.ErrorList {
	p := at.Child("rollingUpdate")
	switch s.Type {
	case appsv1.RecreateDeploymentStrategyType:
		if s.RollingUpdate != nil {
			return field.ErrorList{field.Forbidden(p, "may not be specified when strategy `type` is 'Recreate'")}
		}
		return nil
	case appsv1.RollingUpdateDeploymentStrategyType:
	default:
		return field.ErrorList{field.NotSupported(at, s, []appsv1.DeploymentStrategyType{
			appsv1.RecreateDeploymentStrategyType, appsv1.RollingUpdateDeploymentStrategyType,
		})}
	}
	if s.RollingUpdate == nil {
		return field.ErrorList{field.Required(p, "this should be defaulted and never be nil")}
	}
	fewer, more := s.RollingUpdate.MaxUnavailable, s.RollingUpdate.MaxSurge
	errs := intOrPercent(p.Child("maxUnavailable"), fewer)
	errs = append(errs, intOrPercent(p.Child("maxSurge"), more)...)
	errs = append(errs, notMoreThanAll(p.Child("maxUnavailable"), fewer)...)
	if numberOf(fewer) == 0 && numberOf(more) == 0 {
		errs = append(errs, field.Invalid(p.Child("maxUnavailable"), fewer, "may not be 0 when `maxSurge` is 0"))
	}
	return errs
}

// checkDaemonStrategy checks how a daemon set replaces its pods.
func checkDaemonStrategy(at *field.Path, s *appsv1.DaemonSetUpdateStrategy) field.ErrorList {
	p := at.Child("rollingUpdate")
	switch {
	case s.Type == appsv1.OnDeleteDaemonSetStrategyType:
		return nil
	case s.Type != appsv1.RollingUpdateDaemonSetStrategyType:
		return field.ErrorList{field.NotSupported(at, s, []appsv1.DaemonSetUpdateStrategyType{
			appsv1.RollingUpdateDaemonSetStrategyType, appsv1.OnDeleteDaemonSetStrategyType,
		})}
	case s.RollingUpdate == nil:
		return field.ErrorList{field.Required(p, "")}
	}
	fewer, more := s.RollingUpdate.MaxUnavailable, s.RollingUpdate.MaxSurge
	errs := intOrPercent(p.Child("maxUnavailable"), fewer)
	errs = append(errs, intOrPercent(p.Child("maxSurge"), more)...)
	errs = append(errs, notMoreThanAll(p.Child("maxUnavailable"), fewer)...)
	errs = append(errs, notMoreThanAll(p.Child("maxSurge"), more)...)
	switch {
	case numberOf(fewer) != 0 && numberOf(more) != 0:
		errs = append(errs, field.Invalid(p.Child("maxSurge"), more, "may not be set when maxUnavailable is non-zero"))
	case numberOf(fewer) == 0 && numberOf(more) == 0:
		errs = append(errs, field.Required(p.Child("maxUnavailable"), "cannot be 0 when maxSurge is 0"))
	}
	return errs
}

// checkStatefulStrategy checks how a stateful set replaces its pods.
func checkStatefulStrategy(at *field.Path, s *appsv1.StatefulSetUpdateStrategy) field.ErrorList {
	p, rolling := at.Child("rollingUpdate"), s.RollingUpdate
	switch {
	case s.Type == "":
		return field.ErrorList{field.Required(at, "")}
	case s.Type == appsv1.OnDeleteStatefulSetStrategyType && rolling != nil:
		return field.ErrorList{field.Invalid(p, rolling, "only allowed for updateStrategy 'RollingUpdate'")}
	case s.Type == appsv1.OnDeleteStatefulSetStrategyType:
		return nil
	case s.Type != appsv1.RollingUpdateStatefulSetStrategyType: // Recreate needs a feature gate that is off
		return field.ErrorList{field.Invalid(at, s, "must be 'RollingUpdate' or 'OnDelete'")}
	}
	if rolling == nil {
		return nil
	}
	errs := check.NotNegative(p, "partition", rolling.Partition)
	if fewer := rolling.MaxUnavailable; fewer != nil {
		errs = append(errs, intOrPercent(p.Child("maxUnavailable"), fewer)...)
		if numberOf(fewer) == 0 {
			errs = append(errs, field.Invalid(p.Child("maxUnavailable"), fewer, "cannot be 0"))
		}
		errs = append(errs, notMoreThanAll(p.Child("maxUnavailable"), fewer)...)
	}
	return errs
}

// intOrPercent checks a number of pods: 0 or more, or a percentage.
func intOrPercent(at *field.Path, v *intstr.IntOrString) field.ErrorList {
	switch {
	case v == nil:
		return nil
	case v.Type == intstr.Int:
		return check.NotNegative(at, "", &v.IntVal)
	default:
		return check.Invalid(at, v, validation.IsValidPercent(v.StrVal))
	}
}

// notMoreThanAll checks that a percentage of pods is at most 100.
func notMoreThanAll(at *field.Path, v *intstr.IntOrString) field.ErrorList {
	if v == nil || v.Type == intstr.Int || numberOf(v) <= 100 {
		return nil
	}
	return field.ErrorList{field.Invalid(at, v, "must not be greater than 100%")}
}

// numberOf returns the number or the percentage; 0 for what is none.
func numberOf(v *intstr.IntOrString) int {
	switch {
	case v == nil:
		return 0
	case v.Type == intstr.Int:
		return int(v.IntVal)
	}
	n, err := strconv.Atoi(strings.TrimSuffix(v.StrVal, "%"))
	if err != nil {
		return 0
	}
	return n
}
