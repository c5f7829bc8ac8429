package informer

import (
	"context"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gapless-io/gapless/informer/internal/course"
	"github.com/gapless-io/gapless/informer/internal/reflector"
	"github.com/gapless-io/gapless/informer/internal/state"
)

// part is one stream of an informer: all of its collection, or one of several
// namespaces. It is the host of that stream's reflector.
type part[T Object] struct {
	of        *Informer[T]
	place     int    // among the informer's parts
	namespace string // "" if it is the only part
	reflector *reflector.Reflector[held[T]]
}

// newParts makes the informer's parts.
func (i *Informer[T]) newParts() {
	if i.source.decode == nil {
		return
	}
	i.holds = i.source.holds()
	for n, of := range i.source.parts {
		p := &part[T]{of: i, place: n, namespace: of.namespace}
		p.reflector = reflector.New(i.source.reads(of, i.holds), p, i.opts.begin())
		i.parts = append(i.parts, p)
	}
	i.positions = make([]string, len(i.parts))
	if len(i.parts) > 1 {
		i.merged = state.NewTree[held[T]]()
	}
}

// reflect keeps all parts current until ctx ends, or until one of them gives up.
func (i *Informer[T]) reflect(ctx context.Context) error {
	if len(i.parts) == 1 {
		return i.parts[0].reflector.Run(ctx)
	}
	all, ctx := errgroup.WithContext(ctx)
	for _, p := range i.parts {
		all.Go(func() error { return p.reflector.Run(ctx) })
	}
	return all.Wait()
}

// Publish makes the reflector's state part of the informer's.
func (p *part[T]) Publish(changes []change[T], rv string, whole bool) {
	i := p.of
	if len(changes) > 0 {
		i.waitRoom()
	}
	i.publishing.Lock()
	defer i.publishing.Unlock()
	now := i.current.Load()
	back := course.Before(rv, i.positions[p.place])
	i.positions[p.place] = rv
	tree := p.reflector.Tree()
	if len(i.parts) > 1 {
		i.merged.Apply(changes)
		tree, rv = i.merged, least(i.positions)
		if rv == "" {
			return // others are still to be read
		}
		whole = now.rv == ""
		if whole {
			changes = changes[:0:0]
			state.Diff(now.tree, tree, rv, func(c change[T]) bool {
				changes = append(changes, c)
				return true
			})
		}
	}
	if i.mirror != nil {
		i.mirror(Turn[T]{RV: rv, Whole: whole, changes: changes, tree: tree})
	}
	next := i.successor(now, tree, changes)
	next.rv = rv
	if back {
		next.epoch++
	}
	i.publish(next, changes, now.rv == "")
}

// least is the oldest of several positions, "" if one is not known.
func least(positions []string) string {
	oldest := positions[0]
	for _, rv := range positions[1:] {
		if rv == "" || course.Before(rv, oldest) {
			oldest = rv
		}
	}
	return oldest
}

// successor is the state after changes, which are in tree. publishing must be held.
func (i *Informer[T]) successor(now *snapshot[T], tree state.Tree[held[T]], changes []change[T]) *snapshot[T] {
	next := &snapshot[T]{tree: now.tree, epoch: now.epoch, indexed: now.indexed, superseded: make(chan struct{})}
	if len(i.parts) > 1 {
		next.positions = slices.Clone(i.positions)
	}
	if len(changes) > 0 {
		next.tree = tree.Copy()
		next.indexed = make([]any, len(now.indexed))
		for n, index := range i.indexers {
			next.indexed[n] = index(now.indexed[n], changes)
		}
	}
	return next
}

// publish makes next the current snapshot and tells the handlers. first says that it
// is the first complete state. publishing must be held.
func (i *Informer[T]) publish(next *snapshot[T], changes []change[T], first bool) {
	i.gauge(next)
	i.mu.Lock()
	defer i.mu.Unlock()
	close(i.current.Swap(next).superseded)
	for _, h := range i.handlers {
		if len(changes) > 0 {
			i.tellLocked(h, changes, first)
		}
		if first {
			h.Prime()
		}
	}
	if first {
		close(i.synced)
	}
}

// Report makes an incident of what went wrong with the stream.
func (p *part[T]) Report(in reflector.Incident) {
	if in.Key.Name == "" {
		in.Key.Namespace = p.namespace
	}
	p.of.report(Incident{
		Kind: IncidentKind(in.Trouble), At: time.Now(), Err: in.Err, RV: in.RV, Key: in.Key, Next: in.Next,
	})
}

// Begin records what is about to be done.
func (p *part[T]) Begin(does course.Action) {
	switch does {
	case course.DoList, course.DoStream:
		p.of.record(MetricLists, 1)
	case course.DoWatch:
		p.of.record(MetricWatches, 1)
	case course.DoRead, course.DoWait, course.DoStop:
	}
}

// End records how it ended.
func (p *part[T]) End(e reflector.Ending) {
	i := p.of
	if i.opts.record == nil {
		return
	}
	r := e.Result
	switch e.Did {
	case course.DoList, course.DoStream:
		if r.Kind != course.ResultListed && r.Kind != course.ResultStreamed {
			return
		}
		i.record(MetricListSeconds, e.Took.Seconds())
		i.record(MetricListItems, float64(p.reflector.Tree().Len()))
		if e.Again {
			i.record(MetricRelists, 1, IncidentKind(e.Why).String())
		}
	case course.DoWatch, course.DoRead:
		if r.Frames == 0 && r.Kind == course.ResultFailed {
			return // it was not opened, or might as well not have been
		}
		i.record(MetricWatchSeconds, r.Lived.Seconds())
		i.record(MetricWatchItems, float64(r.Frames))
		if r.Kind == course.ResultClosed && r.Frames == 0 && r.Lived < course.QuickClose {
			i.record(MetricShortWatches, 1)
		}
	case course.DoWait, course.DoStop:
	}
}

// gauge records what a new state is like.
func (i *Informer[T]) gauge(now *snapshot[T]) {
	if i.opts.record == nil {
		return
	}
	i.record(MetricObjects, float64(now.tree.Len()))
	if rv, err := strconv.ParseFloat(now.rv, 64); err == nil {
		i.record(MetricResourceVersion, rv)
	}
}

// restore makes the cache the state that another informer of the same source left
// behind, as if this one had read it: objects by their keys, and the position of each
// part. It is for before the first Run.
func (i *Informer[T]) restore(objects []held[T], positions []string) {
	trees := make([]state.Tree[held[T]], len(i.parts))
	place := map[string]int{}
	for n, p := range i.parts {
		trees[n] = state.NewTree[held[T]]()
		place[p.namespace] = n
	}
	all := make([][]change[T], len(i.parts))
	for _, object := range objects {
		key := state.KeyOf(object)
		n := place[key.Namespace] // 0 if there is one part
		trees[n].Put(object)
		all[n] = append(all[n], change[T]{Key: key, New: object, RV: object.GetResourceVersion()})
	}
	for n, p := range i.parts {
		p.reflector.Restore(trees[n], positions[n])
		p.Publish(all[n], positions[n], true)
	}
}
