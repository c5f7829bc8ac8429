package informer

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer/internal/decode"
	"github.com/gapless-io/gapless/informer/internal/protobuf"
)

// wire is how the objects of one source come over HTTP, for all of its namespaces.
type wire struct {
	text *client.Client // asks for JSON
	// both asks for protobuf first; nil: T is no type for it, or nobody wants it.
	both *client.Client
	// doubted says that protobuf did not work with this server. It is never asked for
	// again, although a proxy can be to blame: JSON is slower, but what comes is right.
	doubted atomic.Bool
}

// newWire returns the wire and what decodes the objects that come over it.
func newWire[T Object](cfg *rest.Config, o sourceOptions) (*wire, decoders[T], error) {
	text := decode.New(stock[T]())
	text.Share()
	binary := protobuf.New[T]()
	if o.strip {
		text.StripManagedFields()
	}
	both := decoders[T]{shared: text.Decode, alone: text.DecodeAlone}
	c, err := client.New(cfg)
	if err != nil {
		return nil, both, err
	}
	w := &wire{text: c.As(client.Form{Metadata: o.metadata})}
	if o.text || binary == nil || cfg.AcceptContentTypes != "" && !strings.Contains(cfg.AcceptContentTypes, "protobuf") {
		return w, both, nil
	}
	if o.strip {
		binary.StripManagedFields()
	}
	w.both = c.As(client.Form{Metadata: o.metadata, Protobuf: true})
	of := func(text func([]byte) (T, error)) func([]byte) (T, error) {
		return func(object []byte) (T, error) {
			if !client.IsProtobuf(object) {
				return text(object)
			}
			made, err := binary.Decode(object)
			if err != nil {
				w.doubted.Store(true)
			}
			return made, err
		}
	}
	return w, decoders[T]{shared: of(both.shared), alone: of(both.alone)}, nil
}

// decoders are two ways to decode the same: objects that have equal parts in common, and
// objects that may be modified.
type decoders[T Object] struct{ shared, alone func([]byte) (T, error) }

// collection is what comes over the wire of one namespace, or of all.
func (w *wire) collection(gvr schema.GroupVersionResource, namespace string) collection {
	of := client.Collection{GroupVersionResource: gvr, Namespace: namespace}
	return collection{namespace: namespace, backend: &remote{wire: w, of: of}, text: &remote{wire: w, of: of, text: true}}
}

// remote is a Backend over HTTP.
type remote struct {
	wire *wire
	of   client.Collection
	text bool // JSON only
}

// first is the client to ask first.
func (r *remote) first() *client.Client {
	if r.text || r.wire.both == nil || r.wire.doubted.Load() {
		return r.wire.text
	}
	return r.wire.both
}

// failed takes note of what went wrong with an answer to c, and says whether to ask
// for JSON at once.
func (r *remote) failed(c *client.Client, err error) (again bool) {
	if c != r.wire.both {
		return false
	}
	again = apierrors.IsNotAcceptable(err)
	if again || errors.Is(err, client.ErrProtobuf) {
		r.wire.doubted.Store(true)
	}
	return again
}

func (r *remote) List(ctx context.Context, o metav1.ListOptions, each func([]byte) error) (metav1.ListMeta, error) {
	c := r.first()
	meta, err := c.ListLent(ctx, r.of, o, each)
	if err != nil && r.failed(c, err) {
		return r.wire.text.ListLent(ctx, r.of, o, each)
	}
	return meta, err
}

func (r *remote) Watch(ctx context.Context, o metav1.ListOptions) (Stream, error) {
	c := r.first()
	w, err := c.Watch(ctx, r.of, o)
	if err != nil && r.failed(c, err) {
		w, err = r.wire.text.Watch(ctx, r.of, o)
	}
	if err != nil {
		return nil, err // and not a Stream around a nil *client.Watch
	}
	w.Lend()
	return following{Watch: w, remote: r, client: c}, nil
}

// following is a watch that takes note of protobuf that is none.
type following struct {
	*client.Watch

	remote *remote
	client *client.Client
}

// Next returns the next frame; see client.Watch.
func (f following) Next() (client.Frame, error) {
	frame, err := f.Watch.Next()
	if err != nil {
		f.remote.failed(f.client, err)
	}
	return frame, err
}
