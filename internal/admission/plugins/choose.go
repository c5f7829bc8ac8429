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

// lasting are those that this server always has.
var lasting = []string{ //nolint:gochecknoglobals // a constant table
	"NamespaceLifecycle", "CertificateApproval", "CertificateSigning", "CertificateSubjectRestriction",
	"MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook",
}

// Enabled returns those of all plugins that are enabled, in upstream's order. Errors: a name that is none, or that of
// one which this server has not.
func Enabled(all []Plugin, enable []string) ([]Plugin, error) {
	of := map[string]Plugin{}
	for _, p := range all {
		of[p.Name] = p
	}
	for _, name := range enable {
		switch _, has := of[name]; {
		case !slices.Contains(ordered, name):
			return nil, fmt.Errorf("enable-admission-plugins plugin %q is unknown", name) // upstream's text
		case !has && !slices.Contains(lasting, name):
			return nil, fmt.Errorf("enable-admission-plugins: this server has no plugin %s; it has %s, and always %s",
				name, strings.Join(Names(all), ", "), strings.Join(lasting, ", "))
		}
	}
	var on []Plugin
	for _, name := range Names(all) {
		if slices.Contains(enable, name) {
			on = append(on, of[name])
		}
	}
	return on, nil
}

// off are those that kube-apiserver does not ask by default.
var off = []string{ //nolint:gochecknoglobals // a constant table
	"AlwaysAdmit", "NamespaceAutoProvision", "NamespaceExists", "LimitPodHardAntiAffinityTopology", "NodeRestriction",
	"AlwaysPullImages", "ImagePolicyWebhook", "PodNodeSelector", "PodTolerationRestriction", "EventRateLimit",
	"ExtendedResourceToleration", "OwnerReferencesPermissionEnforcement", "DenyServiceExternalIPs", "AlwaysDeny",
}

// IsDefault reports whether kube-apiserver asks a plugin by default.
func IsDefault(name string) bool {
	return slices.Contains(ordered, name) && !slices.Contains(off, name)
}

// Names returns the names of plugins in upstream's order.
func Names(all []Plugin) []string {
	return slices.DeleteFunc(slices.Clone(ordered), func(name string) bool {
		return !slices.ContainsFunc(all, func(p Plugin) bool { return p.Name == name })
	})
}
