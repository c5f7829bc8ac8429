package autoscaling

import (
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/check"
)

// validateAutoscaler validates a HorizontalPodAutoscaler.
func validateAutoscaler(o *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	spec := &o.Spec
	var errs field.ErrorList
	if spec.MinReplicas != nil && *spec.MinReplicas < 0 {
		errs = append(errs, field.Invalid(check.Spec("minReplicas"), *spec.MinReplicas, "must be greater than or equal to 0"))
	}
	switch most := check.Spec("maxReplicas"); {
	case spec.MaxReplicas == 0:
		errs = append(errs, field.Required(most, "must be set and greater than 0"))
	case spec.MaxReplicas < 0:
		errs = append(errs, field.Invalid(most, spec.MaxReplicas, "must be greater than or equal to 1"))
	}
	if spec.MinReplicas != nil && spec.MaxReplicas < *spec.MinReplicas {
		errs = append(errs,
			field.Invalid(check.Spec("maxReplicas"), spec.MaxReplicas, "must be greater than or equal to `minReplicas`"))
	}
	errs = append(errs, check.Required(check.Spec("scaleTargetRef"), "kind", spec.ScaleTargetRef.Kind, kinds.SegmentName)...)
	errs = append(errs, check.Required(check.Spec("scaleTargetRef"), "name", spec.ScaleTargetRef.Name, kinds.SegmentName)...)
	errs = append(errs, checkMetrics(check.Spec("metrics"), spec)...)
	if b := spec.Behavior; b != nil {
		errs = append(errs, checkScaling(check.Spec("behavior", "scaleUp"), b.ScaleUp)...)
		errs = append(errs, checkScaling(check.Spec("behavior", "scaleDown"), b.ScaleDown)...)
	}
	return append(errs, autoscalerStatus(&o.Status)...)
}

// validateNewAutoscaler validates the apiVersion of what a new autoscaler scales.
func validateNewAutoscaler(o *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	ref := &o.Spec.ScaleTargetRef
	at := check.Spec("scaleTargetRef", "apiVersion")
	gv, err := runtimeschema.ParseGroupVersion(ref.APIVersion)
	switch {
	case err != nil:
		return field.ErrorList{field.Invalid(at, ref.APIVersion, err.Error())}
	case gv.Group == "" && ref.Kind != "ReplicationController":
		return field.ErrorList{field.Invalid(at, ref.APIVersion, "apiVersion must specify API group")}
	}
	return nil
}

// validateAutoscalerUpdate validates the change of a HorizontalPodAutoscaler from
// old to o.
func validateAutoscalerUpdate(o, old *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	now, was := &o.Spec.ScaleTargetRef, &old.Spec.ScaleTargetRef
	if now.APIVersion == was.APIVersion && now.Kind == was.Kind {
		return nil
	}
	return validateNewAutoscaler(o)
}

func checkMetrics(at *field.Path, spec *autoscalingv2.HorizontalPodAutoscalerSpec) field.ErrorList {
	var errs field.ErrorList
	idle := false // some metric exists without pods
	for i := range spec.Metrics {
		m := &spec.Metrics[i]
		errs = append(errs, checkMetric(at.Index(i), m)...)
		idle = idle || m.Type == autoscalingv2.ObjectMetricSourceType || m.Type == autoscalingv2.ExternalMetricSourceType
	}
	if spec.MinReplicas != nil && *spec.MinReplicas == 0 && !idle {
		errs = append(errs,
			field.Forbidden(at, "must specify at least one Object or External metric to support scaling to zero replicas"))
	}
	return errs
}

// checkMetric checks that a metric has the source that its type names, and no other. Of
// several, only the first is looked into.
func checkMetric(at *field.Path, m *autoscalingv2.MetricSpec) field.ErrorList {
	var errs field.ErrorList
	if m.Type == "" {
		errs = append(errs, field.Required(at.Child("type"), "must specify a metric source type"))
	}
	errs = append(errs,
		check.Known(at, "type", m.Type, autoscalingv2.ContainerResourceMetricSourceType, autoscalingv2.ExternalMetricSourceType,
			autoscalingv2.ObjectMetricSourceType, autoscalingv2.PodsMetricSourceType, autoscalingv2.ResourceMetricSourceType)...)
	var present []string
	for _, s := range []struct {
		name  string
		kind  autoscalingv2.MetricSourceType
		set   bool
		check func(*field.Path) field.ErrorList
	}{
		{
			"object", autoscalingv2.ObjectMetricSourceType, m.Object != nil,
			func(at *field.Path) field.ErrorList { return checkObjectMetric(at, m.Object) },
		},
		{
			"external", autoscalingv2.ExternalMetricSourceType, m.External != nil,
			func(at *field.Path) field.ErrorList { return checkExternalMetric(at, m.External) },
		},
		{
			"pods", autoscalingv2.PodsMetricSourceType, m.Pods != nil,
			func(at *field.Path) field.ErrorList { return checkPodsMetric(at, m.Pods) },
		},
		{"resource", autoscalingv2.ResourceMetricSourceType, m.Resource != nil, func(at *field.Path) field.ErrorList {
			return checkResourceMetric(at, m.Resource.Name, &m.Resource.Target)
		}},
		{
			"containerResource", autoscalingv2.ContainerResourceMetricSourceType, m.ContainerResource != nil,
			func(at *field.Path) field.ErrorList {
				return append(checkResourceMetric(at, m.ContainerResource.Name, &m.ContainerResource.Target),
					checkMeasured(at, m.ContainerResource)...)
			},
		},
	} {
		switch {
		case s.set:
			present = append(present, s.name)
			if len(present) == 1 {
				errs = append(errs, s.check(at.Child(s.name))...)
			}
		case s.kind == m.Type:
			errs = append(errs, field.Required(at.Child(s.name), "must populate information for the given metric source"))
		}
		if s.set && s.kind == m.Type {
			present[len(present)-1] = ""
		}
	}
	if len(present) < 2 {
		return errs
	}
	for _, name := range present {
		if name != "" {
			errs = append(errs, field.Forbidden(at.Child(name), "must populate the given metric source only"))
		}
	}
	return errs
}

func checkMeasured(at *field.Path, c *autoscalingv2.ContainerResourceMetricSource) field.ErrorList {
	if c.Container == "" {
		return field.ErrorList{field.Required(at.Child("container"), "must specify a container")}
	}
	return check.Invalid(at.Child("container"), c.Container, validation.IsDNS1123Label(c.Container))
}

func checkObjectMetric(at *field.Path, m *autoscalingv2.ObjectMetricSource) field.ErrorList {
	errs := check.Required(at.Child("describedObject"), "kind", m.DescribedObject.Kind, kinds.SegmentName)
	errs = append(errs, check.Required(at.Child("describedObject"), "name", m.DescribedObject.Name, kinds.SegmentName)...)
	errs = append(errs, checkIdentifier(at, &m.Metric)...)
	errs = append(errs, checkMetricTarget(at.Child("target"), &m.Target)...)
	if m.Target.Value == nil && m.Target.AverageValue == nil {
		errs = append(errs, field.Required(at.Child("target", "averageValue"), "must set either a target value or averageValue"))
	}
	return errs
}

func checkExternalMetric(at *field.Path, m *autoscalingv2.ExternalMetricSource) field.ErrorList {
	errs := checkIdentifier(at, &m.Metric)
	errs = append(errs, checkMetricTarget(at.Child("target"), &m.Target)...)
	switch {
	case m.Target.Value == nil && m.Target.AverageValue == nil:
		errs = append(errs,
			field.Required(at.Child("target", "averageValue"), "must set either a target value for metric or a per-pod target"))
	case m.Target.Value != nil && m.Target.AverageValue != nil:
		errs = append(errs,
			field.Forbidden(at.Child("target", "value"), "may not set both a target value for metric and a per-pod target"))
	}
	return errs
}

func checkPodsMetric(at *field.Path, m *autoscalingv2.PodsMetricSource) field.ErrorList {
	errs := checkIdentifier(at, &m.Metric)
	errs = append(errs, checkMetricTarget(at.Child("target"), &m.Target)...)
	if m.Target.AverageValue == nil {
		errs = append(errs, field.Required(at.Child("target", "averageValue"), "must specify a positive target averageValue"))
	}
	return errs
}

func checkResourceMetric(at *field.Path, name corev1.ResourceName, target *autoscalingv2.MetricTarget) field.ErrorList {
	var errs field.ErrorList
	if name == "" {
		errs = append(errs, field.Required(at.Child("name"), "must specify a resource name"))
	}
	errs = append(errs, checkMetricTarget(at.Child("target"), target)...)
	switch {
	case target.AverageUtilization == nil && target.AverageValue == nil:
		errs = append(errs,
			field.Required(at.Child("target", "averageUtilization"),
				"must set either a target raw value or a target utilization"))
	case target.AverageUtilization != nil && target.AverageValue != nil:
		errs = append(errs,
			field.Forbidden(at.Child("target", "averageValue"), "may not set both a target raw value and a target utilization"))
	}
	return errs
}

func checkIdentifier(source *field.Path, id *autoscalingv2.MetricIdentifier) field.ErrorList {
	at := source.Child("metric", "name")
	if id.Name == "" {
		return field.ErrorList{field.Required(at, "must specify a metric name")}
	}
	return check.Invalid(at, id.Name, kinds.SegmentName(id.Name))
}

func checkMetricTarget(at *field.Path, t *autoscalingv2.MetricTarget) field.ErrorList {
	var errs field.ErrorList
	if t.Type == "" {
		errs = append(errs, field.Required(at.Child("type"), "must specify a metric target type"))
	}
	if t.Type != autoscalingv2.UtilizationMetricType && t.Type != autoscalingv2.ValueMetricType &&
		t.Type != autoscalingv2.AverageValueMetricType {
		errs = append(errs, field.Invalid(at.Child("type"), t.Type, "must be either Utilization, Value, or AverageValue"))
	}
	if t.Value != nil && t.Value.Sign() <= 0 {
		errs = append(errs, field.Invalid(at.Child("value"), t.Value, "must be positive"))
	}
	if t.AverageValue != nil && t.AverageValue.Sign() <= 0 {
		errs = append(errs, field.Invalid(at.Child("averageValue"), t.AverageValue, "must be positive"))
	}
	return append(errs, check.Positive(at, "averageUtilization", t.AverageUtilization)...)
}

// The longest times of scaling, in seconds (MaxPeriodSeconds and
// MaxStabilizationWindowSeconds of pkg/apis/autoscaling/validation).
const (
	maxScalingPeriod = 1800
	maxStabilization = 3600
)

func checkScaling(at *field.Path, rules *autoscalingv2.HPAScalingRules) field.ErrorList {
	if rules == nil {
		return nil
	}
	var errs field.ErrorList
	if window := rules.StabilizationWindowSeconds; window != nil && *window < 0 {
		errs = append(errs,
			field.Invalid(at.Child("stabilizationWindowSeconds"), *window, "must be greater than or equal to zero"))
	} else if window != nil && *window > maxStabilization {
		errs = append(errs,
			field.Invalid(at.Child("stabilizationWindowSeconds"), *window,
				fmt.Sprintf("must be less than or equal to %d", maxStabilization)))
	}
	errs = append(errs, check.KnownIfSet(at, "selectPolicy", rules.SelectPolicy,
		autoscalingv2.DisabledPolicySelect, autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect)...)
	if len(rules.Policies) == 0 {
		errs = append(errs, field.Required(at.Child("policies"), "must specify at least one Policy"))
	}
	for i, policy := range rules.Policies {
		p := at.Child("policies").Index(i)
		errs = append(errs,
			check.Known(p, "type", policy.Type, autoscalingv2.PercentScalingPolicy, autoscalingv2.PodsScalingPolicy)...)
		if policy.Value <= 0 {
			errs = append(errs, field.Invalid(p.Child("value"), policy.Value, "must be greater than zero"))
		}
		if policy.PeriodSeconds <= 0 {
			errs = append(errs, field.Invalid(p.Child("periodSeconds"), policy.PeriodSeconds, "must be greater than zero"))
		} else if policy.PeriodSeconds > maxScalingPeriod {
			errs = append(errs,
				field.Invalid(p.Child("periodSeconds"), policy.PeriodSeconds,
					fmt.Sprintf("must be less than or equal to %d", maxScalingPeriod)))
		}
	}
	if t := rules.Tolerance; t != nil && t.Sign() < 0 {
		errs = append(errs, field.Invalid(at.Child("tolerance"), t.String(), "must be greater than or equal to 0"))
	}
	return errs
}

func autoscalerStatus(s *autoscalingv2.HorizontalPodAutoscalerStatus) field.ErrorList {
	return check.Counts([]check.Count{
		{Name: "currentReplicas", N: int64(s.CurrentReplicas)}, {Name: "desiredReplicas", N: int64(s.DesiredReplicas)},
	}, nil)
}
