package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
	"github.com/gapless-io/gapless/internal/kinds/podrules"
)

// validateDeployment validates a Deployment.
func validateDeployment(o *appsv1.Deployment) field.ErrorList {
	spec := &o.Spec
	errs := podrules.Selects("deployment", check.Spec(), spec.Selector, spec.Template.Labels)
	errs = append(errs, check.NotNegative(check.Spec(), "replicas", spec.Replicas)...)
	errs = append(errs, podrules.RunningTemplate(check.Spec("template"), &spec.Template, "ReplicaSet")...)
	errs = append(errs, check.NotNegative(check.Spec(), "minReadySeconds", &spec.MinReadySeconds)...)
	errs = append(errs, check.NotNegative(check.Spec(), "revisionHistoryLimit", spec.RevisionHistoryLimit)...)
	if d := spec.ProgressDeadlineSeconds; d != nil {
		errs = append(errs, check.NotNegative(check.Spec(), "progressDeadlineSeconds", d)...)
		if *d <= spec.MinReadySeconds {
			errs = append(errs, field.Invalid(check.Spec("progressDeadlineSeconds"), *d, "must be greater than minReadySeconds"))
		}
	}
	errs = append(errs, checkDeploymentStrategy(check.Spec("strategy"), &spec.Strategy)...)
	return append(errs, deploymentStatus(&o.Status)...)
}

// validateDeploymentUpdate validates the change of a Deployment from old to o.
func validateDeploymentUpdate(o, old *appsv1.Deployment) field.ErrorList {
	errs := check.Unchanged(check.Spec(), "selector", o.Spec.Selector, old.Spec.Selector)
	return append(errs, collisions(o.Status.CollisionCount, old.Status.CollisionCount)...)
}

// validateReplicaSet validates a ReplicaSet.
func validateReplicaSet(o *appsv1.ReplicaSet) field.ErrorList {
	errs := podrules.Selects("deployment", check.Spec(), o.Spec.Selector, o.Spec.Template.Labels)
	errs = append(errs, check.NotNegative(check.Spec(), "replicas", o.Spec.Replicas)...)
	errs = append(errs, check.NotNegative(check.Spec(), "minReadySeconds", &o.Spec.MinReadySeconds)...)
	errs = append(errs, podrules.RunningTemplate(check.Spec("template"), &o.Spec.Template, "ReplicaSet")...)
	return append(errs, replicaSetStatus(&o.Status)...)
}

// validateReplicaSetUpdate validates the change of a ReplicaSet from old to o.
func validateReplicaSetUpdate(o, old *appsv1.ReplicaSet) field.ErrorList {
	return check.Unchanged(check.Spec(), "selector", o.Spec.Selector, old.Spec.Selector)
}

// validateDaemonSet validates a DaemonSet. A missing selector is refused because it does not match
// the template.
func validateDaemonSet(o *appsv1.DaemonSet) field.ErrorList {
	spec := &o.Spec
	errs := check.LabelSelector(check.Spec("selector"), spec.Selector)
	if selector, err := metav1.LabelSelectorAsSelector(spec.Selector); err == nil &&
		!selector.Matches(labels.Set(spec.Template.Labels)) {
		errs = append(errs, podrules.NotSelected(check.Spec(), spec.Template.Labels))
	}
	if spec.Selector != nil && len(spec.Selector.MatchLabels)+len(spec.Selector.MatchExpressions) == 0 {
		errs = append(errs, field.Invalid(check.Spec("selector"), spec.Selector, "empty selector is invalid for daemonset"))
	}
	errs = append(errs, podrules.RunningTemplate(check.Spec("template"), &spec.Template, "DaemonSet")...)
	errs = append(errs, check.NotNegative(check.Spec(), "minReadySeconds", &spec.MinReadySeconds)...)
	errs = append(errs, check.NotNegative(check.Spec(), "revisionHistoryLimit", spec.RevisionHistoryLimit)...)
	errs = append(errs, checkDaemonStrategy(check.Spec("updateStrategy"), &spec.UpdateStrategy)...)
	return append(errs, daemonSetStatus(&o.Status)...)
}

// validateDaemonSetUpdate validates the change of a DaemonSet from old to o.
func validateDaemonSetUpdate(o, old *appsv1.DaemonSet) field.ErrorList {
	errs := check.Unchanged(check.Spec(), "selector", o.Spec.Selector, old.Spec.Selector)
	return append(errs, collisions(o.Status.CollisionCount, old.Status.CollisionCount)...)
}

// validateStatefulSet validates a StatefulSet.
func validateStatefulSet(o *appsv1.StatefulSet) field.ErrorList {
	spec := &o.Spec
	errs := podrules.Selects("statefulset", check.Spec(), spec.Selector, spec.Template.Labels)
	switch spec.PodManagementPolicy {
	case appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement:
	case "":
		errs = append(errs, field.Required(check.Spec("podManagementPolicy"), ""))
	default:
		errs = append(errs,
			field.Invalid(check.Spec("podManagementPolicy"), spec.PodManagementPolicy, "must be 'OrderedReady' or 'Parallel'"))
	}
	errs = append(errs, checkStatefulStrategy(check.Spec("updateStrategy"), &spec.UpdateStrategy)...)
	if r := spec.PersistentVolumeClaimRetentionPolicy; r != nil {
		at := check.Spec("persistentVolumeClaimRetentionPolicy")
		const retain, remove = appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
			appsv1.DeletePersistentVolumeClaimRetentionPolicyType
		errs = append(errs, check.Known(at, "whenDeleted", r.WhenDeleted, retain, remove)...)
		errs = append(errs, check.Known(at, "whenScaled", r.WhenScaled, retain, remove)...)
	}
	errs = append(errs, check.NotNegative(check.Spec(), "replicas", spec.Replicas)...)
	errs = append(errs, check.NotNegative(check.Spec(), "minReadySeconds", &spec.MinReadySeconds)...)
	if spec.Ordinals != nil {
		errs = append(errs, check.NotNegative(check.Spec(), "ordinals.start", &spec.Ordinals.Start)...)
	}
	if spec.ServiceName != "" {
		errs = append(errs,
			check.Invalid(check.Spec("serviceName"), spec.ServiceName, validation.IsDNS1123Label(spec.ServiceName))...)
	}
	errs = append(errs, statefulSetStatus(&o.Status)...)
	return append(errs, podrules.RunningTemplate(check.Spec("template"), statefulTemplate(spec), "StatefulSet")...)
}

// validateNewStatefulSet validates the claims of a new StatefulSet, which cannot change.
func validateNewStatefulSet(o *appsv1.StatefulSet) field.ErrorList {
	var errs field.ErrorList
	for i := range o.Spec.VolumeClaimTemplates {
		at := check.Spec("volumeClaimTemplates").Index(i)
		errs = append(errs, podrules.ClaimSpec(at.Child("spec"), &o.Spec.VolumeClaimTemplates[i].Spec)...)
	}
	return errs
}

// statefulTemplate returns the template as the controller makes pods of it: with the claim
// templates as volumes, and without names of the host, which it sets.
func statefulTemplate(spec *appsv1.StatefulSetSpec) *corev1.PodTemplateSpec {
	pod := spec.Template.Spec
	if len(spec.VolumeClaimTemplates) == 0 && pod.Hostname == "" && pod.Subdomain == "" {
		return &spec.Template
	}
	pod.Hostname, pod.Subdomain, pod.Volumes = "", "", nil
	claimed := map[string]bool{}
	for _, claim := range spec.VolumeClaimTemplates {
		if claimed[claim.Name] {
			continue
		}
		claimed[claim.Name] = true
		source := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}}
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: claim.Name, VolumeSource: source})
	}
	for _, v := range spec.Template.Spec.Volumes {
		if !claimed[v.Name] {
			pod.Volumes = append(pod.Volumes, v)
		}
	}
	return &corev1.PodTemplateSpec{ObjectMeta: spec.Template.ObjectMeta, Spec: pod}
}

// validateStatefulSetUpdate validates the change of a StatefulSet from old to o.
func validateStatefulSetUpdate(o, old *appsv1.StatefulSet) field.ErrorList {
	now, was := &o.Spec, &old.Spec
	errs := check.Unchanged(check.Spec(), "selector", now.Selector, was.Selector)
	errs = append(errs,
		check.Unchanged(check.Spec(), "volumeClaimTemplates", now.VolumeClaimTemplates, was.VolumeClaimTemplates)...)
	errs = append(errs, check.Unchanged(check.Spec(), "serviceName", now.ServiceName, was.ServiceName)...)
	errs = append(errs, check.Unchanged(check.Spec(), "podManagementPolicy", now.PodManagementPolicy, was.PodManagementPolicy)...)
	return append(errs, collisions(o.Status.CollisionCount, old.Status.CollisionCount)...)
}

// validateControllerRevision validates a ControllerRevision.
func validateControllerRevision(o *appsv1.ControllerRevision) field.ErrorList {
	errs := check.NotNegative(nil, "revision", &o.Revision)
	if len(o.Data.Raw) == 0 && o.Data.Object == nil {
		errs = append(errs, field.Required(field.NewPath("data"), "data is mandatory"))
	}
	return errs
}

// validateControllerRevisionUpdate validates the change of a ControllerRevision from old to o.
func validateControllerRevisionUpdate(o, old *appsv1.ControllerRevision) field.ErrorList {
	return check.Unchanged(nil, "data", o.Data, old.Data)
}
