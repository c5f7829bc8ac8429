package informer

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer/internal/attempt"
	"github.com/gapless-io/gapless/informer/internal/decode"
	"github.com/gapless-io/gapless/informer/internal/ref"
	"github.com/gapless-io/gapless/informer/internal/reflector"
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
	name   string
	parts  []collection
	decode func(object []byte) (T, error)
	// alone is decode for who modifies what it makes; nil: decode is.
	alone func(object []byte) (T, error)
	// hold makes of decode what makes objects as the cache holds them; nil: as they are.
	hold   func(decode func([]byte) (T, error)) func([]byte) (held[T], error)
	narrow metav1.ListOptions
	shard  *kube.Shard
	err    error // why there is no backend; Run returns it
	// lends says that the backends lend the bytes that they hand over until they are
	// called again, and that decode keeps nothing of them and can be called by several.
	lends bool

	identity Identity
}

// collection is what one stream of a source brings: all of it, or one of several
// namespaces.
type collection struct {
	namespace string // "" if it is the only one
	backend   Backend
	text      Backend // the same, that brings JSON only; nil: backend does
}

// For is a source of the objects of one resource, over HTTP, decoded into T, which
// must be a pointer to a struct: *corev1.Pod, *unstructured.Unstructured,
// *metav1.PartialObjectMetadata, or a struct of your own with a metav1.ObjectMeta and
// the fields you need: what it lacks is skipped, not decoded.
//
// Where T has what Kubernetes' generators write for protobuf, as the built-in kinds
// do, that is asked for first, because it takes a fifth of the time. A server that
// has none of the resource answers with JSON; one that refuses (406), or sends what
// is no protobuf, is asked for JSON from then on. cfg.AcceptContentTypes without
// protobuf prevents that, as does JSONOnly. Member names of JSON are matched exactly,
// as Kubernetes does. TypeMeta is what the server says of an object: nothing in a list
// of built-in kinds.
// What stands in the JSON of many objects word for word is one value in all of them; see
// SharedJSON.
// What is wrong with cfg, T or an option is returned by the informer's Run.
func For[T Object](cfg *rest.Config, gvr schema.GroupVersionResource, opts ...SourceOption) Source[T] {
	var o sourceOptions
	for _, opt := range opts {
		opt(&o)
	}
	over, decoders, err := newWire[T](cfg, o)
	s := Source[T]{
		name: client.Collection{GroupVersionResource: gvr, Namespace: o.name()}.String(), decode: decoders.shared, alone: decoders.alone,
		narrow: o.narrow, shard: o.shard, lends: true, err: errors.Join(append(o.errs, err)...),
		identity: identityOf[T](cfg, gvr, o),
	}
	for _, namespace := range o.namespaces {
		s.parts = append(s.parts, over.collection(gvr, namespace))
	}
	if len(s.parts) == 0 {
		s.parts = []collection{over.collection(gvr, "")}
	}
	if len(s.parts) == 1 {
		s.parts[0].namespace = ""
	}
	if kind := reflect.TypeFor[T](); kind.Kind() != reflect.Pointer || kind.Elem().Kind() != reflect.Struct {
		s.err = fmt.Errorf("informer of %s: %s is no pointer to a struct", s.name, kind)
	}
	return s
}

// From is a source over any backend. name is for logs and errors. decode makes an
// object of its JSON, which it may keep; an error of decode concerns that object only.
func From[T Object](name string, backend Backend, decode func(object []byte) (T, error)) Source[T] {
	s := Source[T]{name: name, decode: decode, identity: altered[T](Identity{})}
	if backend != nil {
		s.parts = []collection{{backend: backend}}
	}
	return s
}

// reads is what the reflector of a part reads.
func (s Source[T]) reads(of collection, decode func([]byte) (held[T], error)) reflector.Source[held[T]] {
	r := reflector.Source[held[T]]{
		List: of.backend.List,
		Watch: func(ctx context.Context, o metav1.ListOptions) (attempt.Stream, error) {
			return of.backend.Watch(ctx, o)
		},
		Decode: decode, Select: s.narrow, Lends: s.lends,
	}
	if s.shard != nil {
		r.Select.ShardSelector, r.Wants = s.shard.String(), s.shard.Includes
	}
	return r
}

// holds is how objects are made that the cache holds.
func (s Source[T]) holds() func([]byte) (held[T], error) {
	if s.hold != nil {
		return s.hold(s.decode)
	}
	return func(raw []byte) (held[T], error) {
		object, err := s.decode(raw)
		return ref.Of(object), err
	}
}

// JSON returns a decoder for From: what encoding/json would make of the bytes, but
// with exact member names, in a quarter of the time. Strings that many objects have
// are kept once. The objects keep nothing of the bytes, and may be modified.
func JSON[T Object]() func(object []byte) (T, error) {
	return decode.New(stock[T]()).Decode
}

// SharedJSON is JSON as For uses it: what stands in many objects word for word, such as
// the labels and tolerations of a Deployment's pods, is decoded once and is the same
// slice, map or pointer in all of them. It needs half of the memory. Whoever modifies
// an object below its own struct modifies others, also in a Transform.
func SharedJSON[T Object]() func(object []byte) (T, error) {
	d := decode.New(stock[T]())
	d.Share()
	return d.Decode
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
	namespaces []string
	narrow     metav1.ListOptions
	shard      *kube.Shard
	strip      bool
	text       bool // JSON only
	metadata   bool // only
	errs       []error
}

// name is the namespaces' part of the source's name.
func (o *sourceOptions) name() string {
	if len(o.namespaces) > 1 {
		return fmt.Sprintf("%s and %d more", o.namespaces[0], len(o.namespaces)-1)
	}
	return slices.Concat(o.namespaces, []string{""})[0]
}

// Namespace takes the objects of one namespace only.
func Namespace(name string) SourceOption { return Namespaces(name) }

// Namespaces takes the objects of several namespaces only, for who may not read all of
// them. It costs a list and a watch for each. The cache is one, and is synced when all
// have been read; when one cannot be read, the others are kept current, and what went
// wrong says so in Incident.Key.Namespace. Resource versions are those of one server,
// but the namespaces do not move together: ResourceVersion is the one that all have
// reached. Names are taken once; with none, or only "", it is all namespaces.
func Namespaces(names ...string) SourceOption {
	return func(o *sourceOptions) {
		names := slices.Compact(slices.Sorted(slices.Values(names)))
		if len(names) > 1 && names[0] == "" {
			o.errs = append(o.errs, fmt.Errorf("namespaces %q: one of several is empty, which would be all of them", names))
		}
		o.namespaces = names
	}
}

// Labels takes the objects that a label selector matches.
func Labels(s labels.Selector) SourceOption {
	return func(o *sourceOptions) { o.narrow.LabelSelector = s.String() }
}

// Fields takes the objects that a field selector matches.
func Fields(s fields.Selector) SourceOption {
	return func(o *sourceOptions) { o.narrow.FieldSelector = s.String() }
}

// Shard takes the objects of one of count shards, numbered from 0, of about equal
// size, by their UIDs (KEP-5866). Informers of all shards have each object once. A server
// that knows shardSelector sends no others; what any other server sends of them is
// passed over before it is decoded.
func Shard(index, count int) SourceOption {
	return func(o *sourceOptions) {
		shard, err := kube.ShardOf(index, count)
		if err != nil {
			o.errs = append(o.errs, err)
		}
		o.shard = shard
	}
}

// StripManagedFields leaves metadata.managedFields out, while decoding, so that it
// costs neither time nor memory: up to half of an object's JSON.
func StripManagedFields() SourceOption {
	return func(o *sourceOptions) { o.strip = true }
}

// JSONOnly does not ask for protobuf: for looking at what goes over the wire, and for
// proxies that know JSON only.
func JSONOnly() SourceOption {
	return func(o *sourceOptions) { o.text = true }
}
