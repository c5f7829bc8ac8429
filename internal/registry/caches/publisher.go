package caches

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// Publisher turns a store's stream of changes into entries of the caches, in the order of the
// revisions, and moves the clock when every cache has them.
type Publisher struct {
	set      *Set
	of       *sequence
	feed     store.Changes // nil: the store was not read yet
	follower Follower
	// pending are the entries of the current batch that are not appended yet.
	pending map[*Resource]*pending
	order   []*Resource // the keys of pending
	// hole is the one whose difference is being read, nil if there is none. The difference is
	// gathered as a whole: between its changes there is no state that anybody may see.
	hole       *store.Hole
	difference []store.Change
	// compacted is the revision up to which the caches are, or will soon be, compacted with
	// the store.
	compacted int64
	// unread are the resources with values that cannot be read, and tried is when they were tried last.
	unread map[*Resource]bool
	tried  time.Time
}

// Follower gets what the publishers do, one after the other, in the order of the revisions of each store
// and before its clock moves: when a write is acknowledged, its follower knows of it. Its methods must
// not block.
type Follower interface {
	// Loaded is called for a resource whose store could not be read before Run, with all its objects in
	// the cache, before anything else of it.
	Loaded(r *Resource)
	// Appended is called after each append, with the entries of one resource.
	Appended(r *Resource, entries []*watchcache.Entry)
	// Defined is called when a definition has taken effect. created is the cache of its
	// resource if that is new, ended the cache if the resource is no longer served; nil
	// otherwise.
	Defined(created, ended *Resource)
}

// loadAttempts bounds how often loading begins again because history is compacted
// faster than it is read.
const loadAttempts = 10

const (
	// loadRetry is the time between two attempts while something that the start needs does not answer.
	loadRetry = time.Second
	// sayEvery is at how many of these attempts it is logged that the start waits.
	sayEvery = 10
	// lateAttempts is how many times it is tried again to read a store at the start that may be late.
	lateAttempts = 5
)

// Load reads everything, of each store at one revision, and returns the publishers of later changes, which
// the caller closes. Load is called once. Calls of WaitPublished end with ctx. It waits while
// a store cannot be read yet, unless that may be late, or a value cannot be decrypted because a key management
// service does not answer.
func (s *Set) Load(ctx context.Context) (Publishers, error) {
	var all Publishers
	for _, q := range append([]*sequence{s.main}, s.apart...) {
		p, err := q.load(ctx, !q.late)
		if q.late && mayPass(err) != "" {
			s.logger.LogAttrs(ctx, slog.LevelWarn, "some resources are not served until their store was read",
				slog.String("resources", q.String()), slog.Any("error", err))
			why := err
			q.unread.Store(&why)
			p, err = &Publisher{set: s, of: q}, nil
		}
		if err != nil {
			return nil, errors.Join(err, all.Close())
		}
		all = append(all, p)
	}
	return all, nil
}

// load reads the store. It waits while that cannot be read, if it is to.
func (q *sequence) load(ctx context.Context, waits bool) (*Publisher, error) {
	q.publishing.Store(&ctx)
	for attempt, waited := 1, 0; ; {
		p, err := q.loadOnce(ctx)
		if wait := mayPass(err); wait != "" {
			if !waits && waited == lateAttempts {
				return nil, err
			}
			if waited%sayEvery == 0 {
				q.set.logger.LogAttrs(ctx, slog.LevelWarn, "the start waits", slog.String("for", wait),
					slog.String("resources", cmp.Or(q.String(), "all")), slog.Any("error", err))
			}
			waited++
			select {
			case <-time.After(loadRetry):
				continue
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		if _, compacted := errors.AsType[*store.CompactedError](err); !compacted || attempt == loadAttempts {
			return p, err
		}
		attempt++
	}
}

// mayPass returns what an attempt to load lacks for the moment; "" if waiting does not help.
func mayPass(err error) string {
	if e, is := errors.AsType[*store.UnreadableError](err); is && e.Temporary {
		return "key management service"
	}
	if e, is := errors.AsType[*store.UnavailableError](err); is && e.Reading {
		return "store"
	}
	return ""
}

func (q *sequence) loadOnce(ctx context.Context) (*Publisher, error) {
	revision, err := q.store.Progress(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask for the latest revision: %w", err)
	}
	feed, err := q.store.Changes(ctx, store.From{
		After: revision, Hold: true, Unreadable: q.set.shared,
		// The caches have the objects before changes; the last content of a deleted one
		// is decoded afresh.
		Want: func(c store.Change) (value, previous bool) { return true, c.Deleted },
	})
	if err != nil {
		return nil, fmt.Errorf("open the feed after revision %d: %w", revision, err)
	}
	if err := q.loadAt(ctx, revision); err != nil {
		return nil, errors.Join(err, feed.Close())
	}
	p := &Publisher{set: q.set, of: q, feed: feed, pending: map[*Resource]*pending{}, unread: map[*Resource]bool{}}
	p.loaded(ctx, slices.Collect(q.resources)...)
	return p, nil
}

// loadMain fills the set with the state at a revision of the main store: the definitions first, since they
// say which other resources there are.
func (s *Set) loadMain(ctx context.Context, revision int64) error {
	catalog := s.live.Load()
	all, created := map[string]*Resource{}, map[string]int64{}
	edited := func(kinds.GroupResource) int64 { return 0 }
	if definitions, found := catalog.Storage(kinds.Definitions()); found {
		r := s.main.newResource(catalog, definitions.GR())
		err := r.load(ctx, revision)
		if err != nil {
			return err
		}
		all[r.GR.String()] = r
		if created, err = r.Created(ctx, revision); err != nil {
			return err
		}
		if catalog, err = withDefinitions(catalog, r); err != nil {
			return err
		}
		edited = func(gr kinds.GroupResource) int64 {
			if definition, found := r.Cache.Snapshot().Get(wire.Key{Name: gr.String()}); found {
				return int64(definition.ResourceVersion())
			}
			return 0
		}
	}
	storing := catalog.Stored()
	far := newLoading(s.logger, len(storing))
	for _, resource := range storing {
		if all[resource.GR().String()] != nil || s.of(resource.GR()) != s.main {
			continue
		}
		r := s.main.newResource(catalog, resource.GR())
		r.Since(created[resource.GR().String()])
		r.selectsFrom.Store(edited(resource.GR())) // at the latest: earlier schemas are not known any more
		if err := r.load(ctx, revision); err != nil {
			return err
		}
		all[r.GR.String()] = r
		far.add(ctx, r)
	}
	if err := readableSoon(all); err != nil {
		return err
	}
	s.resources.Store(&all)
	s.live.Store(catalog)
	return nil
}

// readableSoon returns why a value cannot be read that soon can be: Load waits for it.
func readableSoon(all map[string]*Resource) error {
	for _, r := range all {
		for _, o := range r.Unreadable() {
			if o.Why.Temporary {
				return o.Why
			}
		}
	}
	return nil
}

// Close closes the feed.
func (p *Publisher) Close() error {
	if p.feed == nil {
		return nil
	}
	return p.feed.Close()
}

// run publishes until ctx ends, whose cause it returns, or until something cannot be
// published: then nothing that is written becomes visible any more.
func (p *Publisher) run(ctx context.Context) error {
	if p.feed == nil {
		if err := p.loadLate(ctx); err != nil {
			return p.stopped(ctx, err)
		}
	}
	for {
		batch, err := p.next(ctx)
		if err != nil {
			return p.stopped(ctx, fmt.Errorf("follow the store's feed: %w", err))
		}
		if err := p.publish(ctx, batch); err != nil {
			return p.stopped(ctx, err)
		}
	}
}

// stopped logs what stops the publisher, if it is not the end of ctx.
func (p *Publisher) stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p.set.logger.LogAttrs(ctx, slog.LevelError, "publishing stopped: new writes stay invisible; restart the server",
		slog.String("resources", cmp.Or(p.of.String(), "all")), slog.Int64("rv", int64(p.of.published())), slog.Any("err", err))
	return err
}

// publish makes one batch visible.
func (p *Publisher) publish(ctx context.Context, batch store.Batch) error {
	changes := batch.Changes
	if p.hole != nil || len(batch.Holes) > 0 {
		var err error
		if changes, err = p.gather(ctx, batch); err != nil {
			return err
		}
	}
	if p.hole == nil {
		if err := p.visible(ctx, changes, batch.Through); err != nil {
			return err
		}
	}
	if batch.Compacted > p.compacted {
		p.compacted = batch.Compacted
		p.of.forgetSoon(p.compacted)
	}
	return nil
}

// visible makes some changes visible, which are all up to a revision.
func (p *Publisher) visible(ctx context.Context, changes []store.Change, through int64) error {
	if err := p.changes(ctx, changes); err != nil {
		return err
	}
	p.flush()
	p.of.clock.Publish(kube.ResourceVersion(through))
	if len(p.unread) > 0 {
		p.settle(ctx)
	}
	return nil
}

// changes makes entries of some changes, revision by revision.
func (p *Publisher) changes(ctx context.Context, changes []store.Change) error {
	definitions := kinds.Definitions().String() + "/"
	for len(changes) > 0 {
		n := 1
		for n < len(changes) && changes[n].Revision == changes[0].Revision {
			n++
		}
		if n == 1 && !strings.HasPrefix(changes[0].Key, definitions) {
			if err := p.change(ctx, changes[0]); err != nil {
				return err
			}
		} else if err := p.together(ctx, changes[:n]); err != nil {
			return err
		}
		changes = changes[n:]
	}
	return nil
}

// together makes entries of the changes of one revision, or of a hole. Definitions are the last: what
// they define is loaded with the other changes.
func (p *Publisher) together(ctx context.Context, changes []store.Change) error {
	definitions := kinds.Definitions().String()
	var defining []store.Change
	for _, c := range changes {
		if store.ResourceOf(c.Key) == definitions {
			defining = append(defining, c)
		} else if err := p.change(ctx, c); err != nil {
			return err
		}
	}
	r := (*p.set.resources.Load())[definitions]
	if len(defining) == 0 || r == nil {
		return nil
	}
	p.flush()
	p.tell(r)
	for _, c := range defining {
		e, err := p.entry(ctx, r, c)
		if err != nil {
			return err
		}
		if e == nil {
			continue
		}
		// Before the entry: who sees a definition established is served its resource, and
		// who sees one removed can have its names.
		done, err := p.putInForce(ctx, r, e)
		if err != nil {
			return err
		}
		if done {
			p.add(r, e)
		}
	}
	return nil
}

// change makes the entry of a change.
func (p *Publisher) change(ctx context.Context, c store.Change) error {
	r := (*p.set.resources.Load())[store.ResourceOf(c.Key)]
	// Its definition was deleted, or is not established: it has no readers. Or the resource has its own store, and what
	// is here under its name is none of its objects.
	if r == nil || r.of != p.of {
		return nil
	}
	e, err := p.entry(ctx, r, c)
	if e != nil {
		p.add(r, e)
	}
	return err
}

func (p *Publisher) add(r *Resource, e *watchcache.Entry) {
	if p.pending[r] == nil {
		p.order = append(p.order, r)
		p.pending[r] = &pending{}
	}
	p.pending[r].entries = append(p.pending[r].entries, e)
}

// flush appends what is pending, one batch for each resource.
func (p *Publisher) flush() {
	for _, r := range p.order {
		entries := p.pending[r].entries
		if p.hole == nil {
			r.Cache.Append(entries...)
		} else {
			r.Cache.AppendHole(gap(p.hole), entries...)
		}
		delete(p.pending, r)
		p.follower.Appended(r, entries)
	}
	p.order = p.order[:0]
}
