// Package remote reads collections of an API server over HTTP, as protobuf where that
// works and else as JSON.
//
// A [Server] is where the objects of one source come from, for all of its namespaces. A
// [Backend] reads one collection for one stream.
package remote

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer/internal/decode"
	"github.com/gapless-io/gapless/informer/internal/handle"
	"github.com/gapless-io/gapless/informer/internal/identity"
	"github.com/gapless-io/gapless/informer/internal/protobuf"
)

// Options say what is asked for.
type Options struct {
	Metadata bool   // only the objects' metadata
	JSONOnly bool   // never protobuf
	Strip    bool   // objects without managedFields
	Shard    string // the shardSelector of every request; "": none
}

// Decoders are two functions that decode the same objects: Shared lets objects have
// equal parts in common, objects of Alone may be modified.
type Decoders[T handle.Object] struct{ Shared, Alone func([]byte) (T, error) }

// Server is where the objects of one source come from, for all of its namespaces.
type Server struct {
	text *client.Client // asks for JSON
	// both asks for protobuf first; nil: T has no protobuf, or it is not wanted.
	both *client.Client
	// doubted says that protobuf did not work with this server. It is never asked for
	// again, although a proxy can be to blame: JSON is slower, but it is right.
	doubted atomic.Bool
	shard   string
}

// New returns a server and the decoders of its objects. The decoders work also if there
// is an error.
func New[T handle.Object](cfg *rest.Config, o Options) (*Server, Decoders[T], error) {
	text := decode.New(decode.Stock[T]())
	text.Share()
	binary := protobuf.New[T]()
	if o.Strip {
		text.StripManagedFields()
	}
	both := Decoders[T]{Shared: text.Decode, Alone: text.DecodeAlone}
	c, err := client.New(cfg)
	if err != nil {
		return nil, both, err
	}
	// Dynamic objects have no other way to know what they are.
	dynamic := reflect.TypeFor[T]() == reflect.TypeFor[*unstructured.Unstructured]()
	s := &Server{text: c.As(client.Form{Metadata: o.Metadata, Typed: dynamic}), shard: o.Shard}
	if o.JSONOnly || binary == nil || cfg.AcceptContentTypes != "" && !strings.Contains(cfg.AcceptContentTypes, "protobuf") {
		return s, both, nil
	}
	if o.Strip {
		binary.StripManagedFields()
	}
	binary.Share()
	s.both = c.As(client.Form{Metadata: o.Metadata, Protobuf: true})
	of := func(text, binary func([]byte) (T, error)) func([]byte) (T, error) {
		return func(object []byte) (T, error) {
			if !client.IsProtobuf(object) {
				return text(object)
			}
			made, err := binary(object)
			if err != nil {
				s.doubted.Store(true)
			}
			return made, err
		}
	}
	return s, Decoders[T]{Shared: of(both.Shared, binary.Decode), Alone: of(both.Alone, binary.DecodeAlone)}, nil
}

// NewJSON returns a server that is asked for JSON only, and for the kind and apiVersion of each
// object.
func NewJSON(cfg *rest.Config, o Options) (*Server, error) {
	c, err := client.New(cfg)
	if err != nil {
		return nil, err
	}
	return &Server{text: c.As(client.Form{Metadata: o.Metadata, Typed: true}), shard: o.Shard}, nil
}

// Backend reads one collection for one stream.
type Backend struct {
	server  *Server
	of      client.Collection
	json    *client.Client // the server's, for this stream
	both    *client.Client // nil: JSON only
	witness *identity.Witness
}

// Backend returns a backend for one stream of a resource, in one namespace or, for "",
// in all.
func (s *Server) Backend(gvr schema.GroupVersionResource, namespace string) *Backend {
	of := client.Collection{GroupVersionResource: gvr, Namespace: namespace, Shard: s.shard}
	b := &Backend{server: s, of: of, witness: &identity.Witness{}}
	b.json = b.through(s.text)
	if s.both != nil {
		b.both = b.through(s.both)
	}
	return b
}

func (b *Backend) through(c *client.Client) *client.Client {
	return c.Through(func(base http.RoundTripper) http.RoundTripper {
		b.witness.Base = base // the same below both clients
		return b.witness
	})
}

// Vouches reports whether the server compared histories in its last answer.
func (b *Backend) Vouches() bool { return b.witness.Vouches() }

// first is the client to ask first.
func (b *Backend) first() *client.Client {
	if b.both == nil || b.server.doubted.Load() {
		return b.json
	}
	return b.both
}

// failed notes the error of an answer to c, and reports whether to ask for JSON at
// once.
func (b *Backend) failed(c *client.Client, err error) (again bool) {
	if c != b.both {
		return false
	}
	again = apierrors.IsNotAcceptable(err)
	if again || errors.Is(err, client.ErrProtobuf) {
		b.server.doubted.Store(true)
	}
	return again
}

// List gets one page; see client.Client.ListLent.
func (b *Backend) List(ctx context.Context, o metav1.ListOptions, each func([]byte) error) (metav1.ListMeta, error) {
	c := b.first()
	meta, err := c.ListLent(ctx, b.of, o, each)
	if err != nil && b.failed(c, err) {
		return b.json.ListLent(ctx, b.of, o, each)
	}
	return meta, err
}

// Watch opens a watch, whose frames are lent; see client.Client.Watch.
func (b *Backend) Watch(ctx context.Context, o metav1.ListOptions) (client.Stream, error) {
	c := b.first()
	w, err := c.Watch(ctx, b.of, o)
	if err != nil && b.failed(c, err) {
		w, err = b.json.Watch(ctx, b.of, o)
	}
	if err != nil {
		return nil, err // and not a Stream around a nil *client.Watch
	}
	w.Lend()
	return watch{Watch: w, backend: b, client: c}, nil
}

// watch is a watch that notes broken protobuf.
type watch struct {
	*client.Watch

	backend *Backend
	client  *client.Client
}

// Next returns the next frame; see client.Watch.
func (w watch) Next() (client.Frame, error) {
	frame, err := w.Watch.Next()
	if err != nil {
		w.backend.failed(w.client, err)
	}
	return frame, err
}
