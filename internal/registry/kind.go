package registry

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/kube"
)

// kind is one resource with its cache. It lives as long as the resource does: a
// new version, or a changed schema, leaves it as it is.
type kind struct {
	gr     schema.GroupResource
	prefix string // of its keys in the store, with the slash
	cache  *watchcache.Cache
	// fields are the selectable fields of all versions of the resource.
	fields atomic.Pointer[[]kube.FieldPath]

	// gone is the revision at which the resource's definition was deleted, 0 as
	// long as there is one. It is set before anything later is published.
	gone atomic.Int64
}

// newKind returns the kind of a resource without any objects.
func (r *Registry) newKind(gr schema.GroupResource, fields []kube.FieldPath) *kind {
	k := &kind{gr: gr, prefix: gr.String() + "/"}
	k.fields.Store(&fields)
	cfg := r.window
	cfg.Clock, cfg.History = r.clock, &history{store: r.store, kind: k}
	k.cache = watchcache.New(cfg)
	return k
}

// key is an object's key in the store.
func (k *kind) key(key kube.Key) string { return k.prefix + key.String() }

// object reads a stored value. An error means that the store holds something that
// this server did not write, or that its bytes have changed.
func (k *kind) object(key string, value []byte, revision int64) (*kube.Object, error) {
	o, err := kube.NewObject(value, kube.ResourceVersion(revision), *k.fields.Load())
	if err != nil {
		return nil, fmt.Errorf("stored value of %q at revision %d: %w", key, revision, err)
	}
	if own := k.key(o.Key()); own != key {
		return nil, fmt.Errorf("stored value of %q at revision %d: it is the object %q", key, revision, own)
	}
	return o, nil
}

// pageSize is how many records are read from the store at once.
const pageSize = 1000

// read returns all objects at a revision, in the order of their keys.
func (k *kind) read(ctx context.Context, s store.Store, revision int64) ([]*kube.Object, error) {
	var objects []*kube.Object
	q := store.Query{Start: k.prefix, End: store.PrefixEnd(k.prefix), AtRevision: revision, Limit: pageSize}
	for {
		page, err := s.Read(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("read %s at revision %d: %w", k.gr, revision, err)
		}
		for _, record := range page.Records {
			o, err := k.object(record.Key, record.Value, record.ModRevision)
			if err != nil {
				return nil, err
			}
			objects = append(objects, o)
		}
		if !page.More {
			return objects, nil
		}
		q.Start = page.Records[len(page.Records)-1].Key + "\x00"
	}
}

// maxFields is how many selectable fields an object can have (kube.NewObject).
const maxFields = 64

// selectable returns the selectable fields of all versions of a resource: its
// objects are read once for all of them.
func selectable(c *schema.Catalog, gr schema.GroupResource) []kube.FieldPath {
	var fields []kube.FieldPath
	add := func(r *schema.Resource) {
		for _, f := range r.Fields {
			if !slices.ContainsFunc(fields, func(other kube.FieldPath) bool { return other.Label == f.Label }) {
				fields = append(fields, f)
			}
		}
	}
	if r, found := c.Storage(gr); found {
		add(r)
	}
	for _, r := range c.Resources() {
		if r.GR() == gr {
			add(r)
		}
	}
	slices.SortFunc(fields, func(a, b kube.FieldPath) int { return cmp.Compare(a.Label, b.Label) })
	return fields[:min(len(fields), maxFields)]
}

func sameFields(a, b []kube.FieldPath) bool {
	return slices.EqualFunc(a, b, func(a, b kube.FieldPath) bool {
		return a.Label == b.Label && a.Default == b.Default && slices.Equal(a.Path, b.Path)
	})
}

// loaded returns all kinds; 429 until the store was loaded.
func (r *Registry) loaded() (map[string]*kind, error) {
	kinds := r.kinds.Load()
	if kinds == nil {
		return nil, kube.TooManyRequests(errInitializing, time.Second)
	}
	return *kinds, nil
}

// kind returns the kind that a target is of. It is missing when its definition
// was deleted while the request was on its way: 404.
func (r *Registry) kind(t schema.Target) (*kind, error) {
	kinds, err := r.loaded()
	if err != nil {
		return nil, err
	}
	gr := t.Resource.GR()
	if k := kinds[gr.String()]; k != nil {
		return k, nil
	}
	return nil, kube.NotFound(gr, t.Name)
}

// setKind replaces one entry of the table of kinds; nil removes it. It is called
// by the publisher only.
func (r *Registry) setKind(name string, k *kind) {
	kinds := maps.Clone(*r.kinds.Load())
	if k == nil {
		delete(kinds, name)
	} else {
		kinds[name] = k
	}
	r.kinds.Store(&kinds)
}

// keyOf is the key of a target's object.
func keyOf(t schema.Target) kube.Key {
	if !t.Resource.Namespaced {
		return kube.Key{Name: t.Name}
	}
	return kube.Key{Namespace: t.Namespace, Name: t.Name}
}

// resourceOf splits the name of a definition, "foos.example.com", into the
// resource that it defines.
func resourceOf(definition string) schema.GroupResource {
	plural, group, _ := strings.Cut(definition, ".")
	return schema.GroupResource{Group: group, Resource: plural}
}
