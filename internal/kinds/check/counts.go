package check

import (
	"strconv"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// IntOrPercent checks a number of pods: 0 or more, or a percentage.
func IntOrPercent(at *field.Path, v *intstr.IntOrString) field.ErrorList {
	switch {
	case v == nil:
		return nil
	case v.Type == intstr.Int:
		return NotNegative(at, "", &v.IntVal)
	default:
		return Invalid(at, v, validation.IsValidPercent(v.StrVal))
	}
}

// NotMoreThanAll checks that a percentage of pods is at most 100.
func NotMoreThanAll(at *field.Path, v *intstr.IntOrString) field.ErrorList {
	if v == nil || v.Type == intstr.Int || NumberOf(v) <= 100 {
		return nil
	}
	return field.ErrorList{field.Invalid(at, v, "must not be greater than 100%")}
}

// NumberOf returns the number or the percentage; 0 for what is none.
func NumberOf(v *intstr.IntOrString) int {
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

// Statuses are what controllers write: those of new objects are empty.

// Count is a number in a status.
type Count struct {
	Name string
	N    int64
}

// Counts checks that no number is negative. Those after replicas must not be more than it.
func Counts(all []Count, replicas *int64) field.ErrorList {
	at := field.NewPath("status")
	var errs field.ErrorList
	for _, c := range all {
		errs = append(errs, apivalidation.ValidateNonnegativeField(c.N, at.Child(c.Name))...)
		if replicas != nil && c.N > *replicas {
			errs = append(errs, field.Invalid(at.Child(c.Name), c.N, "cannot be greater than status.replicas"))
		}
	}
	return errs
}

// Available checks that not more pods are available than ready.
func Available(available, ready int32, of string) field.ErrorList {
	if available <= ready {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("status", "availableReplicas"), available, "cannot be greater than "+of)}
}
