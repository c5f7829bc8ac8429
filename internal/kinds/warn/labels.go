package warn

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// OldLabel returns what is said about a label of nodes that is no longer used; "" for others
// (pkg/api/node/util.go).
func OldLabel(key string) string {
	switch key {
	case "beta.kubernetes.io/arch":
		return `deprecated since v1.14; use "kubernetes.io/arch" instead`
	case "beta.kubernetes.io/os":
		return `deprecated since v1.14; use "kubernetes.io/os" instead`
	case "failure-domain.beta.kubernetes.io/region":
		return `deprecated since v1.17; use "topology.kubernetes.io/region" instead`
	case "failure-domain.beta.kubernetes.io/zone":
		return `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`
	case "beta.kubernetes.io/instance-type":
		return `deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`
	case "app.kubernetes.io/created-by":
		return "deprecated since v1.9"
	case "scheduler.alpha.kubernetes.io/preferAvoidPods":
		return "deprecated since v1.22; use Taints and Tolerations instead"
	case "node-role.kubernetes.io/master":
		return `use "node-role.kubernetes.io/control-plane" instead`
	}
	return ""
}

// OldKeys returns the keys of labels that are old, in order.
func OldKeys(labels map[string]string) []string {
	var old []string
	for key := range labels {
		if OldLabel(key) != "" {
			old = append(old, key)
		}
	}
	slices.Sort(old)
	return old
}

// Term warns about old labels in the terms of a node selector, and if values is true about
// values that no label can have.
func (l *List) Term(at *field.Path, term *corev1.NodeSelectorTerm, values bool) {
	for i := range term.MatchExpressions {
		r := &term.MatchExpressions[i]
		if why := OldLabel(r.Key); why != "" {
			l.At(at.Child("matchExpressions").Index(i).Child("key"), "%s is %s", r.Key, why)
		}
		if !values {
			continue
		}
		for j, value := range r.Values {
			for _, why := range validation.IsValidLabelValue(value) {
				l.At(at.Child("matchExpressions").Index(i).Child("values").Index(j), "%s is invalid, %s", value, why)
			}
		}
	}
}

// Selector warns about old labels of nodes in a label selector.
func (l *List) Selector(at *field.Path, s *metav1.LabelSelector) {
	if s == nil {
		return
	}
	for i, r := range s.MatchExpressions {
		if why := OldLabel(r.Key); why != "" {
			l.At(at.Child("matchExpressions").Index(i).Child("key"), "%s is %s", r.Key, why)
		}
	}
	for _, key := range OldKeys(s.MatchLabels) {
		l.At(at.Child("matchLabels").Child(key), "%s", OldLabel(key))
	}
}

// Annotation warns about an old annotation.
func (l *List) Annotation(at *field.Path, annotations map[string]string, key, why string) {
	if _, has := annotations[key]; has {
		l.At(at.Child("metadata", "annotations").Key(key), "%s", why)
	}
}

// PointAt is where services and ingresses say how they are reached.
func PointAt(i int) *field.Path { return field.NewPath("status", "loadBalancer", "ingress").Index(i) }
