package podrules

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

const (
	appArmorPrefix = corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix
	seccompPrefix  = corev1.SeccompContainerAnnotationKeyPrefix
	localhost      = corev1.SeccompLocalhostProfileNamePrefix
)

// Annotations checks the annotations that are settings of a pod, or of its template.
func Annotations(at *field.Path, annotations map[string]string, spec *corev1.PodSpec) field.ErrorList {
	if len(annotations) == 0 {
		return nil
	}
	var errs field.ErrorList
	if value, mirrors := annotations[corev1.MirrorPodAnnotationKey]; mirrors && spec.NodeName == "" {
		errs = append(errs,
			field.Invalid(at.Key(corev1.MirrorPodAnnotationKey), value, "must set spec.nodeName if mirror pod annotation is set"))
	}
	var names map[string]bool // of containers, if they are asked for: once, since both may be many
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		value := annotations[name]
		switch {
		case name == corev1.SeccompPodAnnotationKey, strings.HasPrefix(name, seccompPrefix):
			errs = append(errs, checkSeccompName(at, name, value)...)
		case strings.HasPrefix(name, appArmorPrefix):
			container := strings.TrimPrefix(name, appArmorPrefix)
			if names == nil {
				names = map[string]bool{}
				for _, c := range containersOf(spec) {
					names[c.name] = true
				}
			}
			if !names[container] {
				errs = append(errs, field.Invalid(at.Key(name), container, "container not found"))
			}
			if value != "" && value != corev1.DeprecatedAppArmorBetaProfileRuntimeDefault &&
				value != corev1.DeprecatedAppArmorBetaProfileNameUnconfined &&
				!strings.HasPrefix(value, corev1.DeprecatedAppArmorBetaProfileNamePrefix) {
				errs = append(errs, field.Invalid(at.Key(name), value, fmt.Sprintf("invalid AppArmor profile name: %q", value)))
			}
		}
	}
	return errs
}

// checkSeccompName checks the name of a seccomp profile in an annotation with a name.
func checkSeccompName(at *field.Path, name, value string) field.ErrorList {
	switch value {
	case corev1.SeccompProfileRuntimeDefault, corev1.DeprecatedSeccompProfileDockerDefault, corev1.SeccompProfileNameUnconfined:
		return nil
	}
	file, is := strings.CutPrefix(value, localhost)
	if !is {
		return field.ErrorList{field.Invalid(at.Child(name), value, "must be a valid seccomp profile")}
	}
	return check.DescendingPath(at, name, file)
}

var errCost = errors.New("it is not a number as the deletion cost has it")

// deletionCost reads the annotation by which a ReplicaSet chooses pods to delete.
func deletionCost(annotations map[string]string) error {
	value, has := annotations[corev1.PodDeletionCost]
	if !has {
		return nil
	}
	if _, err := strconv.ParseInt(value, 10, 32); err != nil || value != "0" && (value[0] == '0' || value[0] == '+') {
		return errCost
	}
	return nil
}

// DeletionCost checks the deletion cost of a pod, unless that was not a number before.
func DeletionCost(annotations, old map[string]string) field.ErrorList {
	if deletionCost(annotations) == nil || deletionCost(old) != nil {
		return nil
	}
	return field.ErrorList{
		field.Invalid(AnnotationsPath().Key(corev1.PodDeletionCost), annotations[corev1.PodDeletionCost],
			"must be a 32bit integer"),
	}
}

// AnnotationsPath is where the annotations of an object are.
func AnnotationsPath() *field.Path { return field.NewPath("metadata", "annotations") }

// placed is a security context and where it is.
type placed struct {
	name    string // of the container
	at      *field.Path
	context *corev1.SecurityContext
}

// containersOf returns the containers of a pod, of all three lists.
func containersOf(spec *corev1.PodSpec) []placed {
	var all []placed
	for i, c := range spec.InitContainers {
		all = append(all, placed{c.Name, check.Spec("initContainers").Index(i), c.SecurityContext})
	}
	for i, c := range spec.Containers {
		all = append(all, placed{c.Name, check.Spec("containers").Index(i), c.SecurityContext})
	}
	for i, c := range spec.EphemeralContainers {
		all = append(all, placed{c.Name, check.Spec("ephemeralContainers").Index(i), c.SecurityContext})
	}
	return all
}

// Profiles checks that the annotations of a new pod say what its fields say.
func Profiles(o *corev1.Pod) field.ErrorList {
	if len(o.Annotations) == 0 {
		return nil
	}
	var errs field.ErrorList
	var all *corev1.AppArmorProfile // of containers without one
	if context := o.Spec.SecurityContext; context != nil {
		all = context.AppArmorProfile
		if value, has := o.Annotations[corev1.SeccompPodAnnotationKey]; has && context.SeccompProfile != nil {
			errs = append(errs,
				checkSeccompMatch(check.Spec("securityContext", "seccompProfile"), value, context.SeccompProfile)...)
		}
	}
	for _, c := range containersOf(&o.Spec) {
		armor := all
		if namesProfile(o.Annotations[appArmorPrefix+c.name]) {
			armor = nil // upstream gives the container that profile, whatever the pod's is
		}
		if c.context != nil {
			if value, has := o.Annotations[seccompPrefix+c.name]; has && c.context.SeccompProfile != nil {
				errs = append(errs,
					checkSeccompMatch(c.at.Child("securityContext", "seccompProfile"), value, c.context.SeccompProfile)...)
			}
			if c.context.AppArmorProfile != nil {
				armor = c.context.AppArmorProfile
			}
		}
		windows := o.Spec.OS != nil && o.Spec.OS.Name == corev1.Windows
		if value, has := o.Annotations[appArmorPrefix+c.name]; has && armor != nil && !windows {
			errs = append(errs, checkArmorMatch(c.at.Child("securityContext", "appArmorProfile"), value, armor)...)
		}
	}
	return errs
}

// namesProfile reports whether an annotation names an AppArmor profile.
func namesProfile(value string) bool {
	file, is := strings.CutPrefix(value, corev1.DeprecatedAppArmorBetaProfileNamePrefix)
	return value == corev1.DeprecatedAppArmorBetaProfileRuntimeDefault ||
		value == corev1.DeprecatedAppArmorBetaProfileNameUnconfined || is && file != ""
}

func checkSeccompMatch(at *field.Path, value string, p *corev1.SeccompProfile) field.ErrorList {
	var match bool
	switch p.Type {
	case corev1.SeccompProfileTypeUnconfined:
		match = value == corev1.SeccompProfileNameUnconfined
	case corev1.SeccompProfileTypeRuntimeDefault:
		match = value == corev1.SeccompProfileRuntimeDefault || value == corev1.DeprecatedSeccompProfileDockerDefault
	case corev1.SeccompProfileTypeLocalhost:
		file, is := strings.CutPrefix(value, localhost)
		if is && (p.LocalhostProfile == nil || file != *p.LocalhostProfile) {
			return field.ErrorList{
				field.Forbidden(at.Child("localhostProfile"), "seccomp profile in annotation and field must match"),
			}
		}
		match = is
	default: // the rules of the field refuse it
		return nil
	}
	if match {
		return nil
	}
	return field.ErrorList{field.Forbidden(at.Child("type"), "seccomp type in annotation and field must match")}
}

func checkArmorMatch(at *field.Path, value string, p *corev1.AppArmorProfile) field.ErrorList {
	var match bool
	switch p.Type {
	case corev1.AppArmorProfileTypeUnconfined:
		match = value == corev1.DeprecatedAppArmorBetaProfileNameUnconfined
	case corev1.AppArmorProfileTypeRuntimeDefault:
		match = value == corev1.DeprecatedAppArmorBetaProfileRuntimeDefault
	case corev1.AppArmorProfileTypeLocalhost:
		file, is := strings.CutPrefix(value, corev1.DeprecatedAppArmorBetaProfileNamePrefix)
		if is && (p.LocalhostProfile == nil || file != *p.LocalhostProfile) {
			return field.ErrorList{
				field.Forbidden(at.Child("localhostProfile"), "apparmor profile in annotation and field must match"),
			}
		}
		match = is
	default: // the rules of the field refuse it
		return nil
	}
	if match {
		return nil
	}
	return field.ErrorList{field.Forbidden(at.Child("type"), "apparmor type in annotation and field must match")}
}

// AnnotationUpdate checks the annotations of a pod that was there before: those that a
// kubelet has acted on stay.
func AnnotationUpdate(o, old *corev1.Pod) field.ErrorList {
	at := AnnotationsPath()
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(old.Annotations)) {
		if now, has := o.Annotations[name]; has && now == old.Annotations[name] {
			continue
		}
		if strings.HasPrefix(name, appArmorPrefix) {
			errs = append(errs, field.Forbidden(at.Key(name), "may not remove or update AppArmor annotations"))
		}
		if name == corev1.MirrorPodAnnotationKey {
			errs = append(errs, field.Forbidden(at.Key(name), "may not remove or update mirror pod annotation"))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Annotations)) {
		if _, had := old.Annotations[name]; had {
			continue
		}
		if strings.HasPrefix(name, appArmorPrefix) {
			errs = append(errs, field.Forbidden(at.Key(name), "may not add AppArmor annotations"))
		}
		if name == corev1.MirrorPodAnnotationKey {
			errs = append(errs, field.Forbidden(at.Key(name), "may not add mirror pod annotation"))
		}
	}
	return append(errs, DeletionCost(o.Annotations, old.Annotations)...)
}
