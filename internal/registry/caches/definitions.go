package caches

import (
	"context"
	"log/slog"
	"slices"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/custom"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
)

// withDefinitions returns the catalog with the resources of all stored definitions. Those that cannot be read
// are noted, if others write to the store.
func withDefinitions(catalog *kinds.Catalog, definitions *Resource) (*kinds.Catalog, error) {
	var all []*kinds.Resource
	for o := range definitions.Cache.Snapshot().Scan("", watchcache.Selection{}) {
		gr := kinds.DefinedBy(o.Key().Name)
		if catalog.BuiltIn(gr) {
			continue
		}
		resources, err := custom.Resources(o.JSON())
		switch {
		case err == nil:
			all = append(all, resources...)
		case definitions.of.set.shared:
			definitions.unread.put(Unreadable{Resource: definitions.GR, Key: o.Key(), Why: undefinable(definitions, o, err)})
		default:
			return nil, undefinable(definitions, o, err)
		}
	}
	return catalog.With(all...), nil
}

// undefinable is the error of a definition from which no resource can be made.
func undefinable(definitions *Resource, o *wire.Object, cause error) *store.UnreadableError {
	return &store.UnreadableError{
		Key: definitions.Key(o.Key()), Revision: int64(o.ResourceVersion()), Malformed: true, Cause: cause,
	}
}

// putInForce is define, and reports whether it was done. A definition that defines nothing is noted like a
// value that cannot be read, if others write to the store: what it was goes on.
func (p *Publisher) putInForce(ctx context.Context, definitions *Resource, e *watchcache.Entry) (done bool, err error) {
	var resources []*kinds.Resource
	if !e.Deleted && !p.set.live.Load().BuiltIn(kinds.DefinedBy(e.Object.Key().Name)) {
		if resources, err = custom.Resources(e.Object.JSON()); err != nil {
			why := undefinable(definitions, e.Object, err)
			if p.set.shared {
				p.lose(ctx, definitions, why)
				return false, nil
			}
			return false, why
		}
	}
	return true, p.define(ctx, e, resources)
}

// define puts a definition in force that is not appended yet: when its writer is answered, or
// a watch shows it, its resources are there.
func (p *Publisher) define(ctx context.Context, e *watchcache.Entry, resources []*kinds.Resource) error {
	gr := kinds.DefinedBy(e.Object.Key().Name)
	catalog := p.set.live.Load()
	if catalog.BuiltIn(gr) {
		p.set.logger.LogAttrs(ctx, slog.LevelWarn, "a definition of a built-in resource has no effect",
			slog.String("resource", gr.String()))
		return nil
	}
	r := p.set.Lookup(gr)
	if r != nil && len(resources) > 0 {
		now, was := resources[0].Readings, *r.readings.Load()
		if !now.SelectAs(was) {
			r.selectsFrom.Store(int64(e.RV)) // before readers see the schema
		}
		now.Inherit(was)
	}
	if len(resources) == 0 {
		if r != nil {
			p.set.live.Store(catalog.Without(gr))
			p.set.replace(gr.String(), nil)
			r.endedAt.Store(int64(e.RV))
			r.Cache.End(e.RV)
			p.follower.Defined(nil, r)
		}
		return nil
	}
	catalog = catalog.With(resources...)
	if err := p.prepare(ctx, catalog, r, e); err != nil {
		return err
	}
	p.set.live.Store(catalog)
	if r != nil {
		r.readings.Store(&resources[0].Readings)
		r.Cache.Interrupt() // watches of a version that is no longer served end
		p.follower.Defined(nil, nil)
	} else {
		p.follower.Defined(p.set.Lookup(gr), nil)
	}
	return nil
}

// prepare makes the cache of a defined resource. Other changes of the definition's revision are
// in it already: see together. When the resource has one and its
// selectable fields change, prepare reads the objects in the cache again: watches stay
// open, and the older entries are read from the store from now on.
func (p *Publisher) prepare(ctx context.Context, catalog *kinds.Catalog, r *Resource, e *watchcache.Entry) error {
	gr := kinds.DefinedBy(e.Object.Key().Name)
	if r == nil {
		r := p.of.newResource(catalog, gr)
		r.Since(int64(e.RV))
		at := int64(e.RV)
		if p.hole != nil {
			at = p.hole.To // there is no state at e.RV
		}
		if err := r.load(ctx, at); err != nil {
			return err
		}
		p.set.replace(gr.String(), r)
		p.loaded(ctx, r)
		return nil
	}
	fields := selectable(catalog, gr)
	if sameFields(fields, r.Fields()) {
		return nil
	}
	r.SetFields(fields)
	var objects []*wire.Object
	for o := range r.Cache.Snapshot().Scan("", watchcache.Selection{}) {
		again, err := r.Object(r.Key(o.Key()), o.Value(), int64(o.ResourceVersion()))
		if err != nil {
			return err
		}
		objects = append(objects, again)
	}
	r.Cache.Load(slices.Clip(objects), e.RV)
	r.Cache.Forget(e.RV)
	return nil
}
