package core

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// validateResourceQuota validates a ResourceQuota.
func validateResourceQuota(o *corev1.ResourceQuota) field.ErrorList {
	at := check.Spec("scopes")
	errs := checkLimited(check.Spec("hard"), o.Spec.Hard)
	errs = append(errs, checkKnownScopes(at, o.Spec.Scopes, true)...)
	errs = append(errs, checkScopes(at, o.Spec.Scopes, &o.Spec, o.Spec.Scopes)...)
	return append(errs, checkScopeSelector(&o.Spec)...)
}

// validateResourceQuotaUpdate validates the change of a ResourceQuota: its scopes stay.
func validateResourceQuotaUpdate(o, old *corev1.ResourceQuota) field.ErrorList {
	at, was := check.Spec("scopes"), old.Spec.Scopes
	// Earlier releases of gapless stored any: what upstream would never have stored may be corrected.
	wrong := len(checkKnownScopes(at, was, true)) > 0 || len(checkScopes(at, was, &old.Spec, nil)) > 0
	if wrong || sets.New(o.Spec.Scopes...).Equal(sets.New(was...)) {
		return nil
	}
	return field.ErrorList{field.Invalid(at, o.Spec.Scopes, check.Immutable)}
}

// validateResourceQuotaStatus validates the status of a ResourceQuota.
func validateResourceQuotaStatus(o, _ *corev1.ResourceQuota) field.ErrorList {
	at := field.NewPath("status")
	return append(checkLimited(at.Child("hard"), o.Status.Hard), checkLimited(at.Child("used"), o.Status.Used)...)
}

// validateLimitRange validates a LimitRange. Which resources there are is not checked.
func validateLimitRange(o *corev1.LimitRange) field.ErrorList {
	var errs field.ErrorList
	seen := map[corev1.LimitType]bool{}
	for i := range o.Spec.Limits {
		limit, at := &o.Spec.Limits[i], check.Spec("limits").Index(i)
		errs = append(errs, checkLimitType(at.Child("type"), limit.Type)...)
		if seen[limit.Type] {
			errs = append(errs, field.Duplicate(at.Child("type"), limit.Type))
		}
		seen[limit.Type] = true
		errs = append(errs, checkLimits(at, limit)...)
	}
	return errs
}

func checkLimitType(at *field.Path, kind corev1.LimitType) field.ErrorList {
	if errs := check.Invalid(at, kind, validation.IsQualifiedName(string(kind))); len(errs) > 0 {
		return errs
	}
	standard := kind == corev1.LimitTypePod || kind == corev1.LimitTypeContainer || kind == corev1.LimitTypePersistentVolumeClaim
	if standard || strings.Contains(string(kind), "/") {
		return nil
	}
	return field.ErrorList{field.Invalid(at, kind, "must be a standard limit type or fully qualified")}
}

// checkLimits checks that the limits of one type leave something possible.
func checkLimits(at *field.Path, l *corev1.LimitRangeItem) field.ErrorList {
	var errs field.ErrorList
	if l.Type == corev1.LimitTypePod {
		if len(l.Default) > 0 {
			errs = append(errs, field.Forbidden(at.Child("default"), "may not be specified when `type` is 'Pod'"))
		}
		if len(l.DefaultRequest) > 0 {
			errs = append(errs, field.Forbidden(at.Child("defaultRequest"), "may not be specified when `type` is 'Pod'"))
		}
	}
	if l.Type == corev1.LimitTypePersistentVolumeClaim {
		_, least := l.Min[corev1.ResourceStorage]
		if _, most := l.Max[corev1.ResourceStorage]; !least && !most {
			errs = append(errs,
				field.Required(at.Child("limits"),
					"either minimum or maximum storage value is required, but neither was provided"))
		}
	}
	least := amounts{"min value", l.Min}
	most, usual, asked := amounts{"max value", l.Max}, amounts{"default value", l.Default}, amounts{
		"default request value", l.DefaultRequest,
	}
	errs = append(errs, notAbove(at.Child("min"), least, least, most)...)
	if l.Type != corev1.LimitTypePod {
		errs = append(errs, notAbove(at.Child("defaultRequest"), asked, least, asked)...)
		errs = append(errs, notAbove(at.Child("defaultRequest"), asked, asked, most)...)
		errs = append(errs, notAbove(at.Child("defaultRequest"), asked, asked, amounts{"default limit value", l.Default})...)
		errs = append(errs, notAbove(at.Child("default"), least, least, usual)...)
		errs = append(errs, notAbove(at.Child("default"), most, usual, most)...) // upstream prints the greatest
	}
	for _, name := range slices.Sorted(maps.Keys(l.MaxLimitRequestRatio)) {
		if ratio := l.MaxLimitRequestRatio[name]; ratio.Cmp(*resource.NewQuantity(1, resource.DecimalSI)) < 0 {
			errs = append(errs,
				field.Invalid(at.Child("maxLimitRequestRatio").Key(string(name)), ratio.String(),
					fmt.Sprintf("ratio %s is less than 1", ratio.String())))
		}
	}
	return append(errs, attainable(at.Child("maxLimitRequestRatio"), l)...)
}

// attainable checks that ratios of limits to requests are within what the extremes leave possible.
func attainable(at *field.Path, l *corev1.LimitRangeItem) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(l.MaxLimitRequestRatio)) {
		ratio := l.MaxLimitRequestRatio[name]
		least, bounded := l.Min[name]
		most, both := l.Max[name]
		if !bounded || !both {
			continue
		}
		wanted, possible := float64(ratio.Value()), float64(most.Value())/float64(least.Value())
		if max(ratio.Value(), least.Value(), most.Value()) < resource.MaxMilliValue {
			wanted, possible = float64(ratio.MilliValue())/1000, float64(most.MilliValue())/float64(least.MilliValue())
		}
		if wanted > possible {
			errs = append(errs, field.Invalid(at.Key(string(name)), ratio.String(),
				fmt.Sprintf("ratio %s is greater than max/min = %f", ratio.String(), possible)))
		}
	}
	return errs
}

// amounts are some limits of one type, and what they are called in errors.
type amounts struct {
	name string
	list corev1.ResourceList
}

// notAbove checks that none of the lower amounts is greater than the upper one; wrong are
// those that the error is about.
func notAbove(at *field.Path, wrong, lower, upper amounts) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(lower.list)) {
		low := lower.list[name]
		high, has := upper.list[name]
		if has && low.Cmp(high) > 0 {
			bad := wrong.list[name]
			errs = append(errs, field.Invalid(at.Key(string(name)), bad.String(),
				fmt.Sprintf("%s %s is greater than %s %s", lower.name, low.String(), upper.name, high.String())))
		}
	}
	return errs
}
