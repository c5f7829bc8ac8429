package security_test

import (
	"testing"

	"github.com/gapless-io/gapless/internal/admission/plugins/security"
)

// FuzzConfiguration reads configurations: any text is one, or is refused.
func FuzzConfiguration(f *testing.F) {
	const head = "apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\n"
	for _, text := range []string{
		"", "{", head, head + "defaults: {enforce: baseline, enforce-version: v1.30}", head + "exemptions: {usernames: [a, b]}",
		`{"apiVersion":"pod-security.admission.config.k8s.io/v1beta1","kind":"PodSecurityConfiguration","defaults":{"warn":"x"}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := security.PodSecurity(security.LabelledNamespaces(), &cluster{}, text)
		if (err == nil) != (p.Name == security.Name) {
			t.Errorf("%q: the plugin %q, %v", text, p.Name, err)
		}
	})
}
