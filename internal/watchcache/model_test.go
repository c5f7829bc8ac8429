package watchcache_test

import (
	"context"
	"errors"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

func mapKeys[V any](m map[string]V) iter.Seq[string] { return maps.Keys(m) }

// TestModelEveryReaderSeesTheOraclesState does random things to a cache with a
// small window and compares everything that readers see with a list and a map.
func TestModelEveryReaderSeesTheOraclesState(t *testing.T) {
	total := counts{}
	for _, seed := range seeds(t, 40) {
		t.Logf("seed %d", seed) // replay with -run Model -seed N
		synctest.Test(t, func(t *testing.T) {
			m := newModel(t, seed)
			for range 1500 {
				m.step()
			}
			m.finish()
			m.counts.behind += m.cache.Stats().HistoryReads
			total.add(m.counts)
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("met %+v", total)
	often := []int64{total.events, total.bookmarks, total.exacts, total.expired, total.behind, total.shared, total.missed}
	seldom := []int64{total.cut, total.holes, total.inside, total.held}
	if slices.Contains(often, 0) || !testing.Short() && *seedFlag == 0 && slices.Contains(seldom, 0) {
		t.Errorf("the runs did not meet everything: %+v", total)
	}
}

// counts say what a run met, so that it cannot pass by meeting nothing.
type counts struct {
	events, bookmarks, exacts, expired, behind int64

	shared int64 // events of a resourceVersion that others have too
	cut    int64 // readers that went on from the middle of such a one
	holes  int64
	missed int64 // events of a difference
	inside int64 // readers that waited for what a hole has swallowed
	held   int64 // bookmarks within a difference, which stay before it
}

func (c *counts) add(more counts) {
	c.events += more.events
	c.bookmarks += more.bookmarks
	c.exacts += more.exacts
	c.expired += more.expired
	c.behind += more.behind
	c.shared += more.shared
	c.cut += more.cut
	c.holes += more.holes
	c.missed += more.missed
	c.inside += more.inside
	c.held += more.held
}

// model is a cache beside its oracle. The store is ahead of the cache by pending,
// and the cache ahead of the clock by what is not published.
type model struct {
	t       *testing.T
	r       *rand.Rand
	oracle  *oracle
	clock   *watchcache.Clock
	cache   *watchcache.Cache
	rv      kube.ResourceVersion // of the last write to any resource
	pending []unit               // written, not appended
	last    kube.ResourceVersion // of the last entry appended
	readers []*reader
	counts  counts
}

// reader is a cursor, and what the oracle says that it must see.
type reader struct {
	cursor *watchcache.Cursor
	sel    watchcache.Selection
	next   int                  // index in oracle.changes of the first that it did not see
	known  kube.ResourceVersion // it has considered everything up to here
	from   kube.ResourceVersion // what it requested at first, perhaps in the future
	start  kube.ResourceVersion // of this cursor
}

func newModel(t *testing.T, seed uint64) *model {
	t.Helper()
	m := &model{t: t, r: random(seed), oracle: &oracle{objects: map[string]*wire.Object{}}, rv: 1000}
	for range m.r.IntN(30) {
		m.oracle.write(t, m.r, m.tick())
	}
	m.clock = watchcache.NewClock(m.rv)
	m.open()
	return m
}

// tick is the revision of the next write; those between are other resources'.
func (m *model) tick() kube.ResourceVersion {
	m.rv += 1 + kube.ResourceVersion(m.r.IntN(4)*m.r.IntN(2))
	return m.rv
}

// open makes the cache, as a start of the process does.
func (m *model) open() {
	m.cache = watchcache.New(watchcache.Config{
		Clock:      m.clock,
		History:    &oracleHistory{oracle: m.oracle, rand: m.r},
		MaxEntries: 1 + m.r.IntN(60),
		MaxBytes:   int64(2000 + m.r.IntN(40000)),
	})
	state := m.oracle.stateAt(m.rv)
	m.cache.Load(slices.Collect(maps.Values(state)), m.rv)
	m.last = m.rv
}

func (m *model) step() {
	switch n := m.r.IntN(100); {
	case n < 35:
		rv, n := m.tick(), 1
		if m.r.IntN(6) == 0 {
			n += m.r.IntN(6)
		}
		changes := slices.Clone(m.oracle.together(m.t, m.r, rv, n))
		m.pending = append(m.pending, unit{changes: changes, before: rv - 1, last: rv})
	case n < 38:
		m.tick()
	case n < 53:
		m.appendSome(m.r.IntN(len(m.pending) + 1))
	case n < 58:
		m.publish()
	case n < 75:
		m.read()
	case n < 83:
		m.bookmark()
	case n < 86:
		m.watch(m.somewhen(m.rv + 10))
	case n < 88:
		m.watch(m.cache.Snapshot().RV())
	case n < 93:
		m.list()
	case n < 97:
		m.exact(m.somewhen(m.cache.Snapshot().RV()))
	case n < 99:
		m.compact()
	case m.r.IntN(5) == 0:
		m.restart()
	case m.r.IntN(2) == 0:
		m.miss()
	}
}

// somewhen is a resourceVersion up to the given one, mostly not long before it.
func (m *model) somewhen(upTo kube.ResourceVersion) kube.ResourceVersion {
	if m.r.IntN(4) == 0 {
		return kube.ResourceVersion(m.r.Uint64N(uint64(upTo + 1)))
	}
	return upTo - kube.ResourceVersion(m.r.IntN(200))
}

func (m *model) appendSome(n int) {
	var entries []*watchcache.Entry
	for _, u := range m.pending[:n] {
		if u.hole != nil {
			m.cache.Append(entries...)
			entries = nil
		}
		for _, c := range u.changes {
			e := c.entry()
			if m.r.IntN(4) == 0 {
				e.Previous = nil // Append knows it anyway
			}
			entries = append(entries, e)
		}
		if u.hole != nil {
			m.cache.AppendHole(*u.hole, entries...)
			entries = nil
		}
		m.last = u.last
	}
	m.pending = m.pending[n:]
	m.cache.Append(entries...)
}

func (m *model) publish() {
	upTo := m.rv
	if len(m.pending) > 0 {
		upTo = m.pending[0].before
	}
	if upTo < m.clock.Published() {
		return
	}
	if behind := uint64(upTo - m.clock.Published()); behind > 0 && m.r.IntN(2) == 0 {
		upTo -= kube.ResourceVersion(m.r.Uint64N(behind))
	}
	m.clock.Publish(upTo)
}

// compact removes history up to something appended; the cache hears of it now,
// or not.
func (m *model) compact() {
	upTo := m.last - min(m.last, kube.ResourceVersion(m.r.IntN(120)))
	m.oracle.compact(upTo)
	if m.r.IntN(3) > 0 {
		m.cache.Forget(upTo)
	}
}

func (m *model) restart() {
	m.appendSome(len(m.pending))
	m.publish()
	m.clock.Publish(m.rv)
	m.open()
	for _, k := range slices.Clone(m.readers) {
		m.reopen(k, k.known)
	}
}

func (m *model) watch(rv kube.ResourceVersion) {
	k := &reader{sel: randomSelection(m.r), from: rv, start: rv, known: rv, next: m.oracle.after(rv)}
	m.readers = append(m.readers, k)
	if len(m.readers) > 12 {
		m.drop(m.readers[m.r.IntN(len(m.readers))])
	}
	if slices.Contains(m.readers, k) {
		m.reopen(k, rv)
	}
}

func (m *model) drop(k *reader) {
	if k.cursor != nil {
		k.cursor.Close()
	}
	m.readers = slices.DeleteFunc(m.readers, func(other *reader) bool { return other == k })
}

// reopen lets k resume from rv, which a bookmark has promised to be safe.
func (m *model) reopen(k *reader, rv kube.ResourceVersion) {
	if k.cursor != nil {
		k.cursor.Close()
	}
	cursor, err := m.cache.CursorAfter(m.t.Context(), rv, k.sel)
	if (err != nil) != m.oracle.expired(rv) {
		m.t.Fatalf("CursorAfter(%d): %v; the floor is %d", rv, err, m.oracle.floor.Load())
	}
	if err != nil {
		m.expired(k, err)
		return
	}
	k.cursor, k.start, k.next = cursor, rv, m.oracle.after(rv)
}

// expired checks that the end of k is what it must be: history that it needs is
// gone, and it had delivered everything before.
func (m *model) expired(k *reader, err error) {
	var expired *kube.ExpiredError
	if !errors.As(err, &expired) {
		m.t.Fatalf("reader: %v", err)
	}
	if expired.Requested < k.known || !m.oracle.expired(expired.Requested) {
		m.t.Fatalf("reader that knew everything up to %d: %v, but the floor is %d", k.known, err, m.oracle.floor.Load())
	}
	m.considered(k, expired.Requested)
	m.counts.expired++
	m.drop(k)
}

// considered checks that k was shown all that concerns it up to rv.
func (m *model) considered(k *reader, rv kube.ResourceVersion) {
	for ; k.next < len(m.oracle.changes) && m.oracle.changes[k.next].rv <= rv; k.next++ {
		c := m.oracle.changes[k.next]
		if line, concerned := expect(c, k.sel); concerned && c.rv > k.from {
			m.t.Fatalf("a reader at %d was not shown: %s", rv, line)
		}
	}
	k.known = max(k.known, rv)
}

func (m *model) read() {
	if len(m.readers) == 0 {
		return
	}
	k := m.readers[m.r.IntN(len(m.readers))]
	events, err := poll(m.t.Context(), k.cursor)
	if err != nil {
		if m.oracle.inside(k.start) != nil {
			m.counts.inside++
		} else if reason(err) == kube.ReasonUnseen {
			m.t.Fatalf("reader that began at %d, before a hole: %v", k.start, err)
		} else if k.known >= m.cache.Stats().Gone {
			m.t.Fatalf("reader at %d, which memory reaches back to: %v", k.known, err)
		}
		m.expired(k, err)
		return
	}
	if len(events) > 0 {
		m.shown(k, events)
	}
	if events == nil && k.start <= m.last {
		m.considered(k, m.last) // it would have waited: it has seen everything
	}
}

func (m *model) bookmark() {
	if len(m.readers) == 0 {
		return
	}
	k := m.readers[m.r.IntN(len(m.readers))]
	rv := k.cursor.Position()
	if h := m.oracle.inside(rv); h != nil && rv != k.start {
		m.t.Fatalf("Position() = %d, inside the hole %+v", rv, h)
	}
	if n := k.next; n > 0 && m.oracle.changes[n-1].rv > rv && m.oracle.changes[n-1].hole != nil {
		m.counts.held++
	}
	if rv < k.known || rv > max(k.start, m.last, m.clock.Published()) {
		m.t.Fatalf("Position() = %d of a reader that knew %d; entries up to %d, published %d",
			rv, k.known, m.last, m.clock.Published())
	}
	m.considered(k, rv)
	m.counts.bookmarks++
	if m.r.IntN(3) == 0 {
		m.reopen(k, rv)
	}
}

func (m *model) list() {
	s, err := m.cache.WaitFresh(m.t.Context(), m.clock.Published())
	if err != nil || s.RV() != max(m.clock.Published(), m.last) {
		m.t.Fatalf("WaitFresh(%d): %v, %v", m.clock.Published(), s, err)
	}
	m.compare(s)
	if m.r.IntN(3) == 0 {
		m.cache.Keep(s)
	}
}

func (m *model) exact(rv kube.ResourceVersion) {
	s, err := m.cache.At(m.t.Context(), rv)
	var expired *kube.ExpiredError
	switch {
	case err == nil && s.RV() == rv && !m.oracle.expired(rv):
		m.compare(s)
		m.counts.exacts++
	case errors.Is(err, watchcache.ErrBehind) && rv < m.cache.Stats().Gone && !m.oracle.expired(rv):
	case !errors.As(err, &expired) || !m.oracle.expired(rv):
		m.t.Fatalf("At(%d): %v, %v; the floor is %d and the window begins after %d",
			rv, s, err, m.oracle.floor.Load(), m.cache.Stats().Gone)
	}
}

// compare checks a snapshot against the truth at its resourceVersion.
func (m *model) compare(s *watchcache.Snapshot) {
	truth := m.oracle.stateAt(s.RV())
	if s.Len() != len(truth) {
		m.t.Fatalf("the snapshot at %d has %d objects, want %d", s.RV(), s.Len(), len(truth))
	}
	sel, start := randomSelection(m.r), ""
	if m.r.IntN(2) == 0 {
		start = []string{"a", "a/o3", "a-b/o9", "b/o1\x00", "c"}[m.r.IntN(5)]
	}
	var want []string
	for _, key := range slices.Sorted(maps.Keys(truth)) {
		if key >= start && sel.Matches(truth[key]) {
			want = append(want, string(truth[key].JSON()))
		}
	}
	var got []string
	for o := range s.Scan(start, sel) {
		got = append(got, string(o.JSON()))
	}
	if !slices.Equal(got, want) {
		m.t.Fatalf("Scan(%q) at %d:\n%s\nwant\n%s", start, s.RV(), got, want)
	}
}

// finish reads every cursor to the end.
func (m *model) finish() {
	m.appendSome(len(m.pending))
	m.clock.Publish(m.rv)
	m.list()
	for _, k := range slices.Clone(m.readers) {
		m.drain(k)
	}
}

func (m *model) drain(k *reader) {
	m.readers = []*reader{k}
	for range len(m.oracle.changes) + 2 {
		before := k.next
		m.read()
		if len(m.readers) == 0 {
			return // expired
		}
		// A cursor behind the window, which begins after the last change when the
		// cache was loaded again, moves on with the next read only.
		behind := k.cursor.Position() < m.cache.Stats().Gone
		if k.next == len(m.oracle.changes) && !behind || (k.next == before && k.start > m.last) {
			break
		}
	}
	if k.start <= m.last && k.next != len(m.oracle.changes) {
		m.t.Fatalf("a reader stays at %d of %d changes", k.next, len(m.oracle.changes))
	}
	if rv := k.cursor.Position(); rv != max(m.rv, k.start) {
		m.t.Fatalf("Position() = %d at the end, want %d", rv, max(m.rv, k.start))
	}
	k.cursor.Close()
	if _, err := k.cursor.Next(context.WithoutCancel(m.t.Context())); !errors.Is(err, watchcache.ErrClosed) {
		m.t.Fatalf("Next of a closed cursor: %v", err)
	}
}
