package watchcache

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/btree"

	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// Config has the settings of a Cache. Only Clock is required.
type Config struct {
	Clock *Clock
	// History reads entries that are no longer in memory. Without it everything
	// behind the window is expired.
	History History
	// MaxEntries and MaxBytes bound the log in memory; 0 is 4096 and 16 MiB. The
	// bytes are those of the objects that the entries hold. A sixteenth of them is
	// dropped at a time, and the newest entries are always kept.
	MaxEntries int
	MaxBytes   int64
	// Freshness is how long a reader waits for a resourceVersion that is not there
	// yet; 0 is 3 s (apiserver cacher/watch_cache.go blockTimeout).
	Freshness time.Duration
	// Read is what Selection.Read is for all readers of the cache; nil: objects are read as they
	// are stored.
	Read func(o *wire.Object) *wire.Object
	// Mirror says that the positions of entries are not the resourceVersions of their
	// objects, which another server gives. Everything that the methods of Cache and Cursor
	// take and return, besides objects and events, is a position then.
	Mirror bool
}

const (
	defaultMaxEntries = 4096
	defaultMaxBytes   = 16 << 20
	defaultFreshness  = 3 * time.Second
)

// Cache is one resource: its objects, the newest part of its log, and the cursors
// over it. Readers never block the writer nor each other. The writing methods
// (Load, Append, Forget) may be called from several goroutines, but the entries
// must come in order. All other methods are safe for concurrent use.
type Cache struct {
	clock     *Clock
	history   History
	bounds    bounds
	freshness time.Duration
	mirror    bool
	readForm  func(o *wire.Object) *wire.Object // Config.Read

	state   atomic.Pointer[state]
	waiting *index
	batches sync.Pool      // of cursors: *[]wire.WatchEvent with room for a whole batch
	exact   exactSnapshots // its lock is never taken while mu is held
	cursors atomic.Int64
	behind  atomic.Int64 // reads that went to History
	paced   atomic.Int64 // writers that have waited in Pace

	versions versions // its lock is never taken while mu is held, nor the other way

	// mu guards tree, and orders the writers.
	mu   sync.Mutex
	tree *tree // the newest state; readers have copies of it
}

// state is what readers see, swapped as one.
type state struct {
	tree *tree
	log  window
	last kube.ResourceVersion // of the newest entry, or of Load; the end of a hole
	// holes are all that are known, in the order in which they became known.
	holes []Hole
	// ended is where the resource has ended, 0 as long as it has not.
	ended kube.ResourceVersion
}

// New returns an empty cache at resourceVersion 0. Load fills it.
func New(cfg Config) *Cache {
	c := &Cache{
		clock:   cfg.Clock,
		history: cfg.History,
		bounds: bounds{
			entries: cmp.Or(cfg.MaxEntries, defaultMaxEntries),
			bytes:   cmp.Or(cfg.MaxBytes, defaultMaxBytes),
		},
		freshness: cmp.Or(cfg.Freshness, defaultFreshness),
		mirror:    cfg.Mirror,
		readForm:  cfg.Read,
		tree:      btree.NewMap[string, *wire.Object](treeDegree),
	}
	c.waiting = newIndex(c)
	c.batches.New = func() any { b := make([]wire.WatchEvent, 0, maxBatchEvents); return &b }
	if c.history == nil {
		c.history = noHistory{cache: c}
	}
	c.state.Store(&state{tree: c.tree.Copy()})
	return c
}

// Load sets the state at rv; changes up to rv are read from History from then on. It
// is called before the first Append, and again when the selectable fields of the
// objects change: then cursors continue at their positions. The
// objects may come in any order; key order is fastest.
func (c *Cache) Load(objects []*wire.Object, rv kube.ResourceVersion) {
	loaded := treeOf(objects)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tree = loaded
	was := c.state.Load()
	rv = max(rv, was.last) // within a hole the last entry has an older one
	c.state.Store(&state{tree: c.tree.Copy(), last: rv, log: window{gone: rv}, holes: was.holes})
	c.waiting.wakeAll()
}

func treeOf(objects []*wire.Object) *tree {
	t := btree.NewMap[string, *wire.Object](treeDegree)
	for _, o := range objects {
		t.Load(o.Key().String(), o)
	}
	return t
}

// Append makes the entries the newest state, at once, and then wakes the cursors that
// they match.
// They must be in order and newer than all before: anything else would be a gap
// or a repetition for some reader, and panics. Some may have the same RV: all that have it
// come in one call. The cache owns them from now on
// and sets their Previous. The caller publishes their revision on the Clock only
// after all caches have them.
func (c *Cache) Append(entries ...*Entry) {
	if len(entries) > 0 {
		c.append(Hole{}, entries)
	}
}

// append is Append, and AppendHole if there is a hole.
func (c *Cache) append(h Hole, entries []*Entry) {
	was, is := c.swap(h, entries)
	if is.log.gone != was.log.gone {
		c.exact.compact(is.log.gone)
	}
}

func (c *Cache) swap(h Hole, entries []*Entry) (was, is *state) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was = c.state.Load()
	next := *was
	for _, e := range entries {
		if e.RV <= was.last || e.RV < next.last {
			panic(fmt.Sprintf("watchcache: entry %d appended after %d", e.RV, next.last))
		}
		c.applyLocked(e)
		next.log = next.log.append(e, c.bounds)
		next.last = e.RV
	}
	if h != (Hole{}) {
		next.last = max(next.last, h.To) // the state has everything up to there
		next.holes = append(slices.Clip(next.holes), h)
	}
	next.log = next.log.trim(c.bounds)
	next.tree = c.tree.Copy()
	checkState(&next)
	c.state.Store(&next)
	if h != (Hole{}) {
		c.waiting.wakeAll() // some may wait inside
	} else {
		c.waiting.notify()
	}
	return was, &next
}

// applyLocked makes the tree what it is after e. What the cache holds becomes
// e.Previous: it is what the readers saw, and it is in memory already.
func (c *Cache) applyLocked(e *Entry) {
	key := e.Object.Key().String()
	var previous *wire.Object
	if e.Deleted {
		previous, _ = c.tree.Delete(key)
	} else {
		previous, _ = c.tree.Set(key, e.Object)
	}
	checkEntry(e, previous, c.mirror)
	e.Previous, e.Replaces = previous, previous != nil
}

// Forget drops the entries up to upTo from memory, because they were removed
// from history too. A reader that needs a change from there must ask History,
// which returns ExpiredError; other readers are not affected.
func (c *Cache) Forget(upTo kube.ResourceVersion) {
	c.mu.Lock()
	next := *c.state.Load()
	next.log = next.log.compact(upTo)
	c.state.Store(&next)
	c.mu.Unlock()
	c.exact.compact(upTo)
}

// End says that the resource has ended at rv, at or after its last entry: cursors
// return io.EOF when they have considered everything up to there, and the cache
// ignores later revisions. It is called before any later revision is published.
func (c *Cache) End(rv kube.ResourceVersion) {
	c.mu.Lock()
	was := c.state.Load()
	next := *was
	next.ended = max(rv, was.last)
	c.state.Store(&next)
	c.mu.Unlock()
	c.waiting.wakeAll()
}

// Interrupt makes every waiting cursor check again whether its stream has ended
// (Cursor.Until).
func (c *Cache) Interrupt() { c.waiting.wakeAll() }

// view returns the newest state and the resourceVersion at which it is exact. The
// order of the two loads matters: a change is appended before it is published, so
// the state has everything up to what was published before.
func (c *Cache) view() (*state, kube.ResourceVersion) {
	published := c.clock.Published()
	st := c.state.Load()
	if st.ended != 0 {
		return st, st.ended
	}
	return st, max(published, st.last)
}

// Snapshot returns the newest state. It never blocks.
func (c *Cache) Snapshot() *Snapshot {
	st, rv := c.view()
	return &Snapshot{tree: st.tree, rv: rv, versions: &c.versions}
}

// WaitFresh returns a snapshot at or after rv. It blocks until there is one, at
// most for Config.Freshness. Errors: *kube.TooLargeResourceVersionError, ctx's
// cause.
func (c *Cache) WaitFresh(ctx context.Context, rv kube.ResourceVersion) (*Snapshot, error) {
	if s := c.Snapshot(); s.rv >= rv {
		return s, nil
	}
	limited, cancel := context.WithTimeout(ctx, c.freshness)
	defer cancel()
	if err := c.clock.WaitPublished(limited, rv); err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	s := c.Snapshot()
	if s.rv < rv {
		return nil, &kube.TooLargeResourceVersionError{Requested: rv, Current: s.rv}
	}
	return s, nil
}

// Behind returns how many changes after a resourceVersion are in memory: at least so many has a reader not seen that is
// there.
func (c *Cache) Behind(rv kube.ResourceVersion) int { return c.state.Load().log.countAfter(rv) }

// Stats has the figures of a cache.
type Stats struct {
	Objects      int                  // live objects
	RV           kube.ResourceVersion // of the newest state
	Entries      int                  // log entries in memory
	Bytes        int64                // of the objects that they hold
	Gone         kube.ResourceVersion // the last change that memory does not hold
	Kept         int                  // exact snapshots that are kept for lists in progress
	Cursors      int                  // open cursors
	HistoryReads int64                // reads that memory could not answer, ever
	Woken        int64                // times that a waiting cursor was woken, ever
	Paced        int64                // writes that waited for late watchers, ever
}

// Stats returns the current figures.
func (c *Cache) Stats() Stats {
	st, rv := c.view()
	return Stats{
		Objects:      st.tree.Len(),
		RV:           rv,
		Entries:      st.log.count,
		Bytes:        st.log.bytes,
		Gone:         st.log.gone,
		Kept:         c.exact.count(),
		Cursors:      int(c.cursors.Load()),
		HistoryReads: c.behind.Load(),
		Woken:        c.waiting.ever.Load(),
		Paced:        c.paced.Load(),
	}
}
