package core

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
	"github.com/gapless-io/gapless/internal/kinds/podrules"
)

// validateNewPod validates a new Pod: it must not have what only a subresource may add.
func validateNewPod(o *corev1.Pod) field.ErrorList {
	errs := append(podrules.DeletionCost(o.Annotations, nil), podrules.Profiles(o)...)
	if len(o.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(check.Spec("ephemeralContainers"), "cannot be set on create"))
	}
	if o.Spec.NodeName != "" && len(o.Spec.SchedulingGates) > 0 {
		errs = append(errs,
			field.Forbidden(check.Spec("nodeName"), "cannot be set until all schedulingGates have been cleared"))
	}
	return errs
}

// validatePod validates a Pod.
func validatePod(o *corev1.Pod) field.ErrorList {
	at := check.Spec()
	errs := podrules.Annotations(podrules.AnnotationsPath(), o.Annotations, &o.Spec)
	errs = append(errs, podrules.Spec(at, &o.Spec)...)
	errs = append(errs, trimmedImages(at.Child("containers"), o.Spec.Containers)...)
	return append(errs, trimmedImages(at.Child("initContainers"), o.Spec.InitContainers)...)
}

// trimmedImages checks what upstream requires of the images of pods, but not of
// templates: no white space around them.
func trimmedImages(at *field.Path, containers []corev1.Container) field.ErrorList {
	var errs field.ErrorList
	for i := range containers {
		if image := containers[i].Image; image != strings.TrimSpace(image) {
			errs = append(errs, field.Invalid(at.Index(i).Child("image"), image, "must not have leading or trailing whitespace"))
		}
	}
	return errs
}

// validatePodTemplate validates a PodTemplate.
func validatePodTemplate(o *corev1.PodTemplate) field.ErrorList {
	return podrules.Template(field.NewPath("template"), &o.Template)
}

// validatePodUpdate validates the change of a Pod: as upstream, only a few fields of its spec may
// change.
func validatePodUpdate(o, old *corev1.Pod) field.ErrorList {
	return append(podrules.AnnotationUpdate(o, old), checkSpecUpdate(o, old)...)
}

func checkSpecUpdate(o, old *corev1.Pod) field.ErrorList {
	now, was := &o.Spec, &old.Spec
	if equality.Semantic.DeepEqual(now, was) {
		return nil
	}
	at := check.Spec()
	for _, list := range []struct {
		name     string
		now, was int
	}{
		{"containers", len(now.Containers), len(was.Containers)},
		{"initContainers", len(now.InitContainers), len(was.InitContainers)},
	} {
		if list.now != list.was {
			return field.ErrorList{field.Forbidden(at.Child(list.name), "pod updates may not add or remove containers")}
		}
	}
	errs := checkDeadlineUpdate(at.Child("activeDeadlineSeconds"), now.ActiveDeadlineSeconds, was.ActiveDeadlineSeconds)
	if !keepsTolerations(now.Tolerations, was.Tolerations) {
		errs = append(errs,
			field.Forbidden(at.Child("tolerations"), "existing toleration can not be modified except its tolerationSeconds"))
	}
	gates := check.Set(was.SchedulingGates)
	for i, gate := range now.SchedulingGates {
		if !gates[gate] {
			errs = append(errs, field.Forbidden(at.Child("schedulingGates").Index(i).Child("name"),
				fmt.Sprintf("only deletion is allowed, but found new scheduling gate '%s'", gate.Name)))
		}
	}
	spec := now.DeepCopy()
	takeImages(spec.Containers, was.Containers)
	takeImages(spec.InitContainers, was.InitContainers)
	spec.ActiveDeadlineSeconds, spec.SchedulingGates, spec.Tolerations = was.ActiveDeadlineSeconds, was.SchedulingGates,
		was.Tolerations
	if g, b := spec.TerminationGracePeriodSeconds, was.TerminationGracePeriodSeconds; g != nil && b != nil && *b < 0 && *g == 1 {
		spec.TerminationGracePeriodSeconds = b
	}
	if len(was.SchedulingGates) > 0 {
		errs = append(errs, checkGatedUpdate(at, spec, was)...)
	}
	if equality.Semantic.DeepEqual(spec, was) {
		return errs
	}
	return append(errs, field.Forbidden(at,
		"pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"+
			"`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"+
			"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"))
}

// checkGatedUpdate checks the change of where a pod that is held back may run: it may only
// become narrower. It gives spec the former values of what may change.
func checkGatedUpdate(at *field.Path, spec, was *corev1.PodSpec) field.ErrorList {
	var errs field.ErrorList
	for key, value := range was.NodeSelector {
		if now, has := spec.NodeSelector[key]; !has || now != value {
			errs = append(errs,
				field.Invalid(at.Child("nodeSelector"), spec.NodeSelector,
					"only additions to spec.nodeSelector are allowed (no mutations or deletions)"))
			break
		}
	}
	spec.NodeSelector = was.NodeSelector
	var before *corev1.NodeAffinity
	if was.Affinity != nil {
		before = was.Affinity.NodeAffinity
	}
	if spec.Affinity == nil {
		if before != nil && before.RequiredDuringSchedulingIgnoredDuringExecution == nil {
			spec.Affinity = &corev1.Affinity{NodeAffinity: before}
		}
		return errs
	}
	if !narrower(spec.Affinity.NodeAffinity, before) {
		return append(errs,
			field.Invalid(at.Child("affinity", "nodeAffinity"), "", "only additions are allowed (no mutations or deletions)"))
	}
	spec.Affinity.NodeAffinity = before
	if was.Affinity == nil && spec.Affinity.PodAffinity == nil && spec.Affinity.PodAntiAffinity == nil {
		spec.Affinity = nil
	}
	return errs
}

// narrower reports whether nodes must fulfill at least what they had to before.
func narrower(now, was *corev1.NodeAffinity) bool {
	if was == nil || was.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return true
	}
	if now == nil || now.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	terms, before := now.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms,
		was.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	return slices.EqualFunc(terms, before, func(t, b corev1.NodeSelectorTerm) bool {
		return begins(t.MatchExpressions, b.MatchExpressions) && begins(t.MatchFields, b.MatchFields)
	})
}

func begins(list, with []corev1.NodeSelectorRequirement) bool {
	return len(list) >= len(with) && equality.Semantic.DeepEqual(list[:len(with)], with)
}

// checkDeadlineUpdate checks that a deadline may be set or become shorter.
func checkDeadlineUpdate(at *field.Path, now, was *int64) field.ErrorList {
	switch {
	case was == nil:
		return nil
	case now == nil:
		return field.ErrorList{field.Invalid(at, now, "must not update from a positive integer to nil value")}
	case *now > *was:
		return field.ErrorList{field.Invalid(at, *now, "must be less than or equal to previous value")}
	}
	return nil
}

// keepsTolerations reports whether no toleration is gone; its seconds may be others.
func keepsTolerations(now, was []corev1.Toleration) bool {
	kept := make(map[corev1.Toleration]bool, len(now))
	for _, t := range now {
		t.TolerationSeconds = nil
		kept[t] = true
	}
	return !slices.ContainsFunc(was, func(t corev1.Toleration) bool {
		t.TolerationSeconds = nil
		return !kept[t]
	})
}

// takeImages gives containers the images of the former ones, so that images do not count
// in a comparison. There are as many of them.
func takeImages(containers, former []corev1.Container) {
	for i := range containers {
		containers[i].Image = former[i].Image
	}
}
