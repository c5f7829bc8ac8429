package bootstrap

import (
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The values of the classes of the system (pkg/apis/scheduling/v1 SystemPriorityClasses).
const (
	clusterCritical = 2_000_000_000
	nodeCritical    = clusterCritical + 1000
)

// classes returns the PriorityClasses of the system, which kube-apiserver creates at its start.
func classes() []object {
	never := correction(func(*schedulingv1.PriorityClass) (bool, error) { return false, nil }) // its values cannot be changed
	class := func(name, text string, value int32) object {
		return object{
			resource: schedulingv1.Resource("priorityclasses"), name: name, correct: never, wanted: &schedulingv1.PriorityClass{
				ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, PreemptionPolicy: new(corev1.PreemptLowerPriority),
				Description: text,
			},
		}
	}
	return []object{
		class("system-node-critical",
			"Used for system critical pods that must not be moved from their current node.", nodeCritical),
		class("system-cluster-critical",
			"Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
			clusterCritical),
	}
}
