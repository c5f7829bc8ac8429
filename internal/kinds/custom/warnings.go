package custom

import (
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	formats "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// DefinitionWarnings returns the warnings about a CustomResourceDefinition that is accepted:
// about formats that nothing checks, and sets of objects or lists; old is nil for a creation.
// What old has of them is not warned about again (apiextensions
// pkg/registry/customresourcedefinition/strategy.go). They are in alphabetic order.
func DefinitionWarnings(crd, old *apiextensionsv1.CustomResourceDefinition) []string {
	unknown, sets := questionable(&crd.Spec)
	if old != nil {
		knownUnknown, knownSets := questionable(&old.Spec)
		unknown = slices.DeleteFunc(unknown, func(w string) bool { return slices.Contains(knownUnknown, w) })
		sets = slices.DeleteFunc(sets, func(w string) bool { return slices.Contains(knownSets, w) })
	}
	return append(unknown, sets...)
}

// questionable returns warnings about the schemas of a definition, each once.
func questionable(crd *apiextensionsv1.CustomResourceDefinitionSpec) (unknown, sets []string) {
	version := environment.DefaultCompatibilityVersion()
	look := func(s *apiextensions.JSONSchemaProps) bool {
		if s.Format != "" {
			one := &spec.Schema{SchemaProps: spec.SchemaProps{Format: s.Format, Type: []string{s.Type}}}
			for _, format := range formats.GetUnrecognizedFormats(one, version) {
				unknown = append(unknown, fmt.Sprintf("unrecognized format %q", format))
			}
		}
		if s.XListType == nil || *s.XListType != "set" || s.Items == nil || s.Items.Schema == nil {
			return false
		}
		if kind := s.Items.Schema.Type; kind == "object" || kind == "array" {
			sets = append(sets,
				fmt.Sprintf(
					"x-kubernetes-list-type: set for items of type %q is not supported by server-side apply or "+
						"CEL validation rules", kind))
		}
		return false // go on
	}
	for i := range crd.Versions {
		if crd.Versions[i].Schema == nil || crd.Versions[i].Schema.OpenAPIV3Schema == nil {
			continue
		}
		props := &apiextensions.JSONSchemaProps{}
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
			crd.Versions[i].Schema.OpenAPIV3Schema, props, nil); err == nil {
			validation.SchemaHas(props, look)
		}
	}
	slices.Sort(unknown)
	slices.Sort(sets)
	return slices.Compact(unknown), slices.Compact(sets)
}
