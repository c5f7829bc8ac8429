package informer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer/internal/decode"
	"github.com/gapless-io/gapless/informer/internal/handle"
	"github.com/gapless-io/gapless/informer/internal/reflector"
	"github.com/gapless-io/gapless/informer/internal/remote"
	"github.com/gapless-io/gapless/kube"
)

// ErrListNow is in the error of a Backend's streaming list after which the state is to
// be read by LIST at once. The next time that the state is read, a streaming list is
// tried again. Without it, LIST follows at once only on a 400, 405, 406, 413, 415 or 422,
// and otherwise after three failures.
var ErrListNow = errors.New("the state is to be read by LIST")

// Backend sends the two requests of a source. The client of this module is one (see
// For).
type Backend interface {
	// List gets one page; see client.Client.List.
	List(ctx context.Context, o metav1.ListOptions, each func(item []byte) error) (metav1.ListMeta, error)
	// Watch opens a watch, which ends with ctx; see client.Client.Watch.
	Watch(ctx context.Context, o metav1.ListOptions) (Stream, error)
}

// Stream is an open watch, used by one goroutine.
type Stream = client.Stream

// Source is where an informer gets its objects from. The zero value has none.
type Source[T Object] struct {
	name    string
	streams []collection
	decode  func(object []byte) (T, error)
	// transforms are applied to what decode returns, in order.
	transforms []func(T) (T, error)
	// alone is decode for a Transform, which modifies objects; nil: decode.
	alone func(object []byte) (T, error)
	// hold returns a decoder of objects as the cache holds them; nil: they are held as
	// they are.
	hold   func(decode func([]byte) (decoded[T], error)) func([]byte) (handle.Handle[T], error)
	narrow metav1.ListOptions
	shard  *kube.Shard
	err    error // why there is no backend; Run returns it
	// lends says that the backends reuse the bytes that they pass until they are called
	// again, and that decode keeps none of them and may be called concurrently.
	lends bool

	identity Identity
}

// collection is what one stream of a source reads: all objects, or those of one of
// several namespaces.
type collection struct {
	namespace string // "" if it is the only one
	backend   func() reader
}

// reader is the backend of one informer for one stream.
type reader struct {
	Backend

	// vouches says that the server refuses positions of another history; nil: it does not.
	vouches func() bool
}

// plain returns the same backend for every informer.
func plain(b Backend) func() reader { return func() reader { return reader{Backend: b} } }

// For is a source of the objects of one resource, over HTTP, decoded into T, which
// must be a pointer to a struct: *corev1.Pod, *unstructured.Unstructured,
// *metav1.PartialObjectMetadata, or a struct of your own with a metav1.ObjectMeta and
// the fields that you need. Other fields are skipped without decoding them.
//
// If T has the methods that Kubernetes generates for protobuf, as the built-in kinds
// do, protobuf is requested first, because it takes a fifth of the time. A server
// without protobuf for the resource answers with JSON. A server that refuses (406), or
// sends invalid protobuf, is asked for JSON from then on. cfg.AcceptContentTypes without
// protobuf, or JSONOnly, prevents protobuf. JSON member names must match exactly, as in
// Kubernetes. TypeMeta is as the server sends it: empty for items of a list of built-in
// kinds, except in *unstructured.Unstructured, which gets it from the list.
// Values that are identical in the JSON of many objects are shared by them, and in protobuf
// those of the built-in kinds; see SharedJSON. The informer's Run returns an error if cfg, T or an option is invalid.
func For[T Object](cfg *rest.Config, gvr schema.GroupVersionResource, opts ...SourceOption) Source[T] {
	var o sourceOptions
	for _, opt := range opts {
		opt(&o)
	}
	server, decoders, err := remote.New[T](cfg, o.asked())
	s := completed(o, gvr, server, Source[T]{
		decode: decoders.Shared, alone: decoders.Alone, err: err, identity: identityOf[T](cfg, gvr, o),
	})
	if kind := reflect.TypeFor[T](); kind.Kind() != reflect.Pointer || kind.Elem().Kind() != reflect.Struct {
		s.err = fmt.Errorf("informer of %s: %s is not a pointer to a struct", s.name, kind)
	}
	return s
}

// asked is what the options say of requests.
func (o *sourceOptions) asked() remote.Options {
	asked := remote.Options{Metadata: o.metadata, JSONOnly: o.text, Strip: o.strip}
	if o.shard != nil {
		asked.Shard = o.shard.String()
	}
	return asked
}

// completed returns a source with what the options say of its streams.
func completed[T Object](o sourceOptions, gvr schema.GroupVersionResource, server *remote.Server, s Source[T]) Source[T] {
	s.name = client.Collection{GroupVersionResource: gvr, Namespace: o.name()}.String()
	s.narrow, s.shard, s.lends = o.narrow, o.shard, true
	s.err = errors.Join(append(o.errs, s.err)...)
	for _, namespace := range o.namespaces {
		s.streams = append(s.streams, served(server, gvr, namespace))
	}
	if len(s.streams) == 0 {
		s.streams = []collection{served(server, gvr, "")}
	}
	if len(s.streams) == 1 {
		s.streams[0].namespace = ""
	}
	return s
}

// served is a collection of a server, which is nil if Run will return an error.
func served(server *remote.Server, gvr schema.GroupVersionResource, namespace string) collection {
	if server == nil {
		return collection{namespace: namespace, backend: plain(nil)}
	}
	return collection{namespace: namespace, backend: func() reader {
		b := server.Backend(gvr, namespace)
		return reader{Backend: b, vouches: b.Vouches}
	}}
}

// From is a source of any backend. name is for logs and errors. decode decodes the JSON
// of one object, which it may keep; an error concerns that object only.
func From[T Object](name string, backend Backend, decode func(object []byte) (T, error)) Source[T] {
	s := Source[T]{name: name, decode: decode, identity: altered[T](Identity{})}
	if backend != nil {
		s.streams = []collection{{backend: plain(backend)}}
	}
	return s
}

// Name returns the name of the source in logs and errors: its resource and namespace,
// or the name that was passed to From.
func (s Source[T]) Name() string { return s.name }

// Transform returns a source that passes each object through f before the cache stores
// it, once per version. f may modify the object and return it, or return another one. An
// error concerns that object only: it is an incident (Undecodable), and the cache keeps
// the state that it has. Namespace and name must not change. The informer takes UID and
// resourceVersion from what the server sent, so f may drop them. Several goroutines may call f
// at once, each with an object of its own.
func (s Source[T]) Transform(f func(T) (T, error)) Source[T] {
	s.identity = altered[T](s.identity)
	if s.alone != nil {
		s.decode, s.alone = s.alone, nil
	}
	s.transforms = append(slices.Clone(s.transforms), f)
	return s
}

// reads is what the reflector of a stream reads.
func (s Source[T]) reads(of collection, decode func([]byte) (handle.Handle[T], error)) reflector.Source[T] {
	from := of.backend()
	r := reflector.Source[T]{Decode: decode, Select: s.narrow, Lends: s.lends, Vouches: from.vouches, ListNow: ErrListNow}
	if from.Backend != nil {
		r.List, r.Watch = from.List, from.Watch
	}
	if s.shard != nil {
		r.Wants = func(uid types.UID) bool { return s.shard.Includes("", uid) }
	}
	return r
}

// holds decodes objects as the cache holds them.
func (s Source[T]) holds() func([]byte) (handle.Handle[T], error) {
	if s.hold != nil {
		return s.hold(s.decoded)
	}
	return func(raw []byte) (handle.Handle[T], error) {
		d, err := s.decoded(raw)
		return handle.OfVersion(d.object, d.uid, d.rv), err
	}
}

// decoded is an object as the transforms returned it, and the UID and version that it had
// when it came.
type decoded[T Object] struct {
	object T
	uid    types.UID
	rv     string
}

// decoded decodes and transforms an object. Its UID and version are those of the bytes: they
// say where it belongs among the server's events, and a user's function may drop them.
func (s Source[T]) decoded(raw []byte) (decoded[T], error) {
	var none T
	object, err := s.decode(raw)
	if err != nil || object == none {
		return decoded[T]{}, lacking(err, "the decoder")
	}
	d := decoded[T]{uid: object.GetUID(), rv: object.GetResourceVersion()}
	if d.uid == "" || d.rv == "" { // by a decoder of the user, or the server sent none
		if meta, err := client.MetaOf(raw); err == nil {
			d.uid, d.rv = cmp.Or(d.uid, meta.UID), cmp.Or(d.rv, meta.ResourceVersion)
		}
	}
	for _, f := range s.transforms {
		if object, err = f(object); err != nil || object == none {
			return decoded[T]{}, lacking(err, "the transform")
		}
	}
	d.object = object
	return d, nil
}

// lacking is why there is no object: err, or that a user's function returned none.
func lacking(err error, function string) error {
	if err == nil {
		err = &kube.DecodeError{Offset: -1, Why: function + " returned no object"}
	}
	return err
}

// JSON returns a decoder for From. It decodes as client-go does, in a quarter of the time:
// member names must match exactly, and integers in fields of type any are int64. Strings that many objects have are stored once.
// The objects reference none of the bytes, and may be modified.
func JSON[T Object]() func(object []byte) (T, error) {
	return decode.New(decode.Stock[T]()).Decode
}

// SharedJSON is the decoder that For uses. It decodes values that are identical in the
// JSON of many objects, such as the labels and tolerations of a Deployment's pods, once,
// so that all these objects share one slice, map or pointer. This halves the memory.
// Modifying an object anywhere below its own struct modifies other objects too, also in a
// Transform.
func SharedJSON[T Object]() func(object []byte) (T, error) {
	d := decode.New(decode.Stock[T]())
	d.Share()
	return d.Decode
}

// SourceOption selects objects of a source, or says how they are read.
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

// name returns the namespaces for the name of the source.
func (o *sourceOptions) name() string {
	if len(o.namespaces) > 1 {
		return fmt.Sprintf("%s and %d more", o.namespaces[0], len(o.namespaces)-1)
	}
	return slices.Concat(o.namespaces, []string{""})[0]
}

// Namespace selects the objects of one namespace.
func Namespace(name string) SourceOption { return Namespaces(name) }

// Namespaces selects the objects of several namespaces, for clients that may not read
// all namespaces. It needs a list and a watch for each. There is one cache, which is
// synced when all namespaces have been read. If one cannot be read, the others are kept
// current, and Incident.Key.Namespace names it. ResourceVersion is the version that all
// namespaces have reached; they do not advance together. Duplicate names count once; no
// name, or only "", selects all namespaces.
func Namespaces(names ...string) SourceOption {
	return func(o *sourceOptions) {
		names := slices.Compact(slices.Sorted(slices.Values(names)))
		if len(names) > 1 && names[0] == "" {
			o.errs = append(o.errs, fmt.Errorf("namespaces %q: one of several is empty, which means all namespaces", names))
		}
		o.namespaces = names
	}
}

// Labels selects objects by a label selector.
func Labels(s labels.Selector) SourceOption {
	return func(o *sourceOptions) { o.narrow.LabelSelector = s.String() }
}

// Fields selects objects by a field selector.
func Fields(s fields.Selector) SourceOption {
	return func(o *sourceOptions) { o.narrow.FieldSelector = s.String() }
}

// Shard selects the objects of one of count shards of about equal size, numbered from 0,
// by their UIDs (KEP-5866). Each object is in exactly one shard. A server that supports
// shardSelector sends no other objects. For other servers, the informer skips objects of
// other shards before it decodes them.
func Shard(index, count int) SourceOption {
	return func(o *sourceOptions) {
		shard, err := kube.ShardOf(index, count)
		if err != nil {
			o.errs = append(o.errs, err)
		}
		o.shard = shard
	}
}

// StripManagedFields drops metadata.managedFields while decoding, so that it takes
// neither time nor memory. It is up to half of an object's JSON.
func StripManagedFields() SourceOption {
	return func(o *sourceOptions) { o.strip = true }
}

// JSONOnly never requests protobuf: for reading the traffic, and for proxies that
// support only JSON.
func JSONOnly() SourceOption {
	return func(o *sourceOptions) { o.text = true }
}
