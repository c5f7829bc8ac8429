package plugins

import (
	"fmt"
	"slices"
	"strings"
)

// ordered are the names of kube-apiserver's plugins, in the order in which it asks them
// (pkg/kubeapiserver/options/plugins.go of Kubernetes 1.37).
var ordered = []string{ //nolint:gochecknoglobals // a constant table
	"AlwaysAdmit", "NamespaceAutoProvision", "NamespaceLifecycle", "NamespaceExists",
	"LimitPodHardAntiAffinityTopology", "LimitRanger", "ServiceAccount", "NodeRestriction", "TaintNodesByCondition",
	"AlwaysPullImages", "ImagePolicyWebhook", "PodSecurity", "PodNodeSelector", "Priority", "DefaultTolerationSeconds",
	"PodTolerationRestriction", "EventRateLimit", "ExtendedResourceToleration", "DefaultStorageClass",
	"StorageObjectInUseProtection", "PodGroupProtection", "OwnerReferencesPermissionEnforcement",
	"PersistentVolumeClaimResize", "RuntimeClass", "CertificateApproval", "CertificateSigning",
	"ClusterTrustBundleAttest", "CertificateSubjectRestriction", "DefaultIngressClass", "DenyServiceExternalIPs",
	"PodTopologyLabels", "NodeDeclaredFeatureValidator", "PodResizeValidator", "MutatingAdmissionPolicy",
	"MutatingAdmissionWebhook", "ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook", "ResourceQuota",
	"AlwaysDeny",
}

// off are those that kube-apiserver does not ask by default.
var off = []string{ //nolint:gochecknoglobals // a constant table
	"AlwaysAdmit", "NamespaceAutoProvision", "NamespaceExists", "LimitPodHardAntiAffinityTopology", "NodeRestriction",
	"AlwaysPullImages", "ImagePolicyWebhook", "PodNodeSelector", "PodTolerationRestriction", "EventRateLimit",
	"ExtendedResourceToleration", "OwnerReferencesPermissionEnforcement", "DenyServiceExternalIPs", "AlwaysDeny",
}

// lasting are those that this server always asks, and that are no [Plugin].
var lasting = []string{ //nolint:gochecknoglobals // a constant table
	"NamespaceLifecycle", "MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy",
	"ValidatingAdmissionWebhook",
}

// IsKnown reports whether kube-apiserver has a plugin of this name.
func IsKnown(name string) bool { return slices.Contains(ordered, name) }

// IsDefault reports whether kube-apiserver asks a plugin by default.
func IsDefault(name string) bool { return IsKnown(name) && !slices.Contains(off, name) }

// IsLasting reports whether this server always asks a plugin.
func IsLasting(name string) bool { return slices.Contains(lasting, name) }

// Chosen returns those of all plugins that are asked, in upstream's order: its defaults, those that enable names, and
// not those that disable names. Errors: a name that is none, that of a plugin which this server has not or cannot turn
// off, one that is in both lists.
func Chosen(all []Plugin, enable, disable []string) ([]Plugin, error) {
	of := map[string]Plugin{}
	for _, p := range all {
		of[p.Name] = p
	}
	for flag, names := range map[string][]string{"enable-admission-plugins": enable, "disable-admission-plugins": disable} {
		for _, name := range names {
			if !IsKnown(name) {
				return nil, fmt.Errorf("%s plugin %q is unknown", flag, name) // upstream's text
			}
		}
	}
	for _, name := range enable {
		_, has := of[name]
		switch {
		case slices.Contains(disable, name): // upstream's text
			return nil, fmt.Errorf("[%s] in enable-admission-plugins and disable-admission-plugins overlapped", name)
		case !has && !IsLasting(name):
			return nil, fmt.Errorf("enable-admission-plugins: this server has no plugin %s; it has %s, and always %s",
				name, strings.Join(Names(all), ", "), strings.Join(lasting, ", "))
		}
	}
	if i := slices.IndexFunc(disable, IsLasting); i >= 0 {
		return nil, fmt.Errorf("disable-admission-plugins: this server always asks %s", disable[i])
	}
	var on []Plugin
	for _, name := range Names(all) {
		if slices.Contains(enable, name) || IsDefault(name) && !slices.Contains(disable, name) {
			on = append(on, of[name])
		}
	}
	return on, nil
}

// Names returns the names of plugins in upstream's order.
func Names(all []Plugin) []string {
	return slices.DeleteFunc(slices.Clone(ordered), func(name string) bool {
		return !slices.ContainsFunc(all, func(p Plugin) bool { return p.Name == name })
	})
}
