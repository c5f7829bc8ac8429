package registry

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/kube"
)

// List serves a LIST by kube.PlanList (server.md 1.2 and 2). Its items hold no
// lock and no history. Errors: those of PlanList, 400 for a field that cannot be
// selected by and for a bad shard selector, *kube.ExpiredError, *kube.TooLargeResourceVersionError after 3 s.
func (r *Registry) List(ctx context.Context, t schema.Target, o kube.ListOptions) (*kube.List, error) {
	k, err := r.kind(t)
	if err != nil {
		return nil, err
	}
	if err := kube.CheckFields(o.Fields, t.Resource.Fields); err != nil {
		return nil, err
	}
	plan, err := kube.PlanList(o)
	if err != nil {
		return nil, err
	}
	sel := selection(t, o)
	if sel.Shard, err = shardOf(o); err != nil {
		return nil, err
	}
	s, err := r.stateFor(ctx, k, plan)
	if err != nil {
		return nil, err
	}
	if k.gone.Load() != 0 {
		return nil, kube.NotFound(t.Resource.GR(), t.Name)
	}
	apiVersion := t.Resource.APIVersion()
	prefix := listPrefix(t)
	all := s.Scan(prefix+plan.Start, sel)
	list := &kube.List{ResourceVersion: s.RV(), Items: versioned(all, apiVersion)}
	if sel.Shard != nil {
		list.Shard = sel.Shard.String()
	}
	if plan.Limit == 0 {
		return list, nil
	}
	items := cut(all, plan.Limit)
	list.Items = versioned(slices.Values(items), apiVersion)
	if int64(len(items)) < plan.Limit {
		return list, nil
	}
	last := items[len(items)-1].Key().String()
	if following(s, t, sel, last) {
		list.Continue = kube.EncodeContinue(int64(s.RV()), strings.TrimPrefix(last, prefix)+"\x00")
		if o.Labels.Empty() && o.Fields.Empty() && sel.Shard == nil {
			remaining := int64(s.Count(last+"\x00", sel.Namespace))
			list.Remaining = &remaining
		}
		k.cache.Keep(s)
	}
	return list, nil
}

// stateFor returns the state that a plan asks for.
func (r *Registry) stateFor(ctx context.Context, k *kind, plan kube.ListPlan) (*watchcache.Snapshot, error) {
	switch plan.Mode {
	case kube.ListMostRecent, kube.ListContinueLatest:
		return r.fresh(ctx, k)
	case kube.ListAny:
		return k.cache.Snapshot(), nil
	case kube.ListNotOlderThan:
		return k.cache.WaitFresh(ctx, plan.RV)
	case kube.ListExact:
		return k.cache.At(ctx, plan.RV)
	case kube.ListContinue:
		s, err := k.cache.At(ctx, plan.RV)
		if e, is := errors.AsType[*kube.ExpiredError](err); is {
			again := *e
			again.Kind = kube.ExpiredContinue
			again.Continue = kube.EncodeContinue(-1, plan.Start)
			return nil, &again
		}
		return s, err
	}
	return nil, kube.BadRequest("unknown way to list: %d", plan.Mode)
}

// selection says what of a resource a request wants. A field selector that only
// names one object becomes a lookup.
func selection(t schema.Target, o kube.ListOptions) watchcache.Selection {
	sel := watchcache.Selection{Labels: o.Labels, Fields: o.Fields, Name: t.Name}
	if t.Resource.Namespaced {
		sel.Namespace = t.Namespace
	}
	if o.Fields == nil {
		return sel
	}
	if name, exact := o.Fields.RequiresExactMatch("metadata.name"); exact && sel.Name == "" {
		sel.Name = name
		if len(o.Fields.Requirements()) == 1 && name != "" {
			sel.Fields = fields.Everything()
		}
	}
	if namespace, exact := o.Fields.RequiresExactMatch("metadata.namespace"); exact && t.Resource.Namespaced && sel.Namespace == "" {
		sel.Namespace = namespace
	}
	return sel
}

// listPrefix is what a list's continue tokens leave out of the keys.
func listPrefix(t schema.Target) string {
	if t.Resource.Namespaced && t.Namespace != "" {
		return t.Namespace + "/"
	}
	return ""
}

// cut takes the first objects, at most limit.
func cut(all iter.Seq[*kube.Object], limit int64) []*kube.Object {
	var items []*kube.Object
	for o := range all {
		if items = append(items, o); int64(len(items)) == limit {
			break
		}
	}
	return items
}

// following says that a full page is to be continued: objects of the collection
// come after its last one. As upstream it does not look whether any of them is
// selected (apiserver cacher.go GetList), which could take the whole collection:
// the next page may be empty.
func following(s *watchcache.Snapshot, t schema.Target, sel watchcache.Selection, last string) bool {
	var collection watchcache.Selection
	if t.Resource.Namespaced {
		collection.Namespace = t.Namespace
	}
	if sel.Name != "" && (collection.Namespace != "" || !t.Resource.Namespaced) {
		return false // one object, by its name
	}
	for range s.Scan(last+"\x00", collection) {
		return true
	}
	return false
}

// versioned shows the objects in another served version; those that are stored in
// it pass as they are.
func versioned(all iter.Seq[*kube.Object], apiVersion string) iter.Seq[*kube.Object] {
	return func(yield func(*kube.Object) bool) {
		for o := range all {
			if !yield(o.WithAPIVersion(apiVersion)) {
				return
			}
		}
	}
}
