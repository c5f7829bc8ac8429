package watchcache_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// TestModelConcurrentReadersSeeTheOraclesState lets one goroutine append while
// others watch, list and read old states, and history is compacted.
func TestModelConcurrentReadersSeeTheOraclesState(t *testing.T) {
	for _, seed := range seeds(t, 4) {
		t.Logf("seed %d", seed) // replay with -run Model -seed N
		c := newConcurrent(t, seed)
		var readers sync.WaitGroup
		for i := range 8 {
			r := random(seed + uint64(i) + 1)
			sel, watches := randomSelection(r), func() {}
			if i == 0 {
				sel, watches = watchcache.Selection{}, c.watches // of everything
			}
			readers.Go(func() {
				defer c.saw() // also if it fails
				c.reader(t, r, sel, watches)
			})
		}
		c.append(random(seed))
		readers.Wait()
		t.Logf("met %d events, %d expired, %d reads of history", c.events.Load(), c.expired.Load(), c.cache.Stats().HistoryReads)
		if c.events.Load() == 0 {
			t.Error("no reader saw an event")
		}
		if got := c.cache.Stats().Cursors; got != 0 {
			t.Errorf("%d cursors were left open", got)
		}
		if t.Failed() {
			return
		}
	}
}

const (
	concurrentChanges = 4000
	concurrentBase    = 1000
)

// concurrent has the whole truth before it begins, so that readers need no lock.
type concurrent struct {
	oracle *oracle
	clock  *watchcache.Clock
	cache  *watchcache.Cache
	end    kube.ResourceVersion

	events, expired atomic.Int64

	// watches is called when a reader of everything watches, and saw when a reader has seen an
	// event. On a busy machine all could be appended before.
	watches, saw   func()
	watching, seen <-chan struct{}
}

// once returns a channel and a function that closes it, however often it is called.
func once() (is <-chan struct{}, closes func()) {
	c := make(chan struct{})
	return c, sync.OnceFunc(func() { close(c) })
}

func newConcurrent(t *testing.T, seed uint64) *concurrent {
	t.Helper()
	c := &concurrent{oracle: &oracle{objects: map[string]*wire.Object{}}, end: concurrentBase}
	c.watching, c.watches = once()
	c.seen, c.saw = once()
	r := random(seed)
	for range concurrentChanges {
		c.end += 1 + kube.ResourceVersion(r.IntN(3))
		c.oracle.together(t, r, c.end, 1+r.IntN(4)*r.IntN(2))
	}
	c.clock = watchcache.NewClock(concurrentBase)
	c.cache = watchcache.New(watchcache.Config{
		Clock: c.clock, History: &oracleHistory{oracle: c.oracle}, MaxEntries: 1 + r.IntN(100),
	})
	c.cache.Load(nil, concurrentBase)
	return c
}

func (c *concurrent) append(r *rand.Rand) {
	select {
	case <-c.watching:
	case <-c.seen:
	}
	for rest := c.oracle.changes; len(rest) > 0; {
		n := min(1+r.IntN(5), len(rest))
		for n < len(rest) && rest[n].rv == rest[n-1].rv {
			n++
		}
		var batch []*watchcache.Entry
		for _, change := range rest[:n] {
			batch = append(batch, change.entry())
		}
		c.cache.Append(batch...)
		upTo := rest[n-1].rv
		if rest = rest[n:]; len(rest) > 0 && r.IntN(2) == 0 {
			upTo = rest[0].rv - 1 // other resources' writes
		}
		c.clock.Publish(upTo)
		<-c.seen // of the first ones; nothing was compacted
		if r.IntN(100) == 0 {
			floor := upTo - min(upTo, kube.ResourceVersion(r.IntN(600)))
			c.oracle.compact(floor)
			c.cache.Forget(floor)
		}
		for range r.IntN(30) {
			runtime.Gosched()
		}
	}
}

// reader lists and watches, as an informer does, until it has seen the end. It calls watches when
// it watches.
func (c *concurrent) reader(t *testing.T, r *rand.Rand, sel watchcache.Selection, watches func()) {
	t.Helper()
	for {
		s := c.cache.Snapshot()
		if !c.compare(t, s) {
			return
		}
		cursor, err := c.cache.CursorAfter(t.Context(), s.RV(), sel)
		if err == nil {
			watches()
			err = c.follow(t, r, follower{cursor: cursor, sel: sel, at: s.RV(), next: c.oracle.after(s.RV())})
		}
		var expired *kube.ExpiredError
		switch {
		case err == nil:
			return
		case !errors.As(err, &expired) || !c.oracle.expired(expired.Requested):
			t.Errorf("watch: %v; the floor is %d", err, c.oracle.floor.Load())
			return
		}
		c.expired.Add(1)
	}
}

type follower struct {
	cursor *watchcache.Cursor
	sel    watchcache.Selection
	at     kube.ResourceVersion // everything up to here was considered
	next   int                  // in the oracle's list
}

// follow returns nil at the end of all changes, or after it has reported a failure.
func (c *concurrent) follow(t *testing.T, r *rand.Rand, f follower) error {
	t.Helper()
	defer func() { f.cursor.Close() }()
	for {
		position := f.cursor.Position()
		if position < f.at {
			t.Errorf("Position() went back from %d to %d", f.at, position)
		}
		if f.at = position; !c.considered(t, &f, position) || position >= c.end {
			return nil
		}
		if r.IntN(50) == 0 {
			if err := c.resume(t, &f); err != nil {
				return err
			}
		}
		if r.IntN(30) == 0 && !c.exact(t, r) {
			return nil
		}
		events, err := f.poll(t, c)
		if err != nil {
			return err
		}
		for _, e := range events {
			want, concerned := expect(c.oracle.changes[f.next], f.sel)
			for !concerned && f.next < len(c.oracle.changes)-1 {
				f.next++
				want, concerned = expect(c.oracle.changes[f.next], f.sel)
			}
			if got := described(e); got != want {
				t.Errorf("a reader was shown\n%s, want\n%s", got, want)
				return nil
			}
			f.next++
			f.at = e.ResourceVersion
		}
		if c.events.Add(int64(len(events))) > 0 {
			c.saw()
		}
		for range r.IntN(3) * r.IntN(100) {
			runtime.Gosched() // a slow reader
		}
	}
}

// poll reads with a context that ends when the last revision is published: a
// selection that no entry matches would wait indefinitely.
func (f *follower) poll(t *testing.T, c *concurrent) ([]wire.WatchEvent, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if c.clock.WaitPublished(ctx, c.end) == nil {
			cancel()
		}
	})
	events, err := f.cursor.Next(ctx)
	cancel()
	waiting.Wait()
	if errors.Is(err, context.Canceled) {
		return nil, nil
	}
	return events, err
}

// resume replaces the cursor by one from its position: nothing may be missing.
func (c *concurrent) resume(t *testing.T, f *follower) error {
	t.Helper()
	cursor, err := c.cache.CursorAfter(t.Context(), f.at, f.sel)
	if err != nil {
		return err
	}
	f.cursor.Close()
	f.cursor = cursor
	return nil
}

// considered checks that f was shown all that concerns it up to rv.
func (c *concurrent) considered(t *testing.T, f *follower, rv kube.ResourceVersion) bool {
	t.Helper()
	for ; f.next < len(c.oracle.changes) && c.oracle.changes[f.next].rv <= rv; f.next++ {
		if line, concerned := expect(c.oracle.changes[f.next], f.sel); concerned {
			t.Errorf("a reader at %d was not shown: %s", rv, line)
			return false
		}
	}
	return true
}

func (c *concurrent) exact(t *testing.T, r *rand.Rand) bool {
	t.Helper()
	now := c.cache.Snapshot().RV()
	rv := now - kube.ResourceVersion(r.IntN(300)*r.IntN(2))
	s, err := c.cache.At(t.Context(), rv)
	var expired *kube.ExpiredError
	switch {
	case err == nil:
		return c.compare(t, s)
	case errors.Is(err, watchcache.ErrBehind):
	case !errors.As(err, &expired) || !c.oracle.expired(rv):
		t.Errorf("At(%d): %v; the floor is %d", rv, err, c.oracle.floor.Load())
		return false
	}
	return true
}

func (c *concurrent) compare(t *testing.T, s *watchcache.Snapshot) bool {
	t.Helper()
	truth := c.oracle.stateAt(s.RV())
	var got, want []string
	for o := range s.Scan("", watchcache.Selection{}) {
		got = append(got, string(o.JSON()))
	}
	for _, key := range slices.Sorted(mapKeys(truth)) {
		want = append(want, string(truth[key].JSON()))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the snapshot at %d is\n%s, want\n%s", s.RV(), got, want)
		return false
	}
	return true
}

// TestSnapshotHasEveryEntryUpToItsRevision creates and deletes one object in turn, so
// that a snapshot without the change of its resourceVersion has a wrong length.
func TestSnapshotHasEveryEntryUpToItsRevision(t *testing.T) {
	const last = loadedAt + 5000
	f := newFixture(t, watchcache.Config{MaxEntries: 64})
	object := thing{name: "o"}.at(t, loadedAt)
	entries := make([]*watchcache.Entry, 0, last-loadedAt)
	for rv := kube.ResourceVersion(loadedAt + 1); rv <= last; rv++ {
		if rv%2 == 0 {
			entries = append(entries, watchcache.NewDeletion(rv, object))
		} else {
			object = thing{name: "o"}.at(t, rv)
			entries = append(entries, watchcache.NewEntry(rv, object, nil))
		}
	}
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				s := f.cache.Snapshot()
				if want := int(s.RV() % 2); s.Len() != want {
					t.Errorf("the snapshot at %d has %d objects, want %d", s.RV(), s.Len(), want)
					return
				}
				if s.RV() == last {
					return
				}
				runtime.Gosched()
			}
		})
	}
	for _, e := range entries {
		f.cache.Append(e)
		f.clock.Publish(e.RV)
	}
	readers.Wait()
}
