package openapi

import (
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// specialType returns the schema of the types whose JSON is not what their Go
// fields say.
func (d dialect) specialType(t reflect.Type) (object, bool) {
	if d == version2 {
		switch t {
		case reflect.TypeFor[intstr.IntOrString]():
			return object{"type": "string", "format": "int-or-string"}, true
		case reflect.TypeFor[resource.Quantity]():
			return object{"type": "string"}, true
		}
	}
	if d == merging && t == reflect.TypeFor[runtime.RawExtension]() {
		return object{"type": "object", "x-kubernetes-map-type": "atomic"}, true
	}
	switch t {
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		return object{"type": "string", "format": "date-time"}, true
	case reflect.TypeFor[metav1.Duration]():
		return object{"type": "string"}, true
	case reflect.TypeFor[intstr.IntOrString]():
		return object{"oneOf": []object{{"type": "integer"}, {"type": "string"}}, "format": "int-or-string"}, true
	case reflect.TypeFor[resource.Quantity]():
		return object{"oneOf": []object{{"type": "string"}, {"type": "number"}}}, true
	case reflect.TypeFor[runtime.RawExtension](), reflect.TypeFor[metav1.FieldsV1]():
		return object{"type": "object"}, true
	case reflect.TypeFor[apiextensionsv1.JSON](), reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrArray](),
		reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrBool](), reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrStringArray]():
		return object{}, true
	}
	return nil, false
}

// documented is implemented by the generated types of Kubernetes: the docs of their fields.
type documented interface {
	SwaggerDoc() map[string]string
}

// docsOf returns the descriptions of a type ("") and its fields.
func docsOf(t reflect.Type) map[string]string {
	if d, ok := reflect.TypeAssert[documented](reflect.Zero(t)); ok {
		return d.SwaggerDoc()
	}
	return nil
}

// definitionName turns a Go type into the name that upstream's documents use:
// k8s.io/api/core/v1.Pod is io.k8s.api.core.v1.Pod.
func definitionName(t reflect.Type) string {
	host, path, _ := strings.Cut(t.PkgPath(), "/")
	return reverse(host) + "." + strings.ReplaceAll(path, "/", ".") + "." + t.Name()
}

// reverse turns "k8s.io" into "io.k8s".
func reverse(domain string) string {
	parts := strings.Split(domain, ".")
	slices.Reverse(parts)
	return strings.Join(parts, ".")
}
