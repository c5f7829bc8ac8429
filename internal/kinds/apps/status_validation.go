package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

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
	errs := check.Counts([]check.Count{
		{Name: "observedGeneration", N: s.ObservedGeneration},
		{Name: "replicas", N: replicas},
		{Name: "unavailableReplicas", N: int64(s.UnavailableReplicas)},
	}, nil)
	errs = append(errs, check.Counts([]check.Count{
		{Name: "updatedReplicas", N: int64(s.UpdatedReplicas)},
		{Name: "readyReplicas", N: int64(s.ReadyReplicas)},
		{Name: "availableReplicas", N: int64(s.AvailableReplicas)},
	}, &replicas)...)
	errs = append(errs, check.NotNegative(field.NewPath("status"), "terminatingReplicas", s.TerminatingReplicas)...)
	return append(errs, check.Available(s.AvailableReplicas, s.ReadyReplicas, "readyReplicas")...)
}

func replicaSetStatus(s *appsv1.ReplicaSetStatus) field.ErrorList {
	replicas := int64(s.Replicas)
	errs := check.Counts([]check.Count{
		{Name: "observedGeneration", N: s.ObservedGeneration}, {Name: "replicas", N: replicas},
	}, nil)
	errs = append(errs, check.Counts([]check.Count{
		{Name: "fullyLabeledReplicas", N: int64(s.FullyLabeledReplicas)},
		{Name: "readyReplicas", N: int64(s.ReadyReplicas)},
		{Name: "availableReplicas", N: int64(s.AvailableReplicas)},
	}, &replicas)...)
	errs = append(errs, check.NotNegative(field.NewPath("status"), "terminatingReplicas", s.TerminatingReplicas)...)
	return append(errs, check.Available(s.AvailableReplicas, s.ReadyReplicas, "readyReplicas")...)
}

func statefulSetStatus(s *appsv1.StatefulSetStatus) field.ErrorList {
	replicas := int64(s.Replicas)
	errs := check.Counts([]check.Count{
		{Name: "observedGeneration", N: s.ObservedGeneration}, {Name: "replicas", N: replicas},
	}, nil)
	errs = append(errs, check.Counts([]check.Count{
		{Name: "readyReplicas", N: int64(s.ReadyReplicas)},
		{Name: "currentReplicas", N: int64(s.CurrentReplicas)},
		{Name: "updatedReplicas", N: int64(s.UpdatedReplicas)},
		{Name: "availableReplicas", N: int64(s.AvailableReplicas)},
	}, &replicas)...)
	return append(errs, check.Available(s.AvailableReplicas, s.ReadyReplicas, "status.readyReplicas")...)
}

func daemonSetStatus(s *appsv1.DaemonSetStatus) field.ErrorList {
	return check.Counts([]check.Count{
		{Name: "currentNumberScheduled", N: int64(s.CurrentNumberScheduled)},
		{Name: "numberMisscheduled", N: int64(s.NumberMisscheduled)},
		{Name: "desiredNumberScheduled", N: int64(s.DesiredNumberScheduled)},
		{Name: "numberReady", N: int64(s.NumberReady)},
		{Name: "observedGeneration", N: s.ObservedGeneration},
		{Name: "updatedNumberScheduled", N: int64(s.UpdatedNumberScheduled)},
		{Name: "numberAvailable", N: int64(s.NumberAvailable)},
		{Name: "numberUnavailable", N: int64(s.NumberUnavailable)},
	}, nil)
}
