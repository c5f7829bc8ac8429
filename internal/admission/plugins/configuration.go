package plugins

import (
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Parse fills in the configuration of a plugin, YAML or JSON of a kind in a version like
// "eventratelimit.admission.k8s.io/v1alpha1". Unknown members are errors.
func Parse(text []byte, version, kind string, into any) error {
	var head metav1.TypeMeta
	if err := yaml.Unmarshal(text, &head); err != nil {
		return err
	}
	if head.APIVersion != version || head.Kind != kind {
		return fmt.Errorf("it is a %s of %q: want a %s of %s", head.Kind, head.APIVersion, kind, version)
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "error unmarshaling JSON: "))
	}
	return nil
}
