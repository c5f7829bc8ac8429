package validation

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/builtin/validation/check"
)

// The statuses that controllers write. New objects have empty ones.

// count is a number in a status.
type count struct {
	name string
	n    int64
}

// counts checks that no number is negative. Those after replicas must not be more than it.
func counts(all []count, replicas *int64) field.ErrorList {
	at := field.NewPath("status")
	var errs field.ErrorList
	for _, c := range all {
		errs = append(errs, apivalidation.ValidateNonnegativeField(c.n, at.Child(c.name))...)
		if replicas != nil && c.n > *replicas {
			errs = append(errs, field.Invalid(at.Child(c.name), c.n, "cannot be greater than status.replicas"))
		}
	}
	return errs
}

// available checks that not more pods are available than ready.
func available(available, ready int32, of string) field.ErrorList {
	if available <= ready {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("status", "availableReplicas"), available, "cannot be greater than "+of)}
}

// collisions checks that the number of collisions does not shrink.
func collisions(now, was *int32) field.ErrorList {
	errs := check.NotNegative(field.NewPath("status"), "collisionCount", now)
	if was == nil || now != nil && *now >= *was {
		return errs
	}
	n := int32(0)
	if now != nil {
		n = *now
	}
	return append(errs, field.Invalid(field.NewPath("status", "collisionCount"), n, "cannot be decremented"))
}

func deploymentStatus(s *appsv1.DeploymentStatus) field.ErrorList {
	replicas := int64(s.Replicas)
	errs := counts([]count{
		{"observedGeneration", s.ObservedGeneration},
		{"replicas", replicas},
		{"unavailableReplicas", int64(s.UnavailableReplicas)},
	}, nil)
	errs = append(errs, counts([]count{
		{"updatedReplicas", int64(s.UpdatedReplicas)},
		{"readyReplicas", int64(s.ReadyReplicas)},
		{"availableReplicas", int64(s.AvailableReplicas)},
	}, &replicas)...)
	errs = append(errs, check.NotNegative(field.NewPath("status"), "terminatingReplicas", s.TerminatingReplicas)...)
	return append(errs, available(s.AvailableReplicas, s.ReadyReplicas, "readyReplicas")...)
}

func replicaSetStatus(s *appsv1.ReplicaSetStatus) field.ErrorList {
	replicas := int64(s.Replicas)
	errs := counts([]count{{"observedGeneration", s.ObservedGeneration}, {"replicas", replicas}}, nil)
	errs = append(errs, counts([]count{
		{"fullyLabeledReplicas", int64(s.FullyLabeledReplicas)},
		{"readyReplicas", int64(s.ReadyReplicas)},
		{"availableReplicas", int64(s.AvailableReplicas)},
	}, &replicas)...)
	errs = append(errs, check.NotNegative(field.NewPath("status"), "terminatingReplicas", s.TerminatingReplicas)...)
	return append(errs, available(s.AvailableReplicas, s.ReadyReplicas, "readyReplicas")...)
}

func replicationStatus(s *corev1.ReplicationControllerStatus) field.ErrorList {
	replicas := int64(s.Replicas)
	errs := counts([]count{{"observedGeneration", s.ObservedGeneration}, {"replicas", replicas}}, nil)
	errs = append(errs, counts([]count{
		{"fullyLabeledReplicas", int64(s.FullyLabeledReplicas)},
		{"readyReplicas", int64(s.ReadyReplicas)},
		{"availableReplicas", int64(s.AvailableReplicas)},
	}, &replicas)...)
	return append(errs, available(s.AvailableReplicas, s.ReadyReplicas, "readyReplicas")...)
}

func statefulSetStatus(s *appsv1.StatefulSetStatus) field.ErrorList {
	replicas := int64(s.Replicas)
	errs := counts([]count{{"observedGeneration", s.ObservedGeneration}, {"replicas", replicas}}, nil)
	errs = append(errs, counts([]count{
		{"readyReplicas", int64(s.ReadyReplicas)},
		{"currentReplicas", int64(s.CurrentReplicas)},
		{"updatedReplicas", int64(s.UpdatedReplicas)},
		{"availableReplicas", int64(s.AvailableReplicas)},
	}, &replicas)...)
	return append(errs, available(s.AvailableReplicas, s.ReadyReplicas, "status.readyReplicas")...)
}

func daemonSetStatus(s *appsv1.DaemonSetStatus) field.ErrorList {
	return counts([]count{
		{"currentNumberScheduled", int64(s.CurrentNumberScheduled)},
		{"numberMisscheduled", int64(s.NumberMisscheduled)},
		{"desiredNumberScheduled", int64(s.DesiredNumberScheduled)},
		{"numberReady", int64(s.NumberReady)},
		{"observedGeneration", s.ObservedGeneration},
		{"updatedNumberScheduled", int64(s.UpdatedNumberScheduled)},
		{"numberAvailable", int64(s.NumberAvailable)},
		{"numberUnavailable", int64(s.NumberUnavailable)},
	}, nil)
}

// jobStatus does not check how the numbers and conditions of a job fit together.
func jobStatus(s *batchv1.JobStatus) field.ErrorList {
	at := field.NewPath("status")
	errs := counts([]count{{"active", int64(s.Active)}, {"succeeded", int64(s.Succeeded)}, {"failed", int64(s.Failed)}}, nil)
	errs = append(errs, check.NotNegative(at, "ready", s.Ready)...)
	errs = append(errs, check.NotNegative(at, "terminating", s.Terminating)...)
	if s.UncountedTerminatedPods == nil {
		return errs
	}
	seen := map[types.UID]bool{}
	for _, list := range []struct {
		name string
		pods []types.UID
	}{{"succeeded", s.UncountedTerminatedPods.Succeeded}, {"failed", s.UncountedTerminatedPods.Failed}} {
		for i, uid := range list.pods {
			p := at.Child("uncountedTerminatedPods", list.name).Index(i)
			if uid == "" {
				errs = append(errs, field.Invalid(p, uid, "must not be empty"))
			} else if seen[uid] {
				errs = append(errs, field.Duplicate(p, uid))
			}
			seen[uid] = true
		}
	}
	return errs
}

func autoscalerStatus(s *autoscalingv2.HorizontalPodAutoscalerStatus) field.ErrorList {
	return counts([]count{{"currentReplicas", int64(s.CurrentReplicas)}, {"desiredReplicas", int64(s.DesiredReplicas)}}, nil)
}

func budgetStatus(s *policyv1.PodDisruptionBudgetStatus) field.ErrorList {
	errs := counts([]count{
		{"disruptionsAllowed", int64(s.DisruptionsAllowed)},
		{"currentHealthy", int64(s.CurrentHealthy)},
		{"desiredHealthy", int64(s.DesiredHealthy)},
		{"expectedPods", int64(s.ExpectedPods)},
	}, nil)
	return append(errs, metavalidation.ValidateConditions(s.Conditions, field.NewPath("status", "conditions"))...)
}

// IngressStatus validates a change of where an Ingress is reached.
func IngressStatus(o, old *networkingv1.Ingress) field.ErrorList {
	kept := make([]string, 0, len(old.Status.LoadBalancer.Ingress))
	for _, point := range old.Status.LoadBalancer.Ingress {
		kept = append(kept, point.IP)
	}
	var errs field.ErrorList
	for i, point := range o.Status.LoadBalancer.Ingress {
		at := field.NewPath("status", "loadBalancer", "ingress").Index(i)
		errs = append(errs, checkPointIP(at, point.IP, kept)...)
		errs = append(errs, checkPointHost(at, point.Hostname)...)
	}
	return errs
}

// ServiceStatus validates a change of where a Service is reached.
func ServiceStatus(o, old *corev1.Service) field.ErrorList {
	kept := make([]string, 0, len(old.Status.LoadBalancer.Ingress))
	for _, point := range old.Status.LoadBalancer.Ingress {
		kept = append(kept, point.IP)
	}
	var errs field.ErrorList
	for i, point := range o.Status.LoadBalancer.Ingress {
		at := field.NewPath("status", "loadBalancer", "ingress").Index(i)
		errs = append(errs, checkPointIP(at, point.IP, kept)...)
		errs = append(errs, checkPointHost(at, point.Hostname)...)
		errs = append(errs,
			check.KnownIfSet(at, "ipMode", point.IPMode, corev1.LoadBalancerIPModeProxy, corev1.LoadBalancerIPModeVIP)...)
		if point.IPMode != nil && point.IP == "" {
			errs = append(errs, field.Forbidden(at.Child("ipMode"), "may not be specified when `ip` is not set"))
		}
	}
	return errs
}

func checkPointIP(at *field.Path, ip string, kept []string) field.ErrorList {
	if ip == "" {
		return nil
	}
	return check.IP(at.Child("ip"), ip, kept)
}

func checkPointHost(at *field.Path, host string) field.ErrorList {
	if host == "" {
		return nil
	}
	errs := check.Invalid(at.Child("hostname"), host, validation.IsDNS1123Subdomain(host))
	if isAddress(host) {
		errs = append(errs, field.Invalid(at.Child("hostname"), host, "must be a DNS name, not an IP address"))
	}
	return errs
}

// NamespaceStatus validates the status of a Namespace: it says the phase that the namespace is in.
func NamespaceStatus(o, _ *corev1.Namespace) field.ErrorList {
	at := field.NewPath("status", "Phase") // upstream's path begins with a capital letter
	switch {
	case o.DeletionTimestamp == nil && o.Status.Phase != corev1.NamespaceActive:
		return field.ErrorList{field.Invalid(at, o.Status.Phase, "may only be 'Active' if `deletionTimestamp` is empty")}
	case o.DeletionTimestamp != nil && o.Status.Phase != corev1.NamespaceTerminating:
		return field.ErrorList{field.Invalid(at, o.Status.Phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")}
	}
	return nil
}
