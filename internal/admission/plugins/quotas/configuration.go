package quotas

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// configuration is upstream's kind ResourceQuotaConfiguration, and Configuration as its first versions call it
// (apiserver pkg/admission/plugin/resourcequota/apis/resourcequota).
type configuration struct {
	APIVersion       string            `json:"apiVersion"`
	Kind             string            `json:"kind"`
	LimitedResources []limitedResource `json:"limitedResources"`
}

type limitedResource struct {
	APIGroup      string                                     `json:"apiGroup"`
	Resource      string                                     `json:"resource"`
	MatchContains []string                                   `json:"matchContains"`
	MatchScopes   []corev1.ScopedResourceSelectorRequirement `json:"matchScopes"`
}

// readConfiguration reads a configuration; nil is none.
func readConfiguration(text []byte) (limits, error) {
	if text == nil {
		return nil, nil
	}
	var c configuration
	if err := yaml.UnmarshalStrict(text, &c); err != nil {
		return nil, err
	}
	switch c.APIVersion + " " + c.Kind {
	case "apiserver.config.k8s.io/v1 ResourceQuotaConfiguration",
		"resourcequota.admission.k8s.io/v1beta1 Configuration", "resourcequota.admission.k8s.io/v1alpha1 Configuration":
	default:
		return nil, fmt.Errorf("apiVersion %q and kind %q: want apiserver.config.k8s.io/v1 and ResourceQuotaConfiguration",
			c.APIVersion, c.Kind)
	}
	var l limits
	for i, one := range c.LimitedResources {
		if one.Resource == "" {
			return nil, fmt.Errorf("limitedResources[%d].resource: name the resource that is limited, such as %q", i, "pods")
		}
		l = append(l, limit{resourceName{one.APIGroup, one.Resource}, one.MatchContains, one.MatchScopes})
	}
	return l, nil
}
