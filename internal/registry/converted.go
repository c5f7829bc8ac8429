package registry

import (
	"context"
	"iter"
	"maps"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry/strategy"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
)

// Conversions returns the metrics of conversions.
func (r *Registry) Conversions() prometheus.Collector { return r.converter }

// Convert returns content of one version of a resource in another one. The result may share
// parts with the argument, which is not changed. Errors: those of convert.Converter.
func (r *Registry) Convert(ctx context.Context, v kinds.Versions, content map[string]any) (map[string]any, error) {
	return r.converter.Between(ctx, v, content)
}

// Service returns a service as Find does. It is for calls of webhooks.
func (r *Registry) Service(namespace, name string) *wire.Object {
	return r.caches.Service(namespace, name)
}

// Endpoints returns the endpoint slices of a service.
func (r *Registry) Endpoints(namespace, service string) []*wire.Object {
	return r.caches.Endpoints(namespace, service)
}

// Show returns a stored object as a resource shows it: see convert.Converter. Errors: those of
// convert.Converter.
func (r *Registry) Show(ctx context.Context, resource *kinds.Resource, o *wire.Object) (*wire.Object, error) {
	shown, err := r.converter.Show(ctx, resource, o)
	if err != nil {
		return nil, err
	}
	return shown[0], nil
}

// writtenAs is the answer to a write: the object in the target's version. The write is done,
// whether or not it can be converted, as upstream.
func (r *Registry) writtenAs(ctx context.Context, t kinds.Target, w wire.Written) (wire.Written, error) {
	var err error
	w.Object, err = r.Show(ctx, t.Resource, w.Object)
	if err != nil {
		return wire.Written{}, err
	}
	return w, nil
}

// encode encodes an object of a version for the store, in the version in which it is stored.
// managed are its managedFields, as JSON, if it does not have them itself.
func (r *Registry) encode(
	ctx context.Context, resource *kinds.Resource, u *unstructured.Unstructured, managed []byte,
) ([]byte, error) {
	if !resource.Converts() {
		return encodeStored(resource, u, managed)
	}
	if err := strategy.PutManaged(u, managed); err != nil {
		return nil, err
	}
	storage, found := r.live.Load().Storage(resource.GR())
	if !found {
		return nil, wire.NotFound(resource.GR(), u.GetName())
	}
	tree := u.Object
	if u.GetKind() != resource.Kind || u.GetAPIVersion() != resource.APIVersion() {
		tree = maps.Clone(u.Object)
		tree["kind"], tree["apiVersion"] = resource.Kind, resource.APIVersion()
	}
	content, err := r.converter.Content(ctx, storage, tree)
	if err != nil {
		return nil, err
	}
	value, err := wire.Canonical(content)
	if err != nil {
		return nil, wire.BadRequest("%v", err)
	}
	return value, kinds.CheckSize(value)
}

// encodeAsStored encodes stored content of which nothing but the metadata has changed. The
// content of a resource whose versions must be converted stays in the version in which it was
// stored: no webhook is called.
func encodeAsStored(resource *kinds.Resource, u *unstructured.Unstructured) ([]byte, error) {
	if !resource.Converts() {
		return encodeStored(resource.Home(), u, nil) // u is not converted
	}
	value, err := wire.Canonical(u.Object)
	if err != nil {
		return nil, wire.BadRequest("%v", err)
	}
	return value, nil
}

// mayCall reports whether a webhook converts stored objects to the version of a resource.
func mayCall(resource *kinds.Resource) bool {
	return resource.Webhook != nil && (resource.Version != resource.StorageVersion || resource.Moved)
}

// outside splits the selection of a target's objects in two: what the stored objects show,
// and what only the converted ones show, nil if that is nothing. A webhook can change labels,
// and the fields of a version are those of its own content.
func outside(resource *kinds.Resource, sel watchcache.Selection) (inside watchcache.Selection, after *watchcache.Selection) {
	if !mayCall(resource) || !sel.LooksInside() {
		return sel, nil
	}
	inside = watchcache.Selection{Namespace: sel.Namespace, Name: sel.Name, Shard: sel.Shard, Previous: true}
	return inside, &sel
}

// Bounds of what a list converts in one step, and of what it converts before it is answered:
// so much of it can fail with 500, and more ends the connection.
const (
	convertObjects = 256
	convertBytes   = 1 << 20
	aheadBytes     = 16 << 20
)

// scan yields the objects of a state that a target's version selects, in this version.
func (r *Reader) scan(ctx context.Context, t kinds.Target, state listed, start string,
	sel watchcache.Selection,
) iter.Seq2[*wire.Object, error] {
	if t.AsStored {
		return state.Scan(ctx, start, sel)
	}
	if !t.Resource.Converts() {
		return shownAs(state.Scan(ctx, start, sel), t.Resource)
	}
	inside, after := outside(t.Resource, sel)
	return func(yield func(*wire.Object, error) bool) {
		var part []*wire.Object
		bytes := 0
		flush := func() (more bool) {
			shown, err := r.converter.Show(ctx, t.Resource, part...)
			if err != nil {
				yield(nil, err)
				return false
			}
			for _, o := range shown {
				if (after == nil || after.Matches(o)) && !yield(o, nil) {
					return false
				}
			}
			part, bytes = part[:0], 0
			return true
		}
		for o, err := range state.Scan(ctx, start, inside) {
			if err != nil {
				if flush() {
					yield(nil, err)
				}
				return
			}
			part = append(part, o)
			if bytes += o.Size(); (len(part) == convertObjects || bytes >= convertBytes) && !flush() {
				return
			}
		}
		flush()
	}
}

// ahead reads the beginning of a list, so that an error in it is the answer.
func ahead(all iter.Seq2[*wire.Object, error]) (iter.Seq2[*wire.Object, error], error) {
	var held []*wire.Object
	bytes, more := 0, false
	for o, err := range all {
		if err != nil {
			return nil, err
		}
		if more = bytes >= aheadBytes; more {
			break
		}
		held = append(held, o)
		bytes += o.Size()
	}
	return func(yield func(*wire.Object, error) bool) {
		for _, o := range held {
			if !yield(o, nil) {
				return
			}
		}
		if !more {
			return
		}
		skip := len(held)
		for o, err := range all {
			if skip--; skip >= 0 && err == nil {
				continue
			}
			if !yield(o, err) || err != nil {
				return
			}
		}
	}, nil
}
