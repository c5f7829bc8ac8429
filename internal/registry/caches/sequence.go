package caches

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry/stored"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/kube"
)

// Apart is a store that has some built-in resources, and no others. Its revisions have nothing to do
// with those of other stores.
type Apart struct {
	Store     store.Store
	Resources []kinds.GroupResource
	// Late says that the rest is served while this store cannot be read yet: the server itself needs
	// nothing of it. Requests for its resources are 503 until it was read.
	Late bool
}

// sequence is a store of a set, and up to which of its revisions the caches of its resources are
// complete.
type sequence struct {
	set    *Set
	store  store.Store
	source *stored.Source
	own    []kinds.GroupResource // nil: those of no other sequence
	late   bool

	clock *watchcache.Clock // set before its resources are in the set
	// publishing is the context of the publisher: waitPublished ends with it.
	publishing atomic.Pointer[context.Context]
	unread     atomic.Pointer[error] // why it was not read yet; nil: it was
}

func newSequence(s *Set, a Apart) *sequence {
	return &sequence{set: s, store: a.Store, source: stored.NewSource(a.Store), own: a.Resources, late: a.Late}
}

// String names the resources of a sequence.
func (q *sequence) String() string {
	var names []string
	for _, gr := range q.own {
		names = append(names, gr.String())
	}
	return strings.Join(names, ", ")
}

// of returns the sequence of a resource.
func (s *Set) of(gr kinds.GroupResource) *sequence {
	for _, q := range s.apart {
		if slices.Contains(q.own, gr) {
			return q
		}
	}
	return s.main
}

// Unread returns why a resource cannot be served yet: 503 while its own store was not read; nil otherwise.
func (s *Set) Unread(gr kinds.GroupResource) error {
	if err := s.of(gr).notRead(); err != nil {
		return stored.Failure(err)
	}
	return nil
}

// notRead returns *store.UnavailableError while the store was not read; nil otherwise.
func (q *sequence) notRead() error {
	why := q.unread.Load()
	if why == nil {
		return nil
	}
	// Only the text of the cause: by its type it would be another failure than this one. And not that of an
	// object's, which not everybody may know of.
	cause := (*why).Error()
	if _, is := errors.AsType[*store.UnreadableError](*why); is {
		cause = "a key management service does not answer"
	}
	return &store.UnavailableError{
		Reading: true, Cause: fmt.Errorf("the store of %s has not been read yet: %s", q, cause),
	}
}

// resources are those of the sequence that are in the set.
func (q *sequence) resources(yield func(*Resource) bool) {
	for _, r := range *q.set.resources.Load() {
		if r.of == q && !yield(r) {
			return
		}
	}
}

// published returns the revision up to which the caches are complete; 0: nothing was read yet.
func (q *sequence) published() kube.ResourceVersion {
	if q.clock == nil {
		return 0
	}
	return q.clock.Published()
}

// waitPublished is Resource.WaitPublished.
//
//nolint:contextcheck // the publisher's context is another one than the caller's
func (q *sequence) waitPublished(ctx context.Context, rv kube.ResourceVersion) error {
	if rv <= q.clock.Published() {
		return nil
	}
	publishing := *q.publishing.Load()
	err := q.clock.WaitWhilePublishing(ctx, rv, publishing.Done())
	if errors.Is(err, watchcache.ErrStopped) {
		return fmt.Errorf("wait for revision %d to become visible: %w", rv, context.Cause(publishing))
	}
	return err
}

// compact removes history of the store.
func (q *sequence) compact(ctx context.Context, c store.Compaction) (int64, error) {
	if err := q.notRead(); err != nil {
		return 0, err
	}
	progress, err := q.store.Progress(ctx)
	if err != nil {
		return 0, err
	}
	if c.UpTo > progress {
		return 0, &store.FutureRevisionError{Requested: c.UpTo, Current: progress}
	}
	if err := q.waitPublished(ctx, kube.ResourceVersion(progress)); err != nil {
		return 0, err
	}
	return q.store.Compact(ctx, c)
}

// forgetAfter is how long the caches have what the store has compacted: a watch that was open then,
// and a moment behind, goes on.
const forgetAfter = 5 * time.Second

// forgetSoon drops from every cache what the store has compacted. Who asks for it does not get it
// any more (watchcache.History.Check), so that it would only take memory.
func (q *sequence) forgetSoon(upTo int64) {
	time.AfterFunc(forgetAfter, func() {
		for r := range q.resources {
			r.Cache.Forget(kube.ResourceVersion(upTo))
		}
	})
}

// loadAt fills the caches of the sequence with the state at a revision.
func (q *sequence) loadAt(ctx context.Context, revision int64) error {
	q.clock = watchcache.NewClock(kube.ResourceVersion(revision))
	if q == q.set.main {
		return q.set.loadMain(ctx, revision)
	}
	catalog, read := q.set.live.Load(), map[string]*Resource{}
	for _, gr := range q.own {
		r := q.newResource(catalog, gr)
		if err := r.load(ctx, revision); err != nil {
			return err
		}
		read[gr.String()] = r
	}
	if err := readableSoon(read); err != nil {
		return err
	}
	q.set.add(read)
	return nil
}

// add puts resources into the table.
func (s *Set) add(read map[string]*Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := maps.Clone(*s.resources.Load())
	maps.Copy(all, read)
	s.resources.Store(&all)
}
