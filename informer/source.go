package informer

import (
	"context"
	"fmt"
	"reflect"

	"github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer/internal/decode"
	"github.com/gapless-io/gapless/kube"
)

// Backend is the wire below a source: the two requests that a reflector makes.
// The client of this module is one (see For).
type Backend interface {
	// List gets one page; see client.Client.List.
	List(ctx context.Context, o metav1.ListOptions, each func(item []byte) error) (metav1.ListMeta, error)
	// Watch opens a watch, which ends with ctx; see client.Client.Watch.
	Watch(ctx context.Context, o metav1.ListOptions) (Stream, error)
}

// Stream is an open watch, used by one goroutine; see client.Watch.
type Stream interface {
	Next() (client.Frame, error)
	// Ready says that Next will not have to wait for the network.
	Ready() bool
	Close() error
}

// Source is where an informer gets its objects from. The zero value has none.
type Source[T Object] struct {
	name    string
	backend Backend
	decode  func(object []byte) (T, error)
	labels  string
	fields  string
	err     error // why there is no backend; Run returns it
	// lends says that the backend lends the bytes that it hands over until it is
	// called again, and that decode keeps nothing of them and can be called by several.
	lends bool
}

// For is a source of the objects of one resource, over HTTP, decoded from JSON into
// T, which must be a pointer to a struct: *corev1.Pod, *unstructured.Unstructured,
// *metav1.PartialObjectMetadata, or a struct of your own with the fields you need
// and a metav1.ObjectMeta. Member names are matched exactly, as Kubernetes does.
// What is wrong with cfg or T is returned by the informer's Run.
func For[T Object](cfg *rest.Config, gvr schema.GroupVersionResource, opts ...SourceOption) Source[T] {
	var o sourceOptions
	for _, opt := range opts {
		opt(&o)
	}
	of := client.Collection{GroupVersionResource: gvr, Namespace: o.namespace}
	c, err := client.New(cfg)
	decoder := decode.New(stock[T]())
	if o.strip {
		decoder.StripManagedFields()
	}
	s := From(of.String(), &remote{client: c, of: of}, decoder.Decode)
	s.labels, s.fields, s.err, s.lends = o.labels, o.fields, err, true
	if kind := reflect.TypeFor[T](); kind.Kind() != reflect.Pointer || kind.Elem().Kind() != reflect.Struct {
		s.err = fmt.Errorf("informer of %s: %s is no pointer to a struct", of, kind)
	}
	return s
}

// From is a source over any backend. name is for logs and errors. decode makes an
// object of its JSON, which it may keep; an error of decode concerns that object only.
func From[T Object](name string, backend Backend, decode func(object []byte) (T, error)) Source[T] {
	return Source[T]{name: name, backend: backend, decode: decode}
}

// JSON returns the decoder that For uses: what encoding/json would make of the
// bytes, but with exact member names, in a quarter of the time. Strings that many
// objects have are kept once. The objects keep nothing of the bytes.
func JSON[T Object]() func(object []byte) (T, error) {
	return decode.New(stock[T]()).Decode
}

// stock decodes with the stock decoder, which knows every type and every error.
func stock[T Object]() func(object []byte) (T, error) {
	options := json.JoinOptions(jsonv1.DefaultOptionsV1(), json.MatchCaseInsensitiveNames(false))
	return func(object []byte) (T, error) {
		var o T
		if err := json.Unmarshal(object, &o, options); err != nil {
			return o, &kube.DecodeError{Offset: -1, Why: err.Error()}
		}
		var none T
		if o == none {
			return o, &kube.DecodeError{Offset: 0, Why: "null is no object"}
		}
		return o, nil
	}
}

// SourceOption narrows what a source brings.
type SourceOption func(*sourceOptions)

type sourceOptions struct {
	namespace, labels, fields string
	strip                     bool
}

// Namespace takes the objects of one namespace only.
func Namespace(name string) SourceOption {
	return func(o *sourceOptions) { o.namespace = name }
}

// Labels takes the objects that a label selector matches.
func Labels(s labels.Selector) SourceOption {
	return func(o *sourceOptions) { o.labels = s.String() }
}

// Fields takes the objects that a field selector matches.
func Fields(s fields.Selector) SourceOption {
	return func(o *sourceOptions) { o.fields = s.String() }
}

// StripManagedFields leaves metadata.managedFields out, while decoding, so that it
// costs neither time nor memory: up to half of an object's JSON.
func StripManagedFields() SourceOption {
	return func(o *sourceOptions) { o.strip = true }
}

// remote is a Backend over HTTP.
type remote struct {
	client *client.Client
	of     client.Collection
}

func (r *remote) List(ctx context.Context, o metav1.ListOptions, each func([]byte) error) (metav1.ListMeta, error) {
	return r.client.ListLent(ctx, r.of, o, each)
}

func (r *remote) Watch(ctx context.Context, o metav1.ListOptions) (Stream, error) {
	w, err := r.client.Watch(ctx, r.of, o)
	if err != nil {
		return nil, err // and not a Stream around a nil *client.Watch
	}
	w.Lend()
	return w, nil
}
