package podrules

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// Selects checks the selector of a workload, and that it selects the workload's
// own pods. A missing one selects nothing.
func Selects(kind string, spec *field.Path, selector *metav1.LabelSelector, template map[string]string) field.ErrorList {
	at := spec.Child("selector")
	var errs field.ErrorList
	if selector == nil {
		errs = append(errs, field.Required(at, ""))
	} else {
		errs = append(errs, check.LabelSelector(at, selector)...)
		if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
			return append(errs, field.Invalid(at, selector, "empty selector is invalid for "+kind))
		}
	}
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return append(errs, field.Invalid(at, selector, "invalid label selector"))
	}
	if !s.Matches(labels.Set(template)) {
		errs = append(errs, NotSelected(spec, template))
	}
	return errs
}

// NotSelected is the error of a workload whose selector does not match its own pods.
func NotSelected(spec *field.Path, template map[string]string) *field.Error {
	return field.Invalid(spec.Child("template", "metadata", "labels"), template, "`selector` does not match template `labels`")
}
