package resource

import (
	"fmt"
	"math"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxValues is how many values a policy may list (pkg/apis/resource/types.go
// CapacityRequestPolicyDiscreteMaxOptions).
const maxValues = 10

// checkPolicy checks how much of a capacity a request can ask for: some values, or a range.
func checkPolicy(at *field.Path, capacity resource.Quantity, p *resourcev1.CapacityRequestPolicy) field.ErrorList {
	values := len(p.ValidValues) > 0
	switch {
	case values && p.ValidRange != nil:
		return field.ErrorList{
			field.Forbidden(at,
				`exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time`),
		}
	case values && p.Default == nil:
		return field.ErrorList{field.Required(at.Child("default"), "required when validValues is defined")}
	case values:
		return checkValues(at.Child("validValues"), capacity, p)
	case p.ValidRange == nil:
		return nil
	case p.Default == nil:
		return field.ErrorList{field.Required(at.Child("default"), "required when validRange is defined")}
	}
	return checkRange(at.Child("validRange"), capacity, *p.Default, p.ValidRange)
}

func checkValues(at *field.Path, capacity resource.Quantity, p *resourcev1.CapacityRequestPolicy) field.ErrorList {
	var errs field.ErrorList
	for i := 1; i < len(p.ValidValues); i++ {
		if p.ValidValues[i-1].Cmp(p.ValidValues[i]) > 0 {
			errs = append(errs, field.Invalid(at.Index(i), p.ValidValues[i].String(), "values must be sorted in ascending order"))
		}
	}
	errs = append(errs, set(listOf(at, p.ValidValues, maxValues),
		func(at *field.Path, q *resource.Quantity) field.ErrorList {
			if q.Cmp(capacity) <= 0 {
				return nil
			}
			return field.ErrorList{field.Invalid(at, q.String(), "option is larger than capacity value: "+capacity.String())}
		}, (*resource.Quantity).Value)...)
	if !slices.ContainsFunc(p.ValidValues, func(q resource.Quantity) bool { return q.Cmp(*p.Default) == 0 }) {
		errs = append(errs, field.Invalid(at, p.Default.String(), "default value is not valid according to the requestPolicy"))
	}
	return errs
}

func checkRange(at *field.Path, capacity, preset resource.Quantity, r *resourcev1.CapacityRequestPolicyRange) field.ErrorList {
	if r.Min == nil {
		return field.ErrorList{field.Required(at.Child("min"), "required when validRange is defined")}
	}
	var errs field.ErrorList
	wrong := func(name string, q resource.Quantity, why string, than *resource.Quantity) {
		errs = append(errs, field.Invalid(at.Child(name), q.String(), why+": "+than.String()))
	}
	if r.Min.Cmp(capacity) > 0 {
		wrong("min", *r.Min, "min is larger than capacity value", &capacity)
	}
	if preset.Cmp(*r.Min) < 0 {
		wrong("default", preset, "default is less than min", r.Min)
	}
	if r.Max != nil {
		if r.Min.Cmp(*r.Max) > 0 {
			wrong("max", *r.Min, "min is larger than max", r.Max)
		}
		if r.Max.Cmp(capacity) > 0 {
			wrong("max", *r.Max, "max is larger than capacity value", &capacity)
		}
		if preset.Cmp(*r.Max) > 0 {
			wrong("default", preset, "default is more than max", r.Max)
		}
	}
	if r.Step == nil {
		return errs
	}
	return append(errs,
		checkStep(at, capacity, []bound{{"default", &preset}, {"min", r.Min}, {"max", r.Max}, {"step", r.Step}})...)
}

// bound is one of the quantities of a range; nil if it has none.
type bound struct {
	name string
	q    *resource.Quantity
}

// outside says why a bound is not a number that fits an int64; "" if it is. Fractions are
// rounded up, as upstream does without the feature gate DRAFractionalCapacityRange.
func (b bound) outside() string {
	switch {
	case b.q.Sign() < 0:
		return "must be greater than or equal to 0"
	case b.q.CmpInt64(math.MaxInt64) > 0:
		return "must not be larger than 9223372036854775807"
	}
	return ""
}

// checkStep checks that the default and the maximum are whole steps above the minimum. The
// bounds are in the order default, min, max, step.
func checkStep(at *field.Path, capacity resource.Quantity, bounds []bound) field.ErrorList {
	low, step := bounds[1].q, bounds[3].q
	of, whole := at, true
	at = at.Child("step")
	if step.Sign() <= 0 {
		return field.ErrorList{field.Invalid(at, step.String(), "must be greater than zero")}
	}
	var errs field.ErrorList
	next := low.DeepCopy()
	next.Add(*step)
	if next.Cmp(capacity) > 0 {
		errs = append(errs,
			field.Invalid(at, step.String(),
				fmt.Sprintf("one step %s is larger than capacity value: %s", next.String(), capacity.String())))
	}
	for _, b := range bounds {
		if b.q == nil {
			continue
		}
		if why := b.outside(); why != "" {
			errs = append(errs, field.Invalid(of.Child(b.name), b.q.String(), why))
			whole = false
		}
	}
	if !whole {
		return errs
	}
	for _, b := range []bound{bounds[0], bounds[2]} {
		if b.q != nil && (b.q.Value()-low.Value())%step.Value() != 0 {
			errs = append(errs, field.Invalid(at, b.q.String(),
				fmt.Sprintf("value is not a multiple of a given step (%s) from (%s)", step.String(), low.String())))
		}
	}
	return errs
}
