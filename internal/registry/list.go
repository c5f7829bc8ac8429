package registry

import (
	"context"
	"errors"
	"iter"
	"strings"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry/caches"
	"github.com/gapless-io/gapless/internal/registry/stored"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// listed is a resource at one resourceVersion, in memory or in the store.
type listed interface {
	RV() kube.ResourceVersion
	// Scan yields the selected objects with a key >= start; an error is the last.
	Scan(ctx context.Context, start string, sel watchcache.Selection) iter.Seq2[*wire.Object, error]
	// Count and Follows are about all objects with a key >= start.
	Count(ctx context.Context, start, namespace string) (int64, error)
	Follows(ctx context.Context, start, namespace string) (bool, error)
}

var (
	_ listed = inMemory{}
	_ listed = (*stored.Past)(nil)
)

// inMemory is a snapshot as a list reads it: nothing can fail.
type inMemory struct{ *watchcache.Snapshot }

func (m inMemory) Scan(_ context.Context, start string, sel watchcache.Selection) iter.Seq2[*wire.Object, error] {
	return func(yield func(*wire.Object, error) bool) {
		for o := range m.Snapshot.Scan(start, sel) {
			if !yield(o, nil) {
				return
			}
		}
	}
}

func (m inMemory) Count(_ context.Context, start, namespace string) (int64, error) {
	return int64(m.Snapshot.Count(start, namespace)), nil
}

func (m inMemory) Follows(_ context.Context, start, namespace string) (bool, error) {
	return m.Snapshot.Count(start, namespace) > 0, nil
}

// List serves a LIST by wire.PlanList. Its items hold no
// lock and no history: what memory does not have is read from the store while they are
// ranged over, and fails when it was compacted meanwhile or ctx has ended. Errors: those of
// PlanList, 400 for a field that cannot be selected by and for a bad shard selector,
// *kube.ExpiredError, *kube.TooLargeResourceVersionError after 3 s, 500 while a value cannot be read.
func (r *Reader) List(ctx context.Context, t kinds.Target, o wire.ListOptions) (*wire.List, error) {
	cached, err := r.of(t)
	if err != nil {
		return nil, err
	}
	if err := t.Resource.CheckFields(o.Fields); err != nil {
		return nil, err
	}
	plan, err := wire.PlanList(o)
	if err != nil {
		return nil, err
	}
	return r.list(ctx, listing{t, o, plan, cached})
}

// ListPlanned is List for who has checked the fields of the options, and planned: resourceVersions are the
// plan's, and those of the options do not count.
func (r *Reader) ListPlanned(ctx context.Context, t kinds.Target, o wire.ListOptions, plan wire.ListPlan) (*wire.List, error) {
	cached, err := r.of(t)
	if err != nil {
		return nil, err
	}
	return r.list(ctx, listing{t, o, plan, cached})
}

// listing is a list of a resource.
type listing struct {
	target  kinds.Target
	options wire.ListOptions
	plan    wire.ListPlan
	cached  *caches.Resource
}

func (r *Reader) list(ctx context.Context, l listing) (_ *wire.List, err error) {
	t, o, plan, cached := l.target, l.options, l.plan, l.cached
	sel := selection(t, o)
	if sel.Shard, err = shardOf(o); err != nil {
		return nil, err
	}
	if plan, err = atTime(ctx, cached, plan); err != nil {
		return nil, err
	}
	state, err := stateFor(ctx, cached, t.Namespace, plan)
	if err != nil {
		return nil, err
	}
	if cached.Ended() {
		return nil, wire.NotFound(t.Resource.GR(), t.Name)
	}
	past, isPast := state.(*stored.Past)
	list := &wire.List{ResourceVersion: state.RV(), Past: isPast}
	if sel.Shard != nil {
		list.Shard = sel.Shard.String()
	}
	whole := o.Labels.Empty() && o.Fields.Empty() && sel.Shard == nil
	start := listPrefix(t) + plan.Start
	items := r.scan(ctx, t, state, start, sel)
	var p *stored.Page
	if isPast && !t.Resource.Converts() {
		p, err = past.Known(ctx, start, sel)
	}
	if err == nil && p == nil && plan.Limit > 0 {
		p, err = stored.FirstOf(items, plan.Limit, isPast)
	}
	if err != nil {
		return nil, continued(err, plan)
	}
	if p != nil {
		list.Versions, list.Reads = p.Versions, p.Reads
	}
	if plan.Limit > 0 {
		items = p.Items(items, func(err error) error { return continued(err, plan) })
		if p.Count == plan.Limit {
			if err := setContinue(ctx, list, limited{
				target: t, cached: cached, state: state, sel: sel, start: start, page: p, whole: whole,
			}); err != nil {
				return nil, continued(err, plan)
			}
		}
	}
	if t.Resource.Converts() {
		if items, err = ahead(items); err != nil {
			return nil, continued(err, plan)
		}
	}
	if s, is := state.(inMemory); is && whole && plan.Limit == 0 && start == listPrefix(t) && sel.Name == "" && !t.AsStored &&
		!t.Resource.Converts() {
		list.Versions = s.Versions(sel.Namespace)
	}
	list.Items = items
	return list, nil
}

// Count returns how many objects a target has now, without those of selectors: 0 if it is not
// served. It does not wait.
func (r *Reader) Count(t kinds.Target) int {
	cached, err := r.of(t)
	if err != nil {
		return 0
	}
	return cached.Cache.Snapshot().Count("", t.Namespace)
}

// stateFor returns the state that a plan asks for. The errors are for who may read one namespace, or ("") all.
func stateFor(ctx context.Context, cached *caches.Resource, namespace string, plan wire.ListPlan) (listed, error) {
	var s *watchcache.Snapshot
	var err error
	switch plan.Mode {
	case wire.ListMostRecent, wire.ListContinueLatest:
		s, err = cached.Fresh(ctx, namespace)
	case wire.ListAny, wire.ListNotOlderThan:
		s, err = cached.State(ctx, func() error { return cached.Whole(namespace) },
			func(ctx context.Context) (*watchcache.Snapshot, error) {
				return cached.Cache.WaitFresh(ctx, plan.RV) // of any: 0
			})
	case wire.ListExact, wire.ListContinue:
		whole := func() error { return cached.WholeAt(namespace, plan.RV) }
		s, err = cached.State(ctx, whole, func(ctx context.Context) (*watchcache.Snapshot, error) {
			return cached.Cache.At(ctx, plan.RV)
		})
		if errors.Is(err, watchcache.ErrBehind) {
			if err = whole(); err == nil {
				return cached.Past(plan.RV, cached.Cache.Snapshot(), plan.Limit), nil
			}
		}
	default:
		return nil, wire.BadRequest("unknown way to list: %d", plan.Mode)
	}
	if err != nil {
		return nil, continued(err, plan)
	}
	return inMemory{s}, nil
}

// continued gives the error of an expired continue token another token, which continues
// the list in the most recent state.
func continued(err error, plan wire.ListPlan) error {
	e, is := errors.AsType[*kube.ExpiredError](err)
	if !is || plan.Mode != wire.ListContinue {
		return err
	}
	again := *e
	again.Kind = kube.ExpiredContinue
	again.Continue = wire.EncodeContinue(-1, plan.Start)
	return &again
}

// limited is a list that ends with a full page.
type limited struct {
	target kinds.Target
	cached *caches.Resource
	state  listed
	sel    watchcache.Selection
	start  string // the first key of the page
	whole  bool   // nothing but the namespace selects
	page   *stored.Page
}

// setContinue sets the continue token of a list, if objects of the collection come after
// its last one. As upstream it does not check whether any of them is selected (apiserver
// cacher.go GetList), which could take the whole collection: the next page may be
// empty. It sets how many remain only if all of them are selected.
func setContinue(ctx context.Context, list *wire.List, c limited) error {
	namespace := ""
	if c.target.Resource.Namespaced {
		namespace = c.target.Namespace
	}
	if c.sel.Name != "" && (namespace != "" || !c.target.Resource.Namespaced) {
		return nil // one object, by its name
	}
	after := c.page.Last + "\x00"
	if !c.whole {
		follows, err := c.state.Follows(ctx, after, namespace)
		if err != nil || !follows {
			return err
		}
	} else {
		here := stored.Place{RV: c.state.RV(), Start: c.start, Namespace: namespace}
		remaining, known := c.cached.Counts.Get(here)
		if remaining -= c.page.Count; !known {
			var err error
			if remaining, err = c.state.Count(ctx, after, namespace); err != nil {
				return err
			}
			c.cached.Counts.Put(here, remaining+c.page.Count) // for who asks for the same page
		}
		if remaining == 0 {
			return nil
		}
		here.Start = after
		c.cached.Counts.Put(here, remaining)
		list.Remaining = &remaining
	}
	if s, is := c.state.(inMemory); is {
		c.cached.Cache.Keep(s.Snapshot)
	}
	list.Continue = wire.EncodeContinue(int64(c.state.RV()), strings.TrimPrefix(c.page.Last, listPrefix(c.target))+"\x00")
	return nil
}

// selection returns what a request selects of a resource. A field selector that only
// names one object becomes a lookup.
func selection(t kinds.Target, o wire.ListOptions) watchcache.Selection {
	sel := watchcache.Selection{Labels: o.Labels, Fields: o.Fields, Name: t.Name}
	if t.Resource.Readings != nil {
		sel.Read = t.Resource.Readings.Of
	}
	if t.Resource.Namespaced {
		sel.Namespace = t.Namespace
	}
	if o.Fields == nil {
		return sel
	}
	if t.Resource.Conversion != nil || len(t.Resource.FieldAliases) > 0 {
		sel.Fields = storedFields(t.Resource, o.Fields)
	}
	if name, exact := o.Fields.RequiresExactMatch("metadata.name"); exact && sel.Name == "" {
		sel.Name = name
		if len(o.Fields.Requirements()) == 1 && name != "" {
			sel.Fields = fields.Everything()
		}
	}
	if namespace, exact := o.Fields.RequiresExactMatch("metadata.namespace"); exact && t.Resource.Namespaced &&
		sel.Namespace == "" {
		sel.Namespace = namespace
	}
	return sel
}

// storedFields returns a field selector with the labels of the stored fields.
func storedFields(resource *kinds.Resource, s fields.Selector) fields.Selector {
	stored, err := s.Transform(func(label, value string) (string, string, error) {
		return resource.StoredField(label), value, nil
	})
	if err != nil {
		return s // the function above returns no error
	}
	return stored
}

// listPrefix is the beginning of the keys that a list's continue tokens leave out.
func listPrefix(t kinds.Target) string {
	if t.Resource.Namespaced && t.Namespace != "" {
		return t.Namespace + "/"
	}
	return ""
}

// shownAs yields stored objects as a resource shows them, without converting their content; those
// that are stored in its version, and in their read form, are unchanged.
func shownAs(all iter.Seq2[*wire.Object, error], resource *kinds.Resource) iter.Seq2[*wire.Object, error] {
	show := resource.Shows()
	return func(yield func(*wire.Object, error) bool) {
		for o, err := range all {
			if err == nil {
				o = show(resource.Readings.Of(o))
			}
			if !yield(o, err) {
				return
			}
		}
	}
}
