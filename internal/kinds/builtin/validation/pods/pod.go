// Package pods has the rules for pods, and for the pod templates of other kinds.
//
// A rule ([Pod], [Template]) returns the errors of an object or a part of one. An update rule
// ([PodUpdate]) returns the errors of a change.
package pods

import (
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin/validation/check"
)

// NewPod validates a new Pod: it must not have what only a subresource may add.
func NewPod(o *corev1.Pod) field.ErrorList {
	errs := append(checkDeletionCost(o.Annotations, nil), checkProfiles(o)...)
	if len(o.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(check.Spec("ephemeralContainers"), "cannot be set on create"))
	}
	return errs
}

// Pod validates a Pod.
func Pod(o *corev1.Pod) field.ErrorList {
	at := check.Spec()
	errs := checkAnnotations(annotationsPath(), o.Annotations, &o.Spec)
	errs = append(errs, checkPodSpec(at, &o.Spec)...)
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

// PodTemplate validates a PodTemplate.
func PodTemplate(o *corev1.PodTemplate) field.ErrorList {
	return Template(field.NewPath("template"), &o.Template)
}

// Template checks the pod template of a workload.
func Template(at *field.Path, template *corev1.PodTemplateSpec) field.ErrorList {
	// Upstream leaves "metadata" out of these paths.
	errs := metavalidation.ValidateLabels(template.Labels, at.Child("labels"))
	errs = append(errs, apivalidation.ValidateAnnotations(template.Annotations, at.Child("annotations"))...)
	errs = append(errs, checkAnnotations(at.Child("annotations"), template.Annotations, &template.Spec)...)
	errs = append(errs, checkPodSpec(at.Child("spec"), &template.Spec)...)
	if len(template.Spec.EphemeralContainers) > 0 {
		errs = append(errs,
			field.Forbidden(at.Child("spec", "ephemeralContainers"), "ephemeral containers not allowed in pod template"))
	}
	return errs
}

// RunningTemplate checks the pod template of a workload whose pods always run; kind
// is its name in an error.
func RunningTemplate(at *field.Path, template *corev1.PodTemplateSpec, kind string) field.ErrorList {
	errs := Template(at, template)
	errs = append(errs,
		check.Known(at.Child("spec"), "restartPolicy", template.Spec.RestartPolicy, corev1.RestartPolicyAlways)...)
	if template.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs,
			field.Forbidden(at.Child("spec", "activeDeadlineSeconds"), "activeDeadlineSeconds in "+kind+" is not Supported"))
	}
	return errs
}

func checkPodSpec(at *field.Path, spec *corev1.PodSpec) field.ErrorList {
	volumes, errs := checkPodVolumes(at.Child("volumes"), spec.Volumes)
	errs = append(errs, checkContainers(at, spec, volumes)...)
	errs = append(errs, check.OneOf(at, "restartPolicy", spec.RestartPolicy,
		corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)...)
	errs = append(errs, checkDNS(at, spec)...)
	errs = append(errs, checkPodNames(at, spec)...)
	errs = append(errs, checkPodSecurity(at.Child("securityContext"), spec.SecurityContext)...)
	errs = append(errs, checkScheduling(at, spec)...)
	if d := spec.ActiveDeadlineSeconds; d != nil && (*d < 1 || *d > math.MaxInt32) {
		errs = append(errs,
			field.Invalid(at.Child("activeDeadlineSeconds"), *d, validation.InclusiveRangeError(1, math.MaxInt32)))
	}
	if share := spec.ShareProcessNamespace; share != nil && *share && spec.HostPID {
		errs = append(errs,
			field.Invalid(at.Child("shareProcessNamespace"), true, "ShareProcessNamespace and HostPID cannot both be enabled"))
	}
	for i, gate := range spec.ReadinessGates {
		errs = append(errs, check.Invalid(at.Child("readinessGates").Index(i).Child("conditionType"), gate.ConditionType,
			validation.IsQualifiedName(string(gate.ConditionType)))...)
	}
	if len(spec.Overhead) > 0 {
		// Upstream checks it as the limits of a container.
		errs = append(errs, checkAmounts(at.Child("overhead", "limits"), spec.Overhead)...)
	}
	if spec.Resources != nil {
		errs = append(errs, checkResources(at.Child("resources"), spec.Resources)...)
	}
	switch system := spec.OS; {
	case system == nil:
	case system.Name == "":
		errs = append(errs, field.Required(at.Child("os", "name"), ""))
	default:
		errs = append(errs, check.Known(at, "os", system.Name, corev1.Linux, corev1.Windows)...)
	}
	return errs
}

// checkPodNames checks the names of a pod's host, and of the objects it refers to.
func checkPodNames(at *field.Path, spec *corev1.PodSpec) field.ErrorList {
	var errs field.ErrorList
	for _, n := range []struct {
		field, value string
		rule         func(string) []string
	}{
		{"serviceAccountName", spec.ServiceAccountName, kinds.SubdomainName},
		{"nodeName", spec.NodeName, kinds.SubdomainName},
		{"hostname", spec.Hostname, kinds.LabelName},
		{"subdomain", spec.Subdomain, kinds.LabelName},
		{"priorityClassName", spec.PriorityClassName, kinds.SubdomainName},
	} {
		if n.value != "" {
			errs = append(errs, check.Invalid(at.Child(n.field), n.value, n.rule(n.value))...)
		}
	}
	if name := spec.RuntimeClassName; name != nil {
		errs = append(errs, check.Invalid(at.Child("runtimeClassName"), *name, kinds.SubdomainName(*name))...)
	}
	for i, alias := range spec.HostAliases {
		p := at.Child("hostAliases").Index(i)
		errs = append(errs, check.IP(p.Child("ip"), alias.IP, nil)...)
		for j, host := range alias.Hostnames {
			errs = append(errs, check.Invalid(p.Child("hostnames").Index(j), host, kinds.SubdomainName(host))...)
		}
	}
	return errs
}

// Limits of the resolver (kubernetes pkg/apis/core/validation, MaxDNSNameservers and
// the following).
const (
	maxNameservers = 3
	maxSearches    = 32
	maxSearchBytes = 2048
)

// checkDNS checks how a pod resolves names.
func checkDNS(spec *field.Path, pod *corev1.PodSpec) field.ErrorList {
	errs := check.OneOf(spec, "dnsPolicy", pod.DNSPolicy,
		corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone)
	config := pod.DNSConfig
	if config == nil && pod.DNSPolicy != corev1.DNSNone {
		return errs
	}
	at := spec.Child("dnsConfig")
	if pod.DNSPolicy == corev1.DNSNone {
		switch {
		case config == nil:
			return append(errs, field.Required(at, "must provide `dnsConfig` when `dnsPolicy` is None"))
		case len(config.Nameservers) == 0:
			return append(errs,
				field.Required(at.Child("nameservers"), "must provide at least one DNS nameserver when `dnsPolicy` is None"))
		}
	}
	if len(config.Nameservers) > maxNameservers {
		errs = append(errs, field.Invalid(at.Child("nameservers"), config.Nameservers, "must not have more than 3 nameservers"))
	}
	for i, server := range config.Nameservers {
		errs = append(errs, check.IP(at.Child("nameservers").Index(i), server, nil)...)
	}
	errs = append(errs, checkSearches(at.Child("searches"), config.Searches)...)
	for i, option := range config.Options {
		if option.Name == "" {
			errs = append(errs, field.Required(at.Child("options").Index(i), "must not be empty"))
		}
	}
	return errs
}

func checkSearches(at *field.Path, searches []string) field.ErrorList {
	var errs field.ErrorList
	if len(searches) > maxSearches {
		errs = append(errs, field.Invalid(at, searches, "must not have more than 32 search paths"))
	}
	if len(strings.Join(searches, " ")) > maxSearchBytes {
		errs = append(errs,
			field.Invalid(at, searches, "must not have more than 2048 characters (including spaces) in the search list"))
	}
	for i, search := range searches {
		if search == "." {
			continue // the root
		}
		search = strings.TrimSuffix(search, ".")
		errs = append(errs, check.Invalid(at.Index(i), search, validation.IsDNS1123SubdomainWithUnderscore(search))...)
	}
	return errs
}

// PodUpdate validates the change of a Pod: as upstream, only a few fields of its spec may
// change.
func PodUpdate(o, old *corev1.Pod) field.ErrorList {
	return append(checkAnnotationUpdate(o, old), checkSpecUpdate(o, old)...)
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
