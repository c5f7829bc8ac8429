// Package podrules has the rules for what pods are to be: for the spec of a pod, and for the pod templates of
// workloads. The groups core, apps, batch, node and resource share them. As all rules of built-in kinds they are a
// selection of upstream's (pkg/apis/core/validation of Kubernetes 1.37), with its texts: common mistakes,
// and what a controller cannot handle.
package podrules

import (
	"fmt"
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/check"
)

// Template checks the pod template of a workload.
func Template(at *field.Path, template *corev1.PodTemplateSpec) field.ErrorList {
	// Upstream leaves "metadata" out of these paths.
	errs := metavalidation.ValidateLabels(template.Labels, at.Child("labels"))
	errs = append(errs, apivalidation.ValidateAnnotations(template.Annotations, at.Child("annotations"))...)
	errs = append(errs, Annotations(at.Child("annotations"), template.Annotations, &template.Spec)...)
	errs = append(errs, Spec(at.Child("spec"), &template.Spec)...)
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

// Spec checks what a pod, or a template of pods, is to be.
func Spec(at *field.Path, spec *corev1.PodSpec) field.ErrorList {
	volumes, errs := checkPodVolumes(at.Child("volumes"), spec.Volumes)
	errs = append(errs, checkContainers(at, spec, volumes)...)
	errs = append(errs, check.OneOf(at, "restartPolicy", spec.RestartPolicy,
		corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)...)
	errs = append(errs, checkDNS(at, spec)...)
	errs = append(errs, checkPodNames(at, spec)...)
	errs = append(errs, checkPodSecurity(at.Child("securityContext"), spec.SecurityContext)...)
	errs = append(errs, checkHost(at, spec)...)
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
		errs = append(errs, checkWhole(at.Child("resources"), spec)...)
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

// checkHost checks what a pod with users of its own has of its host, and what a Windows pod needs of it.
func checkHost(at *field.Path, spec *corev1.PodSpec) field.ErrorList {
	var errs field.ErrorList
	if spec.HostUsers != nil && !*spec.HostUsers {
		for _, p := range []struct {
			name string // upstream's, which begin with capital letters
			has  bool
		}{{"hostNetwork", spec.HostNetwork}, {"HostPID", spec.HostPID}, {"HostIPC", spec.HostIPC}} {
			if p.has {
				errs = append(errs, field.Forbidden(at.Child(p.name), "when `hostUsers` is false"))
			}
		}
	}
	var whole *bool
	if c := spec.SecurityContext; c != nil && c.WindowsOptions != nil {
		whole = c.WindowsOptions.HostProcess
	}
	all := containersOf(spec)
	inHost := 0
	for _, c := range all {
		var own *bool
		if c.context != nil && c.context.WindowsOptions != nil {
			own = c.context.WindowsOptions.HostProcess
		}
		if c.context != nil && c.context.ProcMount != nil && *c.context.ProcMount == corev1.UnmaskedProcMount &&
			(spec.HostUsers == nil || *spec.HostUsers) {
			errs = append(errs, field.Invalid(c.at.Child("securityContext", "procMount"), *c.context.ProcMount,
				"`hostUsers` must be false to use `Unmasked`"))
		}
		if whole != nil && own != nil && *whole != *own {
			errs = append(errs, field.Invalid(c.at.Child("securityContext", "windowsOptions", "hostProcess"), *own,
				fmt.Sprintf("pod hostProcess value must be identical if both are specified, was %v", *whole)))
		}
		if isTrue(own) || own == nil && isTrue(whole) {
			inHost++
		}
	}
	if inHost == 0 {
		return errs
	}
	if inHost != len(all) {
		errs = append(errs, field.Invalid(at, "",
			"If pod contains any hostProcess containers then all containers must be HostProcess containers"))
	}
	if !spec.HostNetwork {
		errs = append(errs, field.Invalid(at.Child("hostNetwork"), false,
			"hostNetwork must be true if pod contains any hostProcess containers"))
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
