package limits

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Range is a LimitRange in the form in which the plugin needs it. It is immutable.
type Range struct {
	items            []limit
	requests, limits []amount // the defaults of containers, in the order of their names
}

// limit is one item of a LimitRange; its amounts are in the order of their names.
type limit struct {
	of                corev1.LimitType
	least, most, bear []amount // bear: the largest ratio of limit to request
}

// amount is so much of a resource.
type amount struct {
	resource string
	quantity resource.Quantity
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Range) UnmarshalJSON(text []byte) error {
	var stored struct {
		Spec corev1.LimitRangeSpec `json:"spec"`
	}
	if err := json.Unmarshal(text, &stored); err != nil {
		return fmt.Errorf("decode a LimitRange: %w", err)
	}
	*r = Range{}
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	for _, item := range stored.Spec.Limits {
		r.items = append(r.items, limit{
			of: item.Type, least: amounts(item.Min), most: amounts(item.Max), bear: amounts(item.MaxLimitRequestRatio),
		})
		if item.Type == corev1.LimitTypeContainer { // the last one counts
			maps.Copy(requests, item.DefaultRequest)
			maps.Copy(limits, item.Default)
		}
	}
	r.requests, r.limits = amounts(requests), amounts(limits)
	return nil
}

func amounts(list corev1.ResourceList) []amount {
	all := make([]amount, 0, len(list))
	for _, name := range slices.Sorted(maps.Keys(list)) {
		q := list[name]
		_ = q.String() // which a quantity keeps: it would write it at the first call
		all = append(all, amount{string(name), q})
	}
	return all
}

// limited yields the limits of a type.
func (r *Range) limited(of corev1.LimitType) iter.Seq2[int, limit] {
	return func(yield func(int, limit) bool) {
		for i, l := range r.items {
			if l.of == of && !yield(i, l) {
				return
			}
		}
	}
}

// amounts is how many a container is given, or compared with.
func (r *Range) amounts() int {
	n := len(r.requests) + len(r.limits)
	for _, l := range r.limited(corev1.LimitTypeContainer) {
		n += len(l.least) + len(l.most) + len(l.bear)
	}
	return n
}

// check appends what of a container, or a pod, is not in the limits.
func (l limit) check(errs []error, used usage) []error {
	for _, a := range l.least {
		errs = appendError(errs, a.atLeast(l.of, used))
	}
	for _, a := range l.most {
		errs = appendError(errs, a.atMost(l.of, used))
	}
	for _, a := range l.bear {
		errs = appendError(errs, a.inRatio(l.of, used))
	}
	return errs
}

func appendError(errs []error, err error) []error {
	if err == nil {
		return errs
	}
	return append(errs, err)
}

// The texts are upstream's (plugin/pkg/admission/limitranger).

// atLeast refuses a missing request, and a request or a limit below the amount.
func (a amount) atLeast(of corev1.LimitType, used usage) error {
	request, limit, least := a.against(used)
	const text = "minimum %s usage per %s is %s"
	switch {
	case request == nil:
		return fmt.Errorf(text+".  No request is specified", a.resource, of, a)
	case request.value < least:
		return fmt.Errorf(text+", but request is %s", a.resource, of, a, request)
	case limit != nil && limit.value < least:
		return fmt.Errorf(text+", but limit is %s", a.resource, of, a, limit)
	}
	return nil
}

// atMost refuses a missing limit, and a limit or a request above the amount.
func (a amount) atMost(of corev1.LimitType, used usage) error {
	request, limit, most := a.against(used)
	const text = "maximum %s usage per %s is %s"
	switch {
	case limit == nil:
		return fmt.Errorf(text+".  No limit is specified", a.resource, of, a)
	case limit.value > most:
		return fmt.Errorf(text+", but limit is %s", a.resource, of, a, limit)
	case request != nil && request.value > most:
		return fmt.Errorf(text+", but request is %s", a.resource, of, a, request)
	}
	return nil
}

// requestAtMost refuses a missing request, and one above the amount.
func (a amount) requestAtMost(of corev1.LimitType, used usage) error {
	request, _, most := a.against(usage{requests: used.requests})
	const text = "maximum %s usage per %s is %s"
	switch {
	case request == nil:
		return fmt.Errorf(text+".  No request is specified", a.resource, of, a)
	case request.value > most:
		return fmt.Errorf(text+", but request is %s", a.resource, of, a, request)
	}
	return nil
}

// inRatio refuses a limit that is more than so many times the request.
func (a amount) inRatio(of corev1.LimitType, used usage) error {
	request, limit, _ := a.against(used)
	const text = "%s max limit to request ratio per %s is %s, but "
	switch {
	case request == nil || request.value == 0:
		return fmt.Errorf(text+"no request is specified or request is 0", a.resource, of, a)
	case limit == nil || limit.value == 0:
		return fmt.Errorf(text+"no limit is specified or limit is 0", a.resource, of, a)
	}
	ratio, largest, scale := float64(limit.value)/float64(request.value), float64(a.quantity.Value()), 1.0
	if a.quantity.Value() <= resource.MaxMilliValue {
		largest, scale = float64(a.quantity.MilliValue()), 1000
	}
	if ratio*scale > largest {
		return fmt.Errorf(text+"provided ratio is %f", a.resource, of, a, ratio)
	}
	return nil
}

// String is the amount without its resource.
func (a amount) String() string { return a.quantity.String() }

// measured is a quantity as a whole number, to be compared with others.
type measured struct {
	resource.Quantity

	value int64
}

// against returns what is used of the resource, nil where nothing is said, and the amount itself, as whole numbers: in
// thousandths, unless one of them is too large for it.
func (a amount) against(used usage) (request, limit *measured, itself int64) {
	request, limit = used.requests.measure(a.resource), used.limits.measure(a.resource)
	itself = a.quantity.Value()
	if itself > resource.MaxMilliValue || request.isLarge() || limit.isLarge() {
		return request, limit, itself
	}
	for _, m := range []*measured{request, limit} {
		if m != nil {
			m.value = m.MilliValue()
		}
	}
	return request, limit, a.quantity.MilliValue()
}

func (m *measured) isLarge() bool { return m != nil && m.value > resource.MaxMilliValue }
