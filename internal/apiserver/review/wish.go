package review

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/kinds"
)

// wish is what a review asks about: exactly one of the two.
type wish struct {
	resource *authorizationv1.ResourceAttributes
	path     *authorizationv1.NonResourceAttributes
}

// check validates (kubernetes pkg/apis/authorization/validation).
func (w wish) check() field.ErrorList {
	var errs field.ErrorList
	if (w.resource == nil) == (w.path == nil) {
		var given any
		if w.path != nil {
			given = w.path
		}
		errs = append(errs,
			field.Invalid(field.NewPath("spec"), given,
				"exactly one of nonResourceAttributes or resourceAttributes must be specified"))
	}
	if w.resource == nil {
		return errs
	}
	at := field.NewPath("spec.resourceAttributes")
	if s := w.resource.FieldSelector; s != nil {
		at := at.Child("fieldSelector")
		errs = append(errs, checkForms(at, s.RawSelector, len(s.Requirements))...)
		for i, requirement := range s.Requirements {
			errs = append(errs, metavalidation.ValidateFieldSelectorRequirement(requirement,
				metavalidation.FieldSelectorValidationOptions{AllowUnknownOperatorInRequirement: true},
				at.Child("requirements").Index(i))...)
		}
	}
	if s := w.resource.LabelSelector; s != nil {
		at := at.Child("labelSelector")
		errs = append(errs, checkForms(at, s.RawSelector, len(s.Requirements))...)
		for i, requirement := range s.Requirements {
			errs = append(errs, metavalidation.ValidateLabelSelectorRequirement(requirement,
				metavalidation.LabelSelectorValidationOptions{AllowUnknownOperatorInRequirement: true},
				at.Child("requirements").Index(i))...)
		}
	}
	return errs
}

// checkForms checks that a selector has one of its two forms.
func checkForms(at *field.Path, raw string, requirements int) field.ErrorList {
	switch {
	case raw != "" && requirements > 0:
		return field.ErrorList{field.Invalid(at.Child("rawSelector"), raw, "may not specified at the same time as requirements")}
	case raw == "" && requirements == 0:
		return field.ErrorList{
			field.Required(at.Child("requirements"),
				fmt.Sprintf("when %s is specified, requirements or rawSelector is required", at)),
		}
	}
	return nil
}

// checkSubject validates a review about another user.
func checkSubject(spec *authorizationv1.SubjectAccessReviewSpec) field.ErrorList {
	errs := wish{spec.ResourceAttributes, spec.NonResourceAttributes}.check()
	if spec.User == "" && len(spec.Groups) == 0 {
		errs = append(errs,
			field.Invalid(field.NewPath("spec", "user"), spec.User, "at least one of user or group must be specified"))
	}
	return errs
}

// checkMetadata refuses metadata of a review besides what servers write.
func checkMetadata(m *metav1.ObjectMeta, text string) field.ErrorList {
	given := *m
	given.ManagedFields = nil
	if equality.Semantic.DeepEqual(metav1.ObjectMeta{}, given) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata"), *m, text)}
}

// attributes returns what the authorizer decides on, and which selectors are ignored,
// because they cannot be read.
func (w wish) attributes() (auth.Attributes, string) {
	if w.resource == nil {
		return auth.Attributes{Verb: w.path.Verb, Path: w.path.Path}, ""
	}
	a := auth.Attributes{
		Verb: w.resource.Verb, Version: cmp.Or(w.resource.Version, "*"),
		Resource:    kinds.GroupResource{Group: w.resource.Group, Resource: w.resource.Resource},
		Subresource: w.resource.Subresource, Namespace: w.resource.Namespace, Name: w.resource.Name,
	}
	var ignored []string
	note := func(what string, selector fmt.Stringer, left int, err error) string {
		switch {
		case err != nil && left > 0:
			ignored = append(ignored, "spec.resourceAttributes."+what+" partially ignored due to parse error")
		case err != nil:
			ignored = append(ignored, "spec.resourceAttributes."+what+" ignored due to parse error")
		}
		return selector.String()
	}
	if s := w.resource.FieldSelector; s != nil {
		selector, err := fieldSelector(s)
		a.FieldSelector = note("fieldSelector", selector, len(selector.Requirements()), err)
	}
	if s := w.resource.LabelSelector; s != nil {
		selector, err := labelSelector(s)
		requirements, _ := selector.Requirements()
		a.LabelSelector = note("labelSelector", selector, len(requirements), err)
	}
	return a, strings.Join(ignored, "; ")
}

// fieldSelector returns the part of a selector that can be read: requirements are
// combined by AND, so it selects no less.
func fieldSelector(s *authorizationv1.FieldSelectorAttributes) (fields.Selector, error) {
	if len(s.Requirements) == 0 {
		selector, err := fields.ParseSelector(s.RawSelector)
		if err != nil {
			return fields.Everything(), err
		}
		return selector, nil
	}
	var terms []fields.Selector
	var errs []error
	for _, r := range s.Requirements {
		switch {
		case len(r.Values) == 1 && r.Operator == metav1.FieldSelectorOpIn:
			terms = append(terms, fields.OneTermEqualSelector(r.Key, r.Values[0]))
		case len(r.Values) == 1 && r.Operator == metav1.FieldSelectorOpNotIn:
			terms = append(terms, fields.OneTermNotEqualSelector(r.Key, r.Values[0]))
		default:
			errs = append(errs, fmt.Errorf("fieldSelectors do not support %s with %d values", r.Operator, len(r.Values)))
		}
	}
	return fields.AndSelectors(terms...), errors.Join(errs...)
}

// labelSelector does the same to a selector of labels.
func labelSelector(s *authorizationv1.LabelSelectorAttributes) (labels.Selector, error) {
	if len(s.Requirements) == 0 {
		selector, err := labels.Parse(s.RawSelector)
		if err != nil {
			return labels.Everything(), err
		}
		return selector, nil
	}
	operators := map[metav1.LabelSelectorOperator]selection.Operator{
		metav1.LabelSelectorOpIn: selection.In, metav1.LabelSelectorOpNotIn: selection.NotIn,
		metav1.LabelSelectorOpExists: selection.Exists, metav1.LabelSelectorOpDoesNotExist: selection.DoesNotExist,
	}
	var all []labels.Requirement
	var errs []error
	for _, r := range s.Requirements {
		requirement, err := labels.NewRequirement(r.Key, operators[r.Operator], r.Values)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, *requirement)
	}
	return labels.NewSelector().Add(all...), errors.Join(errs...) // each Add copies and sorts what there is
}
