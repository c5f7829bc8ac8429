package quota

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// compact is what is left of an object when it was measured: a fraction of its size.
type compact struct {
	scopes

	used corev1.ResourceList
}

// scopes is what scopes look at.
type scopes interface {
	InScope(s corev1.ScopedResourceSelectorRequirement) (bool, error)
}

// Compact returns an object with what quotas see of it if it is stored, without the rest. Of one that may count for
// something else at another time it is the object itself.
func Compact(i Item) Item {
	switch o := i.(type) {
	case pod:
		if !o.ends().IsZero() {
			return i
		}
		return compact{o.scopes(), o.Usage()}
	case service:
		return compact{counted{}, o.Usage()}
	case volumeClaim:
		return compact{attributes(o.attributeClasses()), o.Usage()}
	}
	return i
}

// EndOf returns when an object ceases to count for more than being one; zero: never by itself.
func EndOf(i Item) time.Time {
	if p, is := i.(pod); is {
		return p.ends()
	}
	return time.Time{}
}

// Missing implements Item.
func (compact) Missing([]corev1.ResourceName) error { return nil }

// Usage implements Item.
func (c compact) Usage() corev1.ResourceList { return c.used }
