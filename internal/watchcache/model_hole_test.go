package watchcache_test

import (
	"errors"
	"slices"

	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// unit is what is appended at once: the changes of one revision, or the difference over a hole.
type unit struct {
	changes []change
	before  kube.ResourceVersion // the state before it
	last    kube.ResourceVersion // the state after it
	hole    *watchcache.Hole
}

// miss is an outage: the store does not see some writes, and finds what came of them.
func (m *model) miss() {
	from := m.rv
	if m.r.IntN(2) == 0 {
		m.watch(from + 1 + kube.ResourceVersion(m.r.IntN(4))) // it has seen that at another server
	}
	for range m.r.IntN(20) {
		m.oracle.together(m.t, m.r, m.tick(), 1+m.r.IntN(4)*m.r.IntN(2))
	}
	m.rv += 1 + kube.ResourceVersion(m.r.IntN(3))
	h := watchcache.Hole{From: from, To: m.rv}
	m.pending = append(m.pending, unit{changes: slices.Clone(m.oracle.miss(h)), before: from, last: m.rv, hole: &h})
	m.counts.holes++
}

// shown checks a batch: the changes that concern k, and all of a resourceVersion.
func (m *model) shown(k *reader, events []wire.WatchEvent) {
	var last change
	for _, e := range events {
		m.skip(k)
		if k.next == len(m.oracle.changes) {
			m.t.Fatalf("a reader was shown %s, which never happened", described(e))
		}
		last = m.oracle.changes[k.next]
		want, _ := expect(last, k.sel)
		if got := described(e); got != want {
			m.t.Fatalf("a reader was shown\n%s, want\n%s", got, want)
		}
		k.next++
		m.counts.events++
		if last.shared {
			m.counts.shared++
		}
		if last.hole != nil {
			m.counts.missed++
		}
		if m.r.IntN(100) == 0 || last.shown() != last.rv && m.r.IntN(4) == 0 {
			if m.cut(k, last) {
				return
			}
		}
	}
	m.skip(k)
	if k.next < len(m.oracle.changes) && m.oracle.changes[k.next].rv == last.rv {
		m.t.Fatalf("a batch ends between the changes at %d", last.rv)
	}
	if m.oracle.inside(last.rv) == nil {
		k.known = max(k.known, last.rv)
	}
}

// skip moves k over the changes that do not concern it.
func (m *model) skip(k *reader) {
	for ; k.next < len(m.oracle.changes); k.next++ {
		c := m.oracle.changes[k.next]
		if _, concerned := expect(c, k.sel); concerned && c.rv > k.from {
			return
		}
	}
}

// cut ends k's connection after an event, and lets it go on from there as a client does. It returns
// false where that cannot be right: objects of one resourceVersion cannot show another.
func (m *model) cut(k *reader, last change) bool {
	if last.shared && last.object != nil {
		return false
	}
	if last.shown() != last.rv {
		m.counts.cut++
	}
	k.known = max(k.known, last.shown())
	m.reopen(k, last.shown())
	return true
}

// reason is that of a 410.
func reason(err error) string {
	if e, is := errors.AsType[*kube.ExpiredError](err); is {
		return e.Reason
	}
	return ""
}
