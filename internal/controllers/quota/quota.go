// Package quota keeps the status of ResourceQuotas, as the resourcequota controller of kube-controller-manager does: its
// hard limits are those of the spec, and used is what the objects of the namespace use.
//
// The [Controller] follows all changes and notes, for each namespace with quotas, which resources have changed. Workers
// count those again, soon after something was deleted or has ended, and a moment after something was created, which the
// admission plugin has charged already. What is charged for objects that are not stored yet (quota.Ledger) is counted
// too, so that a count never takes away what a write is about to use. kubernetes pkg/controller/resourcequota counts
// without it.
//
// It has no state of its own: a start counts everything. count.go counts, write.go writes, queue.go has the order.
package quota

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/internal/kinds"
	quotas "github.com/gapless-io/gapless/internal/quota"
	"github.com/gapless-io/gapless/internal/wire"
)

// Verbs is what a Controller needs of a registry.
type Verbs interface {
	List(ctx context.Context, t kinds.Target, o wire.ListOptions) (*wire.List, error)
	ChangeStatus(
		ctx context.Context, gr kinds.GroupResource, key wire.Key, manager string,
		do func(u *unstructured.Unstructured, current *wire.Object) error,
	) (*wire.Object, error)
}

// Config configures a Controller. All members are required, but Shared.
type Config struct {
	Live   *kinds.Live
	Logger *slog.Logger
	// Table, Classes and Ledger are those of the admission plugin; the first two follow the registry before the
	// Controller does.
	Table   *quotas.Table
	Classes *quotas.DeviceClasses
	Ledger  *quotas.Ledger
	// Shared says that other servers write to the same store, and charge quotas.
	Shared bool
}

// Controller keeps the status of quotas. It is a registry.Collector.
type Controller struct {
	cfg   Config
	verbs Verbs // set by Run, before the workers begin
	queue queue

	// mu guards spaces, and what is in them besides the counts. That of the queue may be locked while it is held.
	mu      sync.Mutex
	spaces  map[string]*space
	running bool

	writes, errors atomic.Int64
}

// space is a namespace with quotas.
type space struct {
	changes map[kinds.GroupResource]int64 // how many there were, since the quotas were first seen
	countAt time.Time                     // when what has changed is to be counted; zero: nothing has
	gone    []gone                        // what uses less than before, for a shared store

	// Of the worker whose turn the namespace is:
	counts map[string]*count // of quotas, by name
	seen   map[kinds.GroupResource]map[string]seen
}

// gone is an object that was deleted (after is nil), or that may use less.
type gone struct {
	gr            kinds.GroupResource
	before, after *wire.Object
}

const (
	// workers is how many namespaces are counted at once: they share the syncs of the store.
	workers = 8
	// created is how long the count waits after a creation, which was charged.
	created = time.Second
	// rest is the least time between two counts of a namespace; and it is share times as long as the last one took, but
	// not longer than mostRest: it may have waited for a store that hung.
	rest     = 100 * time.Millisecond
	share    = 20
	mostRest = 10 * time.Second
	// resync is how often all is counted again: kube-controller-manager's --resource-quota-sync-period.
	resync = 5 * time.Minute
)

// How long a namespace waits after its first failure, and at most: each failure doubles it.
const (
	minRetry = 100 * time.Millisecond
	maxRetry = time.Minute
)

// New returns a Controller; it starts nothing. It follows changes from the start, and acts on them when it runs.
func New(cfg Config) *Controller {
	c := &Controller{cfg: cfg, queue: newQueue(), spaces: map[string]*space{}}
	cfg.Ledger.Look = c.look
	return c
}

// Load implements registry.Collector.
func (c *Controller) Load(gr kinds.GroupResource, objects iter.Seq[*wire.Object]) {
	if gr == quotas.Quotas() {
		for o := range objects {
			c.note(gr, nil, o)
		}
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for namespace, s := range c.spaces { // of a resource that is loaded late, or defined
		s.changes[gr]++
		c.countLocked(namespace, s, time.Now().Add(created))
	}
}

// countLocked asks for a count of a namespace at a time, or earlier if that was asked for.
func (c *Controller) countLocked(namespace string, s *space, at time.Time) {
	if s.countAt.IsZero() || at.Before(s.countAt) {
		s.countAt = at
	}
	c.queue.add(namespace, at)
}

// look counts the namespace of a quota after a time.
func (c *Controller) look(key wire.Key, after time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.spaces[key.Namespace]; s != nil {
		c.countLocked(key.Namespace, s, time.Now().Add(after))
	}
}

// Changed implements registry.Collector.
func (c *Controller) Changed(gr kinds.GroupResource, before, after *wire.Object) {
	if gr.Group == "resource.k8s.io" && gr.Resource == "deviceclasses" {
		c.Load(kinds.GroupResource{Group: gr.Group, Resource: "resourceclaims"}, nil)
		return
	}
	c.note(gr, before, after)
}

// Forget implements registry.Collector.
func (c *Controller) Forget(gr kinds.GroupResource) { c.Load(gr, nil) }

// Defined implements registry.Collector.
func (c *Controller) Defined() {}

// note notes a change of an object of a namespace with quotas.
func (c *Controller) note(gr kinds.GroupResource, before, after *wire.Object) {
	o := after
	if o == nil {
		o = before
	}
	namespace := o.Key().Namespace
	if namespace == "" || !c.cfg.Table.Has(namespace) && gr != quotas.Quotas() {
		return
	}
	same := before != nil && after != nil && !quotas.Updates(gr, "") // only the number counts
	if same && gr != quotas.Quotas() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.spaces[namespace]
	if s == nil {
		s = &space{
			changes: map[kinds.GroupResource]int64{}, counts: map[string]*count{},
			seen: map[kinds.GroupResource]map[string]seen{},
		}
		c.spaces[namespace] = s
	}
	now := time.Now()
	if gr == quotas.Quotas() {
		c.queue.add(namespace, now) // its spec may have changed
	}
	if same {
		return
	}
	s.changes[gr]++
	if before != nil && c.cfg.Shared && c.running {
		s.gone = append(s.gone, gone{gr, before, after})
	}
	if before == nil {
		now = now.Add(created)
	}
	c.countLocked(namespace, s, now)
}

// Run keeps the status of quotas until ctx ends, which is no error. It is called when verbs are served, and not again
// before it has returned: each Run counts everything.
func (c *Controller) Run(ctx context.Context, verbs Verbs) error {
	c.verbs = verbs
	c.begin()
	defer c.end()
	var wg sync.WaitGroup
	// They are Run's, and end with ctx.
	for range workers {
		wg.Go(func() { c.work(ctx) })
	}
	wg.Go(func() { c.resync(ctx) })
	wg.Wait()
	return nil
}

func (c *Controller) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = true
	for namespace, s := range c.spaces {
		clear(s.counts)
		s.gone = nil
		c.countLocked(namespace, s, time.Now())
	}
}

func (c *Controller) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = false
}

// resync counts all namespaces again from time to time, spread over a tenth of that time.
func (c *Controller) resync(ctx context.Context) {
	ticker := time.NewTicker(resync)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		c.mu.Lock()
		at, step := time.Now(), resync/10/time.Duration(len(c.spaces)+1)
		for namespace, s := range c.spaces {
			for gr := range s.changes {
				s.changes[gr]++
			}
			at = at.Add(step)
			c.countLocked(namespace, s, at)
		}
		c.mu.Unlock()
	}
}

// work counts one namespace after the other.
func (c *Controller) work(ctx context.Context) {
	for {
		i, wait := c.queue.take(time.Now())
		if i == nil {
			timer := time.NewTimer(wait)
			select {
			case <-c.queue.wake:
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return
			}
			timer.Stop()
			continue
		}
		if ctx.Err() != nil {
			c.queue.done(i, time.Now(), time.Now())
			return
		}
		c.turn(ctx, i)
	}
}

// turn counts a namespace, and says when that is due again.
func (c *Controller) turn(ctx context.Context, i *item) {
	began := time.Now()
	next, err := c.handle(ctx, i.namespace)
	pause := min(max(rest, share*time.Since(began)), mostRest)
	if err != nil {
		pause = rest // a retry waits longer
	}
	notBefore := time.Now().Add(pause)
	if err != nil && ctx.Err() == nil {
		c.errors.Add(1)
		i.retry = min(max(2*i.retry, minRetry), maxRetry)
		next = time.Now().Add(i.retry)
		c.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "keep the status of quotas: trying again later",
			slog.String("namespace", i.namespace), slog.Int64("retry_ms", i.retry.Milliseconds()), slog.Any("err", err))
	} else {
		i.retry = 0
	}
	c.queue.done(i, next, notBefore)
}

// handle counts the quotas of a namespace, and returns when to do so again; zero if nothing changes meanwhile.
func (c *Controller) handle(ctx context.Context, namespace string) (next time.Time, err error) {
	all, err := c.cfg.Table.In(namespace)
	if err != nil {
		return time.Time{}, err
	}
	s, t := c.take(namespace, len(all) == 0)
	if s == nil {
		return time.Time{}, nil
	}
	s.forget(all)
	next = t.next
	var errs []error
	for _, q := range all {
		if !t.due && s.inForce(q) {
			continue
		}
		again, err := c.sync(ctx, s, q, t.gone)
		errs = append(errs, err)
		c.mu.Lock()
		switch {
		case err != nil:
			s.countAt = time.Now()
		case !again.IsZero():
			if s.countAt.IsZero() || again.Before(s.countAt) {
				s.countAt = again
			}
			next = s.countAt
		}
		c.mu.Unlock()
	}
	return next, errors.Join(errs...)
}

// forget forgets the counts of quotas that are gone.
func (s *space) forget(all []*quotas.Quota) {
	for name := range s.counts {
		if !slices.ContainsFunc(all, func(q *quotas.Quota) bool { return q.Name == name }) {
			delete(s.counts, name)
		}
	}
}

// inForce reports whether what a quota's spec says is counted, and in its status.
func (s *space) inForce(q *quotas.Quota) bool {
	n := s.counts[q.Name]
	return n != nil && equality.Semantic.DeepEqual(n.spec, q.Spec) && quotas.Equal(q.Spec.Hard, q.Status.Hard)
}

// taken is what is to be done for a namespace.
type taken struct {
	due  bool      // count what has changed
	next time.Time // when it will be due; zero: nothing has changed
	gone []gone    // since it was due last
}

// take returns a namespace with quotas, and what is to be done; nil, and forgets it, if it has none.
func (c *Controller) take(namespace string, none bool) (*space, taken) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.spaces[namespace]
	switch {
	case s == nil:
		return nil, taken{}
	case none && c.cfg.Table.Has(namespace): // one has come since: its note may be that of this turn
		return s, taken{next: time.Now()}
	case none:
		delete(c.spaces, namespace)
		return nil, taken{}
	}
	if s.countAt.IsZero() || time.Now().Before(s.countAt) {
		return s, taken{next: s.countAt}
	}
	t := taken{due: true, gone: s.gone}
	s.gone, s.countAt = nil, time.Time{}
	return s, t
}

// Stats are the figures of a Controller.
type Stats struct {
	Namespaces int   // with quotas
	Writes     int64 // of a quota's status, ever
	Errors     int64 // failures, ever; they are tried again
}

// Stats returns the current figures.
func (c *Controller) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{Namespaces: len(c.spaces), Writes: c.writes.Load(), Errors: c.errors.Load()}
}
