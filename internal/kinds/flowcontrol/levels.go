package flowcontrol

import (
	"fmt"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	flowcontrolv1beta3 "k8s.io/api/flowcontrol/v1beta3"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/apiserver/pkg/util/shufflesharding"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// validatePriorityLevel validates a PriorityLevelConfiguration.
func validatePriorityLevel(o *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
	var errs field.ErrorList
	// It says in v1beta3 what v1 says by the number 0.
	if key := flowcontrolv1beta3.PriorityLevelPreserveZeroConcurrencySharesKey; has(o.Annotations, key) {
		errs = append(errs,
			field.Forbidden(field.NewPath("metadata", "annotations"), fmt.Sprintf("annotation '%s' is forbidden", key)))
	}
	errs = append(errs, checkLevel(o.Name, &o.Spec)...)
	errs = append(errs, checkMandatoryLevel(o)...)
	errs = append(errs, checkLevelStatus(&o.Status)...)
	return append(errs, checkUnions(&o.Spec)...)
}

func has(m map[string]string, key string) bool {
	_, has := m[key]
	return has
}

// validatePriorityLevelStatus validates the status of a PriorityLevelConfiguration.
func validatePriorityLevelStatus(o, _ *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
	return checkLevelStatus(&o.Status)
}

func checkLevelStatus(status *flowcontrolv1.PriorityLevelConfigurationStatus) field.ErrorList {
	types := make([]string, len(status.Conditions))
	for i, c := range status.Conditions {
		types[i] = string(c.Type)
	}
	return checkConditions(types)
}

// checkMandatoryLevel checks the levels that every cluster has: of exempt, administrators may change the shares.
func checkMandatoryLevel(o *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
	for _, fixed := range bootstrap.MandatoryPriorityLevelConfigurations {
		if fixed.Name != o.Name {
			continue
		}
		want, text := fixed.Spec, "spec of '%s' must equal the fixed value"
		if o.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt {
			want.Exempt, text = o.Spec.Exempt, "spec of '%s' except the 'spec.exempt' field must equal the fixed value"
		}
		if !equality.Semantic.DeepEqual(o.Spec, want) {
			return field.ErrorList{field.Invalid(check.Spec(), o.Spec, fmt.Sprintf(text, o.Name))}
		}
	}
	return nil
}

func checkLevel(name string, spec *flowcontrolv1.PriorityLevelConfigurationSpec) field.ErrorList {
	var errs field.ErrorList
	if (name == flowcontrolv1.PriorityLevelConfigurationNameExempt) !=
		(spec.Type == flowcontrolv1.PriorityLevelEnablementExempt) {
		errs = append(errs, field.Invalid(check.Spec("type"), spec.Type, "must be 'Exempt' if and only if `name` is 'exempt'"))
	}
	errs = append(errs,
		check.OneOfIfSet(check.Spec(), "type", spec.Type, flowcontrolv1.PriorityLevelEnablementExempt,
			flowcontrolv1.PriorityLevelEnablementLimited)...)
	switch {
	case spec.Type == flowcontrolv1.PriorityLevelEnablementExempt && spec.Exempt != nil:
		errs = append(errs,
			checkShares(check.Spec("exempt"), spec.Exempt.NominalConcurrencyShares, spec.Exempt.LendablePercent)...)
	case spec.Type == flowcontrolv1.PriorityLevelEnablementLimited && spec.Limited != nil:
		errs = append(errs, checkLimited(check.Spec("limited"), spec.Limited)...)
	}
	return errs
}

// checkUnions checks which members there are: upstream declares it in its types, and finds it after what it has written out.
func checkUnions(spec *flowcontrolv1.PriorityLevelConfigurationSpec) field.ErrorList {
	limited := spec.Type == flowcontrolv1.PriorityLevelEnablementLimited
	errs := checkMember(check.Spec("exempt"), spec.Exempt != nil, spec.Type == flowcontrolv1.PriorityLevelEnablementExempt, false)
	errs = append(errs, checkMember(check.Spec("limited"), spec.Limited != nil, limited, limited)...)
	if spec.Type == "" {
		errs = append(errs, field.Required(check.Spec("type"), ""))
	}
	if spec.Limited == nil {
		return errs
	}
	r, at := &spec.Limited.LimitResponse, check.Spec("limited", "limitResponse")
	queues := r.Type == flowcontrolv1.LimitResponseTypeQueue
	errs = append(errs, checkMember(at.Child("queuing"), r.Queuing != nil, queues, queues)...)
	if r.Type == "" {
		errs = append(errs, field.Required(at.Child("type"), ""))
	}
	return errs
}

// checkMember checks that a member is there if it must be, and not if it may not.
func checkMember(at *field.Path, has, may, must bool) field.ErrorList {
	switch {
	case has && !may:
		return field.ErrorList{field.Forbidden(at, "")}
	case !has && must:
		return field.ErrorList{field.Required(at, "")}
	}
	return nil
}

func checkLimited(at *field.Path, l *flowcontrolv1.LimitedPriorityLevelConfiguration) field.ErrorList {
	var errs field.ErrorList
	if shares := l.NominalConcurrencyShares; shares != nil && *shares < 0 {
		errs = append(errs, field.Invalid(at.Child("nominalConcurrencyShares"), *shares, "must be a non-negative integer"))
	}
	r, response := &l.LimitResponse, at.Child("limitResponse")
	errs = append(errs,
		check.OneOfIfSet(response, "type", r.Type, flowcontrolv1.LimitResponseTypeQueue,
			flowcontrolv1.LimitResponseTypeReject)...)
	if r.Type == flowcontrolv1.LimitResponseTypeQueue && r.Queuing != nil {
		errs = append(errs, checkQueuing(response.Child("queuing"), r.Queuing)...)
	}
	errs = append(errs, checkShares(at, nil, l.LendablePercent)...)
	if most := l.BorrowingLimitPercent; most != nil && *most < 0 {
		errs = append(errs,
			field.Invalid(at.Child("borrowingLimitPercent"), *most, "if specified, must be a non-negative integer"))
	}
	return errs
}

func checkShares(at *field.Path, shares, lendable *int32) field.ErrorList {
	var errs field.ErrorList
	if shares != nil && *shares < 0 {
		errs = append(errs, field.Invalid(at.Child("nominalConcurrencyShares"), *shares, "must be a non-negative integer"))
	}
	if lendable != nil && (*lendable < 0 || *lendable > 100) {
		errs = append(errs, field.Invalid(at.Child("lendablePercent"), *lendable, "must be between 0 and 100, inclusive"))
	}
	return errs
}

func checkQueuing(at *field.Path, q *flowcontrolv1.QueuingConfiguration) field.ErrorList {
	var errs field.ErrorList
	if q.QueueLengthLimit <= 0 {
		errs = append(errs, field.Invalid(at.Child("queueLengthLimit"), q.QueueLengthLimit, "must be positive"))
	}
	const most = 10_000_000
	switch {
	case q.Queues <= 0:
		errs = append(errs, field.Invalid(at.Child("queues"), q.Queues, "must be positive"))
	case q.Queues > most:
		errs = append(errs, field.Invalid(at.Child("queues"), q.Queues, fmt.Sprintf("must not be greater than %d", most)))
	}
	if q.HandSize <= 0 {
		return append(errs, field.Invalid(at.Child("handSize"), q.HandSize, "must be positive"))
	}
	if q.HandSize > q.Queues {
		return append(errs,
			field.Invalid(at.Child("handSize"), q.HandSize, fmt.Sprintf("should not be greater than queues (%d)", q.Queues)))
	}
	if shufflesharding.RequiredEntropyBits(int(q.Queues), int(q.HandSize)) > shufflesharding.MaxHashBits {
		return append(errs, field.Invalid(at.Child("handSize"), q.HandSize,
			fmt.Sprintf("required entropy bits of deckSize %d and handSize %d should not be greater than %d",
				q.Queues, q.HandSize, shufflesharding.MaxHashBits)))
	}
	return errs
}
