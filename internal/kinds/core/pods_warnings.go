package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/podspec"
	"github.com/gapless-io/gapless/internal/kinds/warn"
)

// warnReplicationController warns about a new ReplicationController. When the generation changes,
// upstream warns about the former template, which is meant to be the new one.
func warnReplicationController(o, old *corev1.ReplicationController) []string {
	var l warn.List
	switch {
	case old == nil:
		l.Hostname(o.Name, warn.PodNames)
		if o.Spec.Template != nil {
			podspec.WarnTemplate(&l, podspec.TemplateAt(), o.Spec.Template)
		}
	case o.Generation != old.Generation && old.Spec.Template != nil:
		podspec.WarnTemplate(&l, podspec.TemplateAt(), old.Spec.Template)
	}
	return l.Texts()
}

// warnPod warns about a new pod. Nobody reads warnings about updates of pods, which controllers
// make.
func warnPod(o, old *corev1.Pod) []string {
	if old != nil {
		return nil
	}
	var l warn.List
	podspec.WarnProfiles(&l, o)
	l.Hostname(o.Name, "the Pod's hostname")
	podspec.Warn(&l, nil, &o.Spec, &o.ObjectMeta)
	return l.Texts()
}

// warnPodStatus warns about a change of the status of a pod.
func warnPodStatus(o, _ *corev1.Pod) []string {
	var l warn.List
	for i, ip := range o.Status.PodIPs {
		l.Address(func() *field.Path { return field.NewPath("status", "podIPs").Index(i).Child("ip") }, ip.IP)
	}
	for i, ip := range o.Status.HostIPs {
		l.Address(func() *field.Path { return field.NewPath("status", "hostIPs").Index(i).Child("ip") }, ip.IP)
	}
	return l.Texts()
}

// warnPodTemplate warns about a PodTemplate.
func warnPodTemplate(o, old *corev1.PodTemplate) []string {
	var l warn.List
	if old == nil || o.Generation != old.Generation {
		podspec.WarnTemplate(&l, field.NewPath("template"), &o.Template)
	}
	return l.Texts()
}
