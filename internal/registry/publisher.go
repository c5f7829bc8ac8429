package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/internal/schema/custom"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/kube"
)

// publisher turns the store's feed into entries of the caches, in the order of
// the revisions, and moves the clock when every cache has them. It is the only
// one that appends, and that changes the catalog and the table of kinds.
type publisher struct {
	*Registry
	feed store.Feed
	// pending are the entries of the batch at hand that are not appended yet.
	pending map[*kind][]*watchcache.Entry
	order   []*kind // the keys of pending
}

// loadAttempts bounds how often loading begins again because history is forgotten
// faster than it is read.
const loadAttempts = 10

// load reads everything at one revision, and returns what publishes the rest.
func (r *Registry) load(ctx context.Context) (*publisher, error) {
	for attempt := 1; ; attempt++ {
		p, err := r.loadOnce(ctx)
		if _, compacted := errors.AsType[*store.CompactedError](err); !compacted || attempt == loadAttempts {
			return p, err
		}
	}
}

func (r *Registry) loadOnce(ctx context.Context) (*publisher, error) {
	revision, err := r.store.Progress(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask for the latest revision: %w", err)
	}
	feed, err := r.store.Changes(ctx, store.From{After: revision})
	if err != nil {
		return nil, fmt.Errorf("open the feed after revision %d: %w", revision, err)
	}
	r.clock = watchcache.NewClock(kube.ResourceVersion(revision))
	catalog := r.live.Load()
	kinds := map[string]*kind{}
	if definitions, found := catalog.Storage(definitionsGR()); found {
		k, err := r.loadKind(ctx, catalog, definitions.GR(), revision)
		if err != nil {
			return nil, errors.Join(err, feed.Close())
		}
		kinds[k.gr.String()] = k
		if catalog, err = defined(catalog, k.cache.Snapshot()); err != nil {
			return nil, errors.Join(err, feed.Close())
		}
	}
	for _, resource := range catalog.Stored() {
		if kinds[resource.GR().String()] != nil {
			continue
		}
		k, err := r.loadKind(ctx, catalog, resource.GR(), revision)
		if err != nil {
			return nil, errors.Join(err, feed.Close())
		}
		kinds[k.gr.String()] = k
	}
	r.kinds.Store(&kinds)
	r.live.Store(catalog)
	return &publisher{Registry: r, feed: feed, pending: map[*kind][]*watchcache.Entry{}}, nil
}

// loadKind returns a kind with its state at a revision.
func (r *Registry) loadKind(ctx context.Context, c *schema.Catalog, gr schema.GroupResource, revision int64) (*kind, error) {
	k := r.newKind(gr, selectable(c, gr))
	objects, err := k.read(ctx, r.store, revision)
	if err != nil {
		return nil, err
	}
	k.cache.Load(objects, kube.ResourceVersion(revision))
	return k, nil
}

// run publishes until ctx ends or something cannot be published.
func (p *publisher) run(ctx context.Context) error {
	for {
		batch, err := p.feed.Next(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return p.failed(ctx, fmt.Errorf("follow the store's feed: %w", err))
		}
		if err := p.publish(ctx, batch); err != nil {
			return p.failed(ctx, err)
		}
	}
}

// failed logs what stops the publisher: nothing written from now on becomes
// visible, so that somebody must look.
func (p *publisher) failed(ctx context.Context, err error) error {
	p.report(err)
	p.logger.LogAttrs(ctx, slog.LevelError, "publishing stopped: what is written is not visible any more; restart the server",
		slog.Int64("rv", int64(p.clock.Published())), slog.Any("err", err))
	return err
}

// publish makes one batch visible.
func (p *publisher) publish(ctx context.Context, batch store.Batch) error {
	definitions := definitionsGR().String()
	for _, change := range batch.Changes {
		resource := store.ResourceOf(change.Key)
		k := (*p.kinds.Load())[resource]
		if k == nil {
			continue // its definition is gone, or not established: nobody can ask for it
		}
		e, err := k.change(change)
		if err != nil {
			return err
		}
		if p.pending[k] == nil {
			p.order = append(p.order, k)
		}
		p.pending[k] = append(p.pending[k], e)
		if resource == definitions {
			p.flush()
			if err := p.define(ctx, e); err != nil {
				return err
			}
		}
	}
	p.flush()
	p.clock.Publish(kube.ResourceVersion(batch.Through))
	return nil
}

// change is entry without the previous object, where the cache knows it.
func (k *kind) change(c store.Change) (*watchcache.Entry, error) {
	if !c.Deleted {
		c.Previous = nil
	}
	return k.entry(c)
}

// flush appends what is pending, one batch for each resource.
func (p *publisher) flush() {
	for _, k := range p.order {
		entries := p.pending[k]
		k.cache.Append(entries...)
		delete(p.pending, k)
		p.emptying.notice(k, entries)
	}
	p.order = p.order[:0]
}

// define puts a definition in force that was appended but not published yet: when
// its writer is answered, the resource is there.
func (p *publisher) define(ctx context.Context, e *watchcache.Entry) error {
	gr := resourceOf(e.Object.Key().Name)
	catalog := p.live.Load()
	if r, found := catalog.Storage(gr); found && !r.Custom {
		p.logger.LogAttrs(ctx, slog.LevelWarn, "a definition of a built-in resource has no effect", slog.String("resource", gr.String()))
		return nil
	}
	var resources []*schema.Resource
	if !e.Deleted {
		var err error
		if resources, err = custom.Resources(e.Object.JSON()); err != nil {
			return fmt.Errorf("definition %s at revision %d: %w", gr, e.RV, err)
		}
	}
	k := (*p.kinds.Load())[gr.String()]
	if len(resources) == 0 {
		if k != nil {
			p.live.Store(catalog.Without(gr))
			p.setKind(gr.String(), nil)
			k.gone.Store(int64(e.RV))
			k.cache.End(e.RV)
		}
		return nil
	}
	catalog = catalog.With(resources...)
	if err := p.prepare(ctx, catalog, k, e); err != nil {
		return err
	}
	p.live.Store(catalog)
	if k != nil {
		k.cache.Interrupt() // watches of a version that is no longer served end
	}
	return nil
}

// prepare makes the cache of a defined resource, or readies the one that is there
// for other selectable fields: its objects are read again, its watches stay, and
// what memory holds of its log is left to the store, where it is read anew.
func (p *publisher) prepare(ctx context.Context, catalog *schema.Catalog, k *kind, e *watchcache.Entry) error {
	gr := resourceOf(e.Object.Key().Name)
	fields := selectable(catalog, gr)
	if k == nil {
		k, err := p.loadKind(ctx, catalog, gr, int64(e.RV))
		if err != nil {
			return err
		}
		p.setKind(gr.String(), k)
		return nil
	}
	if sameFields(fields, *k.fields.Load()) {
		return nil
	}
	k.fields.Store(&fields)
	var objects []*kube.Object
	for o := range k.cache.Snapshot().Scan("", watchcache.Selection{}) {
		again, err := k.object(k.key(o.Key()), o.Value(), int64(o.ResourceVersion()))
		if err != nil {
			return err
		}
		objects = append(objects, again)
	}
	k.cache.Load(slices.Clip(objects), e.RV)
	k.cache.Forget(e.RV)
	return nil
}
