package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/podspec"
	"github.com/gapless-io/gapless/internal/kinds/warn"
)

// warnDaemonSet warns about a new DaemonSet, or about a new template.
func warnDaemonSet(o, old *appsv1.DaemonSet) []string {
	var l warn.List
	if old == nil || o.Annotations[appsv1.DeprecatedTemplateGeneration] != old.Annotations[appsv1.DeprecatedTemplateGeneration] {
		podspec.WarnTemplate(&l, podspec.TemplateAt(), &o.Spec.Template)
	}
	return l.Texts()
}

// warnDeployment warns about a new Deployment, or about the template when its generation changes.
func warnDeployment(o, old *appsv1.Deployment) []string {
	var l warn.List
	if old == nil {
		l.Hostname(o.Name, warn.PodNames)
	}
	if old == nil || o.Generation != old.Generation {
		podspec.WarnTemplate(&l, podspec.TemplateAt(), &o.Spec.Template)
	}
	return l.Texts()
}

// warnReplicaSet warns about a new ReplicaSet, or about the template when its generation changes.
func warnReplicaSet(o, old *appsv1.ReplicaSet) []string {
	var l warn.List
	if old == nil {
		l.Hostname(o.Name, warn.PodNames)
	}
	if old == nil || o.Generation != old.Generation {
		podspec.WarnTemplate(&l, podspec.TemplateAt(), &o.Spec.Template)
	}
	return l.Texts()
}

// warnStatefulSet warns about a new StatefulSet, or about the template when its generation
// changes, and about its claims.
func warnStatefulSet(o, old *appsv1.StatefulSet) []string {
	var l warn.List
	if old == nil || o.Generation != old.Generation {
		podspec.WarnTemplate(&l, podspec.TemplateAt(), &o.Spec.Template)
	}
	for i := range o.Spec.VolumeClaimTemplates {
		podspec.WarnClaim(&l, func() *field.Path {
			at := field.NewPath("spec", "volumeClaimTemplates").Index(i)
			if old != nil {
				at = at.Child("Spec") // only then upstream's path has it
			}
			return at
		}, &o.Spec.VolumeClaimTemplates[i].Spec)
	}
	if n := o.Spec.RevisionHistoryLimit; n != nil && *n < 0 {
		l.Say("spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended")
	}
	return l.Texts()
}
