package core

import (
	"crypto/tls"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/warn"
)

// warnNode warns about a Node.
func warnNode(o, _ *corev1.Node) []string {
	var l warn.List
	if o.Spec.ConfigSource != nil { //nolint:staticcheck // that it is deprecated is the warning
		l.Say("spec.configSource: the feature is removed")
	}
	if o.Spec.DoNotUseExternalID != "" {
		l.Say("spec.externalID: this field is deprecated, and is unused by Kubernetes")
	}
	for i, block := range o.Spec.PodCIDRs {
		l.CIDR(func() *field.Path { return field.NewPath("spec", "podCIDRs").Index(i) }, block)
	}
	return l.Texts()
}

// warnSecret warns about a Secret with a key and a certificate that do not fit.
func warnSecret(o, _ *corev1.Secret) []string {
	if o.Type != corev1.SecretTypeTLS {
		return nil
	}
	if _, err := tls.X509KeyPair(o.Data[corev1.TLSCertKey], o.Data[corev1.TLSPrivateKeyKey]); err != nil {
		return []string{err.Error()}
	}
	return nil
}

// warnServiceAccount warns about an old annotation that a ServiceAccount did not have before.
func warnServiceAccount(o, old *corev1.ServiceAccount) []string {
	const enforce = "kubernetes.io/enforce-mountable-secrets"
	var l warn.List
	if old != nil {
		if _, had := old.Annotations[enforce]; had {
			return nil
		}
	}
	l.Annotation(
		nil,
		o.Annotations,
		enforce,
		"deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets",
	)
	return l.Texts()
}

// warnResourceQuota warns about a new ResourceQuota whose requests are above its limits.
func warnResourceQuota(o, old *corev1.ResourceQuota) []string {
	if old != nil {
		return nil
	}
	var l warn.List
	for _, name := range []corev1.ResourceName{
		corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceStorage, corev1.ResourceEphemeralStorage,
	} {
		of, limited := "requests."+name, "limits."+name
		request, has := o.Spec.Hard[of]
		if !has && (name == corev1.ResourceCPU || name == corev1.ResourceMemory) {
			of = name
			request, has = o.Spec.Hard[of]
		}
		if limit, is := o.Spec.Hard[limited]; has && is && request.Cmp(limit) > 0 {
			l.Say("ResourceQuota %s (%s) should be less than %s (%s)", of, request.String(), limited, limit.String())
		}
	}
	return l.Texts()
}
