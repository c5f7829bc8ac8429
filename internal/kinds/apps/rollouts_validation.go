package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
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
	errs := check.IntOrPercent(p.Child("maxUnavailable"), fewer)
	errs = append(errs, check.IntOrPercent(p.Child("maxSurge"), more)...)
	errs = append(errs, check.NotMoreThanAll(p.Child("maxUnavailable"), fewer)...)
	if check.NumberOf(fewer) == 0 && check.NumberOf(more) == 0 {
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
	errs := check.IntOrPercent(p.Child("maxUnavailable"), fewer)
	errs = append(errs, check.IntOrPercent(p.Child("maxSurge"), more)...)
	errs = append(errs, check.NotMoreThanAll(p.Child("maxUnavailable"), fewer)...)
	errs = append(errs, check.NotMoreThanAll(p.Child("maxSurge"), more)...)
	switch {
	case check.NumberOf(fewer) != 0 && check.NumberOf(more) != 0:
		errs = append(errs, field.Invalid(p.Child("maxSurge"), more, "may not be set when maxUnavailable is non-zero"))
	case check.NumberOf(fewer) == 0 && check.NumberOf(more) == 0:
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
		errs = append(errs, check.IntOrPercent(p.Child("maxUnavailable"), fewer)...)
		if check.NumberOf(fewer) == 0 {
			errs = append(errs, field.Invalid(p.Child("maxUnavailable"), fewer, "cannot be 0"))
		}
		errs = append(errs, check.NotMoreThanAll(p.Child("maxUnavailable"), fewer)...)
	}
	return errs
}
