package gc

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// finding is what is known about the owners of an object (garbagecollector
// classifyReferences).
type finding struct {
	solid    []types.UID // they exist, and do not wait for this object's deletion
	dangling []types.UID // they do not exist
	waiting  []types.UID // they are deleted in the foreground
	// never says that the object is not collected: it has no namespace, and an owner has one.
	never bool
	// elsewhere are references to namespaced owners that are not in the object's namespace.
	elsewhere []ownerRef
}

// ownerRef is a reference with the resource of its kind.
type ownerRef struct {
	metav1.OwnerReference

	resource *kinds.Resource
}

// unknownKindError says that a reference names a kind that is not served. The object is
// not deleted: the kind may be served later.
type unknownKindError struct {
	object  string
	owner   metav1.OwnerReference
	catalog *kinds.Catalog // in which there was no such kind
}

func (e *unknownKindError) Error() string {
	return fmt.Sprintf("%s names an owner %s %s of %s, which is not served",
		e.object, e.owner.Kind, e.owner.Name, e.owner.APIVersion)
}

// classify looks up the owners of an object.
func (c *Collector) classify(ctx context.Context, t kinds.Target, o *wire.Object) (finding, error) {
	var found finding
	catalog := c.live.Load()
	for _, ref := range o.OwnerReferences() {
		resource := c.kind(catalog, ref)
		if resource == nil {
			return finding{}, &unknownKindError{object: t.Resource.Kind + " " + o.Key().String(), owner: ref, catalog: catalog}
		}
		owner := kinds.Target{Resource: resource, Name: ref.Name, AsStored: true}
		if resource.Namespaced {
			owner.Namespace = o.Key().Namespace
			if owner.Namespace == "" {
				found.never = true
				found.elsewhere = append(found.elsewhere, ownerRef{ref, resource})
				return found, nil
			}
		}
		there, observed, err := c.lookup(ctx, owner, ref)
		switch {
		case err != nil:
			return finding{}, err
		case there == nil:
			found.dangling = append(found.dangling, ref.UID)
			if resource.Namespaced && !observed {
				found.elsewhere = append(found.elsewhere, ownerRef{ref, resource})
			}
		case waitsOf(there) == waitsForDeletion:
			found.waiting = append(found.waiting, ref.UID)
		default:
			found.solid = append(found.solid, ref.UID)
		}
	}
	return found, nil
}

// lookup returns an owner; nil if there is none of this name and uid in the most recent
// state. observed says that it was seen to be deleted.
func (c *Collector) lookup(ctx context.Context, owner kinds.Target,
	ref metav1.OwnerReference,
) (there *wire.Object, observed bool, err error) {
	as := reference{ref.APIVersion, ref.Kind, owner.Namespace, ref.Name}
	known := c.graph.owner(ref.UID, as)
	if known.gone || known.absent {
		return nil, known.gone, nil
	}
	// What a cache has exists, or the graph will hear of its end. What it has not may be on
	// its way: that is read again from a state that has every acknowledged write.
	for _, rv := range []string{"0", ""} {
		o, err := c.verbs.Get(ctx, owner, rv)
		switch {
		case err == nil && o.UID() == ref.UID:
			return o, false, nil
		case err != nil && !isReason(err, metav1.StatusReasonNotFound):
			return nil, false, err
		}
	}
	c.graph.noteAbsent(ref.UID, as)
	return nil, false, nil
}

// served are the served kinds of a catalog.
type served struct {
	of    *kinds.Catalog
	byGVK map[kinds.GroupVersionKind]*kinds.Resource
}

// kind returns the resource of the kind that a reference names; nil if it is not served.
func (c *Collector) kind(catalog *kinds.Catalog, ref metav1.OwnerReference) *kinds.Resource {
	k := c.kinds.Load()
	if k == nil || k.of != catalog {
		k = &served{of: catalog, byGVK: map[kinds.GroupVersionKind]*kinds.Resource{}}
		for _, r := range catalog.Resources() {
			if r.StorageVersion != "" || r.Conversion != nil {
				k.byGVK[r.GVK()] = r
			}
		}
		c.kinds.Store(k)
	}
	gv, err := apischema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil
	}
	return k.byGVK[gv.WithKind(ref.Kind)]
}
