package informer

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// builtinPackages is the path of the packages of the built-in kinds.
const builtinPackages = "k8s.io/api/"

// builtinGroup returns the API group of k8s.io/api/name, as that package's GroupName says it:
// most are name itself, or name in the domain of Kubernetes.
func builtinGroup(name string) string {
	switch name {
	case "core":
		return ""
	case "apps", "autoscaling", "batch", "extensions", "policy":
		return name
	case "apiserverinternal":
		return "internal.apiserver.k8s.io"
	case "flowcontrol":
		return "flowcontrol.apiserver.k8s.io"
	case "rbac":
		return "rbac.authorization.k8s.io"
	}
	return name + ".k8s.io"
}

// builtinResource returns the resource of a built-in kind, of which t is a pointer.
func builtinResource(t reflect.Type) (schema.GroupVersionResource, error) {
	var none schema.GroupVersionResource
	if t.Kind() != reflect.Pointer {
		return none, fmt.Errorf("%s is not a pointer to a built-in kind", t)
	}
	group, version, is := strings.Cut(strings.TrimPrefix(t.Elem().PkgPath(), builtinPackages), "/")
	if !is || !strings.HasPrefix(t.Elem().PkgPath(), builtinPackages) || strings.Contains(version, "/") {
		return none, fmt.Errorf("%s is not a built-in kind: its resource must be named", t)
	}
	kind := schema.GroupVersionKind{Group: builtinGroup(group), Version: version, Kind: t.Elem().Name()}
	plural, _ := meta.UnsafeGuessKindToResource(kind) // right for all of them; see the test
	return plural, nil
}
