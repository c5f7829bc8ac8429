package builtin

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The rules are a selection of upstream's (pkg/apis/*/validation), with its texts:
// what people trip over, and what protects a controller from senseless objects.

// immutable is upstream's text for a field that may not change.
const immutable = apivalidation.FieldImmutableErrorMsg

// oneOf requires value to be one of the supported ones.
func oneOf[T ~string](at *field.Path, value T, supported ...T) field.ErrorList {
	switch {
	case value == "":
		return field.ErrorList{field.Required(at, "")}
	case !slices.Contains(supported, value):
		return field.ErrorList{field.NotSupported(at, value, supported)}
	default:
		return nil
	}
}

// oneOfIfSet is oneOf for a value that may be missing.
func oneOfIfSet[T ~string](at *field.Path, value T, supported ...T) field.ErrorList {
	if value == "" {
		return nil
	}
	return oneOf(at, value, supported...)
}

// kept requires a field to be what it was.
func kept(at *field.Path, now, before any) field.ErrorList {
	if equality.Semantic.DeepEqual(now, before) {
		return nil
	}
	return field.ErrorList{field.Invalid(at, now, immutable)}
}

// notNegative requires a number, if there is one, to be 0 or more.
func notNegative[T int32 | int64](at *field.Path, n *T) field.ErrorList {
	if n == nil {
		return nil
	}
	return apivalidation.ValidateNonnegativeField(int64(*n), at)
}

// positive requires a number, if there is one, to be more than 0.
func positive[T int32 | int64](at *field.Path, n *T) field.ErrorList {
	if n == nil || *n > 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(at, *n, "must be greater than 0")}
}

// invalidBecause makes one error of each reason why a value is invalid.
func invalidBecause(at *field.Path, value any, reasons []string) field.ErrorList {
	var errs field.ErrorList
	for _, why := range reasons {
		errs = append(errs, field.Invalid(at, value, why))
	}
	return errs
}

// required requires a text; a given one may be wrong for other reasons.
func required(at *field.Path, value string, rule func(string) []string) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	if rule == nil {
		return nil
	}
	return invalidBecause(at, value, rule(value))
}

func portNumber(at *field.Path, port int32) field.ErrorList {
	return invalidBecause(at, port, validation.IsValidPortNum(int(port)))
}

// portOrName checks a reference to a port of a container.
func portOrName(at *field.Path, port intstr.IntOrString) field.ErrorList {
	if port.Type == intstr.String {
		return invalidBecause(at, port.StrVal, validation.IsValidPortName(port.StrVal))
	}
	return portNumber(at, port.IntVal)
}

// selects checks the selector of a workload, and that it selects the workload's
// own pods.
func selects(kind string, spec *field.Path, selector *metav1.LabelSelector, template map[string]string) field.ErrorList {
	at := spec.Child("selector")
	if selector == nil {
		return field.ErrorList{field.Required(at, "")}
	}
	errs := metavalidation.ValidateLabelSelector(selector, metavalidation.LabelSelectorValidationOptions{}, at)
	if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		return append(errs, field.Invalid(at, selector, "empty selector is invalid for "+kind))
	}
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return append(errs, field.Invalid(at, selector, "invalid label selector"))
	}
	if !s.Matches(labels.Set(template)) {
		errs = append(errs, field.Invalid(spec.Child("template", "metadata", "labels"), template, "`selector` does not match template `labels`"))
	}
	return errs
}

// labelSelector checks a selector that may be missing.
func labelSelector(at *field.Path, selector *metav1.LabelSelector) field.ErrorList {
	return metavalidation.ValidateLabelSelector(selector, metavalidation.LabelSelectorValidationOptions{}, at)
}
