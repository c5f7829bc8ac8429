// Package check is for rules of built-in kinds: it has the checks of single values that rules of several
// groups are made of. A check gets a value and the path of its field, and returns the errors of the value,
// with upstream's texts; none for a valid value.
package check

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds"
)

// Immutable is upstream's text for a field that may not change.
const Immutable = apivalidation.FieldImmutableErrorMsg

// below returns the path of a field; that of its parent itself when the name is "".
func below(at *field.Path, name string) *field.Path {
	if name == "" {
		return at
	}
	return at.Child(name)
}

// Labels checks labels as apimachinery's validation does, which decides on those that are not certainly valid.
func Labels(at *field.Path, labels map[string]string) field.ErrorList {
	for key, value := range labels {
		if !kinds.IsQualified(key) || value != "" && !kinds.IsLabelValue(value) {
			return metavalidation.ValidateLabels(labels, at)
		}
	}
	return nil
}

// OneOf requires the field name of what is at a path, or with "" that itself, to have one
// of the supported values; an empty one is missing. As in the other checks that take a
// name, only an error costs the memory of the field's path.
func OneOf[T ~string](at *field.Path, name string, value T, supported ...T) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(below(at, name), "")}
	}
	return Known(at, name, value, supported...)
}

// Known is OneOf for fields of which upstream says that "" is not supported, too.
func Known[T ~string](at *field.Path, name string, value T, supported ...T) field.ErrorList {
	if slices.Contains(supported, value) {
		return nil
	}
	// The copy keeps the list of a valid value off the heap.
	return field.ErrorList{field.NotSupported(below(at, name), value, slices.Clone(supported))}
}

// KnownIfSet is Known for a value that may be missing.
func KnownIfSet[T ~string](at *field.Path, name string, value *T, supported ...T) field.ErrorList {
	if value == nil {
		return nil
	}
	return Known(at, name, *value, supported...)
}

// OneOfIfSet is OneOf for a value that may be missing.
func OneOfIfSet[T ~string](at *field.Path, name string, value T, supported ...T) field.ErrorList {
	if value == "" {
		return nil
	}
	return Known(at, name, value, supported...)
}

// Unchanged requires a field to have its former value.
func Unchanged(at *field.Path, name string, now, before any) field.ErrorList {
	if equality.Semantic.DeepEqual(now, before) {
		return nil
	}
	return field.ErrorList{field.Invalid(below(at, name), now, Immutable)}
}

// NotNegative requires a number, if there is one, to be 0 or more.
func NotNegative[T int32 | int64](at *field.Path, name string, n *T) field.ErrorList {
	if n == nil || *n >= 0 {
		return nil
	}
	return apivalidation.ValidateNonnegativeField(int64(*n), below(at, name))
}

// Positive requires a number, if there is one, to be more than 0.
func Positive[T int32 | int64](at *field.Path, name string, n *T) field.ErrorList {
	if n == nil || *n > 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(below(at, name), *n, "must be greater than 0")}
}

// Invalid makes one error of each reason why a value is invalid.
func Invalid(at *field.Path, value any, reasons []string) field.ErrorList {
	var errs field.ErrorList
	for _, why := range reasons {
		errs = append(errs, field.Invalid(at, value, why))
	}
	return errs
}

// Required requires a text that fulfills a rule, if there is one.
func Required(at *field.Path, name, value string, rule func(string) []string) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(below(at, name), "")}
	}
	if rule == nil {
		return nil
	}
	if why := rule(value); len(why) > 0 {
		return Invalid(below(at, name), value, why)
	}
	return nil
}

// PortNumber checks the number of a port.
func PortNumber(at *field.Path, port int32) field.ErrorList {
	return Invalid(at, port, validation.IsValidPortNum(int(port)))
}

// PortOrName checks a reference to a port of a container.
func PortOrName(at *field.Path, port intstr.IntOrString) field.ErrorList {
	if port.Type == intstr.String {
		return Invalid(at, port.StrVal, kinds.PortName(port.StrVal))
	}
	return PortNumber(at, port.IntVal)
}

// LabelSelector checks a selector that may be missing.
func LabelSelector(at *field.Path, selector *metav1.LabelSelector) field.ErrorList {
	return metavalidation.ValidateLabelSelector(selector, metavalidation.LabelSelectorValidationOptions{}, at)
}

// Spec returns a path below the spec of an object.
func Spec(names ...string) *field.Path {
	return field.NewPath("spec", names...)
}

// Protocol checks the protocol of a port.
func Protocol(at *field.Path, name string, protocol corev1.Protocol) field.ErrorList {
	return OneOf(at, name, protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)
}
