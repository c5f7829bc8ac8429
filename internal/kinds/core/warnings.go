package warnings

import (
	"crypto/tls"
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Node warns about a Node.
func Node(o, _ *corev1.Node) []string {
	var l list
	if o.Spec.ConfigSource != nil { //nolint:staticcheck // that it is deprecated is the warning
		l.say("spec.configSource: the feature is removed")
	}
	if o.Spec.DoNotUseExternalID != "" {
		l.say("spec.externalID: this field is deprecated, and is unused by Kubernetes")
	}
	for i, block := range o.Spec.PodCIDRs {
		l.cidr(func() *field.Path { return field.NewPath("spec", "podCIDRs").Index(i) }, block)
	}
	return l.texts
}

// Secret warns about a Secret with a key and a certificate that do not fit.
func Secret(o, _ *corev1.Secret) []string {
	if o.Type != corev1.SecretTypeTLS {
		return nil
	}
	if _, err := tls.X509KeyPair(o.Data[corev1.TLSCertKey], o.Data[corev1.TLSPrivateKeyKey]); err != nil {
		return []string{err.Error()}
	}
	return nil
}

// ServiceAccount warns about an old annotation that a ServiceAccount did not have before.
func ServiceAccount(o, old *corev1.ServiceAccount) []string {
	const enforce = "kubernetes.io/enforce-mountable-secrets"
	var l list
	if old != nil {
		if _, had := old.Annotations[enforce]; had {
			return nil
		}
	}
	l.annotation(nil, o.Annotations, enforce, "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets")
	return l.texts
}

// ResourceQuota warns about a new ResourceQuota whose requests are above its limits.
func ResourceQuota(o, old *corev1.ResourceQuota) []string {
	if old != nil {
		return nil
	}
	var l list
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceStorage, corev1.ResourceEphemeralStorage} {
		of, limited := "requests."+name, "limits."+name
		request, has := o.Spec.Hard[of]
		if !has && (name == corev1.ResourceCPU || name == corev1.ResourceMemory) {
			of = name
			request, has = o.Spec.Hard[of]
		}
		if limit, is := o.Spec.Hard[limited]; has && is && request.Cmp(limit) > 0 {
			l.say("ResourceQuota %s (%s) should be less than %s (%s)", of, request.String(), limited, limit.String())
		}
	}
	return l.texts
}

// RuntimeClass warns about a RuntimeClass.
func RuntimeClass(o, _ *nodev1.RuntimeClass) []string {
	var l list
	if o.Scheduling != nil {
		for _, key := range oldKeys(o.Scheduling.NodeSelector) {
			l.at(field.NewPath("scheduling", "nodeSelector"), "%s", oldLabel(key))
		}
	}
	return l.texts
}

// StorageClass warns about a StorageClass.
func StorageClass(o, _ *storagev1.StorageClass) []string {
	var l list
	for i := range o.AllowedTopologies {
		for j, r := range o.AllowedTopologies[i].MatchLabelExpressions {
			if why := oldLabel(r.Key); why != "" {
				l.at(field.NewPath("allowedTopologies").Index(i).Child("matchLabelExpressions").Index(j).Child("key"), "%s", why)
			}
		}
	}
	return l.texts
}

// CSIStorageCapacity warns about a CSIStorageCapacity.
func CSIStorageCapacity(o, _ *storagev1.CSIStorageCapacity) []string {
	var l list
	l.selector(field.NewPath("nodeTopology"), o.NodeTopology)
	return l.texts
}

// CSIDriver warns about a new CSIDriver, or about a change of the tokens that it asks for.
func CSIDriver(o, old *storagev1.CSIDriver) []string {
	tokens := o.Spec.TokenRequests
	if len(tokens) == 0 || o.Spec.ServiceAccountTokenInSecrets != nil ||
		old != nil && equality.Semantic.DeepEqual(old.Spec.TokenRequests, tokens) {
		return nil
	}
	return []string{"spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, " +
		"set to true to prevent possible logging of tokens in volume attributes"}
}

// ResourceSlice warns about a ResourceSlice.
func ResourceSlice(o, _ *resourcev1.ResourceSlice) []string {
	var l list
	if driver := o.Spec.Driver; driver != strings.ToLower(driver) {
		l.say("spec.driver: driver names should be lowercase; %q contains uppercase characters", driver)
	}
	return l.texts
}
