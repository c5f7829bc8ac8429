package quota

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// number is a quantity of things.
func number(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.DecimalSI) }

// Add adds b to a, which it changes.
func Add(a, b corev1.ResourceList) {
	for name, more := range b {
		sum, has := a[name]
		if !has {
			a[name] = more.DeepCopy()
			continue
		}
		sum.Add(more)
		a[name] = sum
	}
}

// Sum returns a + b.
func Sum(a, b corev1.ResourceList) corev1.ResourceList {
	sum := make(corev1.ResourceList, len(a))
	Add(sum, a)
	Add(sum, b)
	return sum
}

// Take takes b from a, which it changes: what a has, and not below zero.
func Take(a, b corev1.ResourceList) {
	for name, less := range b {
		if rest, has := a[name]; has {
			rest.Sub(less)
			if rest.Sign() < 0 {
				rest = resource.Quantity{Format: rest.Format}
			}
			a[name] = rest
		}
	}
}

// Rise returns what of now is more than was: names with more than zero.
func Rise(now, was corev1.ResourceList) corev1.ResourceList {
	rise := corev1.ResourceList{}
	for name, q := range now {
		q = q.DeepCopy()
		if before, has := was[name]; has {
			q.Sub(before)
		}
		if q.Sign() > 0 {
			rise[name] = q
		}
	}
	return rise
}

// Nonzero returns what of a list is not zero.
func Nonzero(list corev1.ResourceList) corev1.ResourceList {
	rest := corev1.ResourceList{}
	for name, q := range list {
		if !q.IsZero() {
			rest[name] = q
		}
	}
	return rest
}

// Only returns what a list has of what another one names.
func Only(list, names corev1.ResourceList) corev1.ResourceList {
	some := corev1.ResourceList{}
	for name, q := range list {
		if _, has := names[name]; has {
			some[name] = q.DeepCopy()
		}
	}
	return some
}

// Equal reports whether two lists have the same names and quantities.
func Equal(a, b corev1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, q := range a {
		if other, has := b[name]; !has || q.Cmp(other) != 0 {
			return false
		}
	}
	return true
}

// Text returns a list as messages show it: "cpu=1,pods=2".
func Text(list corev1.ResourceList) string {
	parts := make([]string, 0, len(list))
	for _, name := range slices.Sorted(maps.Keys(list)) { // not by the parts: a point comes before =
		q := list[name]
		parts = append(parts, string(name)+"="+q.String())
	}
	return strings.Join(parts, ",")
}

// Names returns names as messages show them: "cpu,pods".
func Names(names []corev1.ResourceName) string {
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = string(name)
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

// Tree returns a list as it stands in a decoded object.
func Tree(list corev1.ResourceList) map[string]any {
	tree := make(map[string]any, len(list))
	for name, q := range list {
		tree[string(name)] = q.String()
	}
	return tree
}
