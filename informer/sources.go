package informer

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Builtin is For of a kind that every Kubernetes has, whose resource is known by T:
//
//	pods := informer.New(informer.Builtin[*corev1.Pod](cfg))
//
// T must be of a package of k8s.io/api, whose name says the group and the version;
// for any other type, Run returns an error.
func Builtin[T Object](cfg *rest.Config, opts ...SourceOption) Source[T] {
	gvr, err := resourceOf(reflect.TypeFor[T]())
	if err != nil {
		return Source[T]{name: reflect.TypeFor[T]().String(), err: err}
	}
	return For[T](cfg, gvr, opts...)
}

// Dynamic is For of objects of which nothing is known but that they are JSON.
func Dynamic(cfg *rest.Config, gvr schema.GroupVersionResource, opts ...SourceOption) Source[*unstructured.Unstructured] {
	return For[*unstructured.Unstructured](cfg, gvr, opts...)
}

// Metadata is a source of the metadata of objects. The server is asked to send nothing
// else, whatever the resource, and one that sends whole objects is refused: that is an
// incident (Undecodable), and the informer does not sync. (For that type takes what
// comes and drops the rest.) Objects are of the kind PartialObjectMetadata.
func Metadata(cfg *rest.Config, gvr schema.GroupVersionResource, opts ...SourceOption) Source[*metav1.PartialObjectMetadata] {
	opts = append(slices.Clone(opts), func(o *sourceOptions) { o.metadata = true })
	s := For[*metav1.PartialObjectMetadata](cfg, gvr, opts...)
	decode := s.decode
	s.decode = func(object []byte) (*metav1.PartialObjectMetadata, error) {
		o, err := decode(object)
		if err == nil && o.Kind == "" { // protobuf does not say it of an item of a list
			o.TypeMeta = metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: metav1.SchemeGroupVersion.String()}
		}
		return o, err
	}
	return s
}

// builtin is where the packages of the built-in kinds are.
const builtin = "k8s.io/api/"

// groupOf is the API group of k8s.io/api/name, as that package's GroupName says it:
// most are name itself, or name in the domain of Kubernetes.
func groupOf(name string) string {
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

// resourceOf is the resource of a built-in kind.
func resourceOf(t reflect.Type) (schema.GroupVersionResource, error) {
	var none schema.GroupVersionResource
	if t.Kind() != reflect.Pointer {
		return none, fmt.Errorf("%s is no pointer to a built-in kind", t)
	}
	group, version, is := strings.Cut(strings.TrimPrefix(t.Elem().PkgPath(), builtin), "/")
	if !is || !strings.HasPrefix(t.Elem().PkgPath(), builtin) || strings.Contains(version, "/") {
		return none, fmt.Errorf("%s is no built-in kind: its resource must be named", t)
	}
	kind := schema.GroupVersionKind{Group: groupOf(group), Version: version, Kind: t.Elem().Name()}
	plural, _ := meta.UnsafeGuessKindToResource(kind) // right for all of them; see the test
	return plural, nil
}
