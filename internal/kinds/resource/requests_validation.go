package resource

import (
	"fmt"
	"sync"

	resourcev1 "k8s.io/api/resource/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

func checkRequest(at *field.Path, r *resourcev1.DeviceRequest) field.ErrorList {
	const one = "exactly one of `exactly` or `firstAvailable` is required"
	errs := label(at.Child("name"), r.Name)
	switch {
	case r.Exactly != nil && len(r.FirstAvailable) > 0:
		errs = append(errs, field.Invalid(at, nil, one+", but multiple fields are set"))
	case r.Exactly == nil && len(r.FirstAvailable) == 0:
		return append(errs, field.Required(at, one))
	}
	if e := r.Exactly; e != nil {
		errs = append(errs,
			checkWanted(at.Child("exactly"), &wanted{
				e.DeviceClassName, e.Selectors, e.AllocationMode, e.Count, e.Tolerations,
			})...)
	}
	return append(errs, set(listOf(at.Child("firstAvailable"), r.FirstAvailable, resourcev1.FirstAvailableDeviceRequestMaxSize),
		func(at *field.Path, a *resourcev1.DeviceSubRequest) field.ErrorList {
			errs := label(at.Child("name"), a.Name)
			return append(errs,
				checkWanted(at, &wanted{a.DeviceClassName, a.Selectors, a.AllocationMode, a.Count, a.Tolerations})...)
		},
		func(a *resourcev1.DeviceSubRequest) string { return a.Name })...)
}

// wanted is what a request and an alternative have in common.
type wanted struct {
	class       string
	selectors   []resourcev1.DeviceSelector
	mode        resourcev1.DeviceAllocationMode
	count       int64
	tolerations []resourcev1.DeviceToleration
}

func checkWanted(at *field.Path, w *wanted) field.ErrorList {
	errs := check.Required(at, "deviceClassName", w.class, validation.IsDNS1123Subdomain)
	errs = append(errs, each(at.Child("selectors"), w.selectors, resourcev1.DeviceSelectorsMaxSize, checkSelector)...)
	switch mode := w.mode; mode {
	case resourcev1.DeviceAllocationModeAll:
		if w.count != 0 {
			errs = append(errs,
				field.Invalid(at.Child("count"), w.count, fmt.Sprintf("must not be specified when allocationMode is '%s'", mode)))
		}
	case resourcev1.DeviceAllocationModeExactCount:
		if w.count <= 0 {
			errs = append(errs, field.Invalid(at.Child("count"), w.count, "must be greater than zero"))
		}
	default:
		errs = append(errs,
			check.Known(at, "allocationMode", mode, resourcev1.DeviceAllocationModeAll,
				resourcev1.DeviceAllocationModeExactCount)...)
	}
	return append(errs, each(at.Child("tolerations"), w.tolerations, resourcev1.DeviceTolerationsMaxLength, checkToleration)...)
}

// checkSelector checks a selector of devices: it has an expression, of a bounded length.
func checkSelector(at *field.Path, s *resourcev1.DeviceSelector) field.ErrorList {
	if s.CEL == nil {
		return field.ErrorList{field.Required(at.Child("cel"), "")}
	}
	at = at.Child("cel", "expression")
	text := s.CEL.Expression
	if len(text) > resourcev1.CELSelectorExpressionMaxLength {
		return field.ErrorList{field.TooLong(at, "", resourcev1.CELSelectorExpressionMaxLength)}
	}
	parse, err := syntax()
	if err != nil {
		return field.ErrorList{field.InternalError(at, fmt.Errorf("compile the expression: %w", err))}
	}
	if err := parse(text); err != nil {
		return field.ErrorList{field.Invalid(at, text, "compilation failed: "+err.Error())}
	}
	return nil
}

// syntax returns what parses the CEL of Kubernetes.
var syntax = sync.OnceValues(func() (func(text string) error, error) { //nolint:gochecknoglobals // a compiled table, made at its first use
	env, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Env(environment.NewExpressions)
	if err != nil {
		return nil, err
	}
	return func(text string) error {
		_, issues := env.Parse(text)
		return issues.Err()
	}, nil
})

func checkToleration(at *field.Path, t *resourcev1.DeviceToleration) field.ErrorList {
	var errs field.ErrorList
	if t.Key != "" {
		errs = append(errs, metavalidation.ValidateLabelName(t.Key, at.Child("key"))...)
	}
	switch t.Operator {
	case resourcev1.DeviceTolerationOpExists:
		if t.Value != "" {
			errs = append(errs, field.Invalid(at.Child("value"), t.Value, "must be empty for operator `Exists`"))
		}
	case resourcev1.DeviceTolerationOpEqual:
		errs = append(errs, check.Invalid(at.Child("value"), t.Value, validation.IsValidLabelValue(t.Value))...)
	default:
		errs = append(errs,
			check.OneOf(at, "operator", t.Operator, resourcev1.DeviceTolerationOpEqual, resourcev1.DeviceTolerationOpExists)...)
	}
	return append(errs, check.OneOfIfSet(at, "effect", t.Effect,
		resourcev1.DeviceTaintEffectNone, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNoExecute)...)
}

func checkTaint(at *field.Path, t *resourcev1.DeviceTaint) field.ErrorList {
	errs := metavalidation.ValidateLabelName(t.Key, at.Child("key"))
	if t.Value != "" {
		errs = append(errs, check.Invalid(at.Child("value"), t.Value, validation.IsValidLabelValue(t.Value))...)
	}
	return append(errs, check.OneOf(at, "effect", t.Effect,
		resourcev1.DeviceTaintEffectNone, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNoExecute)...)
}

// validateTaintRule validates a DeviceTaintRule.
func validateTaintRule(o *resourcev1.DeviceTaintRule) field.ErrorList {
	var errs field.ErrorList
	if s := o.Spec.DeviceSelector; s != nil {
		at := check.Spec("deviceSelector")
		if s.Driver != nil {
			errs = append(errs, driver(at, *s.Driver)...)
		}
		if s.Pool != nil {
			errs = append(errs, pool(at.Child("pool"), *s.Pool)...)
		}
		if s.Device != nil {
			errs = append(errs, label(at.Child("device"), *s.Device)...)
		}
	}
	errs = append(errs, checkTaint(check.Spec("taint"), &o.Spec.Taint)...)
	at := field.NewPath("status", "conditions")
	errs = append(errs, metavalidation.ValidateConditions(o.Status.Conditions, at)...)
	if n := len(o.Status.Conditions); n > resourcev1.DeviceTaintRuleStatusMaxConditions {
		errs = append(errs, field.TooMany(at, n, resourcev1.DeviceTaintRuleStatusMaxConditions))
	}
	return errs
}
