package informer

import (
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/informer/internal/remote"
)

// Builtin is For for a built-in kind of Kubernetes, whose resource follows from T:
//
//	pods := informer.New(informer.Builtin[*corev1.Pod](cfg))
//
// T must be of a package of k8s.io/api, whose name says the group and the version;
// for any other type, Run returns an error.
func Builtin[T Object](cfg *rest.Config, opts ...SourceOption) Source[T] {
	gvr, err := builtinResource(reflect.TypeFor[T]())
	if err != nil {
		return Source[T]{name: reflect.TypeFor[T]().String(), err: err}
	}
	return For[T](cfg, gvr, opts...)
}

// Dynamic is For for objects whose type is not known.
func Dynamic(cfg *rest.Config, gvr schema.GroupVersionResource, opts ...SourceOption) Source[*unstructured.Unstructured] {
	return For[*unstructured.Unstructured](cfg, gvr, opts...)
}

// Decoded is For with a decoder of one's own, for programs that keep objects in another form than
// a struct. decode gets the JSON of one object, with its kind and apiVersion. It must keep none of
// the bytes, and is called concurrently; an error concerns that object only. T may be any pointer.
func Decoded[T Object](cfg *rest.Config, gvr schema.GroupVersionResource, decode func(object []byte) (T, error),
	opts ...SourceOption,
) Source[T] {
	var o sourceOptions
	for _, opt := range opts {
		opt(&o)
	}
	server, err := remote.NewJSON(cfg, o.asked())
	return completed(o, gvr, server, Source[T]{decode: decode, err: err, identity: altered[T](identityOf[T](cfg, gvr, o))})
}

// Metadata is a source of the metadata of objects. The server is asked to send nothing
// else, whatever the resource. If it sends whole objects, that is an incident
// (Undecodable), and the informer does not sync. (For with that type accepts whole
// objects and drops the rest.) The objects have the kind PartialObjectMetadata.
func Metadata(cfg *rest.Config, gvr schema.GroupVersionResource, opts ...SourceOption) Source[*metav1.PartialObjectMetadata] {
	opts = append(slices.Clone(opts), func(o *sourceOptions) { o.metadata = true })
	s := For[*metav1.PartialObjectMetadata](cfg, gvr, opts...)
	decode := s.decode
	s.decode = func(object []byte) (*metav1.PartialObjectMetadata, error) {
		o, err := decode(object)
		if err == nil && o.Kind == "" { // in protobuf, items of a list have none
			o.TypeMeta = metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: metav1.SchemeGroupVersion.String()}
		}
		return o, err
	}
	return s
}
