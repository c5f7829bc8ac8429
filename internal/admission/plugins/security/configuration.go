package security

import (
	"fmt"

	admissionapi "k8s.io/pod-security-admission/admission/api"
	"k8s.io/pod-security-admission/admission/api/load"
	"k8s.io/pod-security-admission/admission/api/validation"
	"k8s.io/pod-security-admission/api"

	"github.com/gapless-io/gapless/internal/admission/plugins"
)

// configuration is a PodSecurityConfiguration.
type configuration struct {
	defaults                                      api.Policy // for what the labels of a namespace do not say
	exemptNamespaces, exemptUsers, exemptRuntimes map[string]bool
}

// configured reads a PodSecurityConfiguration of any version, in YAML or JSON; nil is that of upstream.
func configured(config []byte) (configuration, error) {
	sent, err := load.LoadFromData(config)
	if err != nil {
		return configuration{}, fmt.Errorf("read the configuration of %s: %w", Name, err)
	}
	if errs := validation.ValidatePodSecurityConfiguration(sent); len(errs) > 0 {
		return configuration{}, fmt.Errorf("configuration of %s: %w", Name, errs.ToAggregate())
	}
	defaults, err := admissionapi.ToPolicy(sent.Defaults)
	if err != nil {
		return configuration{}, fmt.Errorf("configuration of %s: defaults: %w", Name, err)
	}
	return configuration{
		defaults: defaults, exemptNamespaces: set(sent.Exemptions.Namespaces), exemptUsers: set(sent.Exemptions.Usernames),
		exemptRuntimes: set(sent.Exemptions.RuntimeClasses),
	}, nil
}

func set(names []string) map[string]bool {
	all := make(map[string]bool, len(names))
	for _, name := range names {
		all[name] = true
	}
	return all
}

// exempts reports whether the namespace or the user of a write is exempt.
func (p *plugin) exempts(w *plugins.Write, said *verdict) bool {
	switch {
	case p.exemptNamespaces[w.GetNamespace()]:
		said.note(api.ExemptionReasonAnnotationKey, "namespace")
	case w.GetUserInfo() != nil && p.exemptUsers[w.GetUserInfo().GetName()]:
		said.note(api.ExemptionReasonAnnotationKey, "user")
	default:
		return false
	}
	p.metrics.exempted(w)
	return true
}

// exemptsRuntime reports whether the RuntimeClass of a pod is exempt.
func (p *plugin) exemptsRuntime(w *plugins.Write, s *subject, said *verdict) bool {
	if s.spec.RuntimeClassName == nil || !p.exemptRuntimes[*s.spec.RuntimeClassName] {
		return false
	}
	said.note(api.ExemptionReasonAnnotationKey, "runtimeClass")
	p.metrics.exempted(w)
	return true
}
