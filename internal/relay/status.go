package relay

import (
	"cmp"
	"slices"
	"time"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/kube"
)

// Status is what is known of one mirrored resource.
type Status struct {
	GVR      kinds.GroupVersionResource
	Resource string // "pods.v1"
	// ResourceVersion is that of upstream up to which everything is mirrored; 0: nothing is.
	ResourceVersion kube.ResourceVersion
	// Oldest is the oldest resourceVersion from which a watch can continue.
	Oldest  kube.ResourceVersion
	Objects int
	Readers int64 // lists and watches that are open
	// Lists and Watches are how often upstream was asked since the resource is mirrored.
	Lists   int64
	Watches int64
	// LastContact is when upstream last answered, here or to a relay before this one; zero: that is not known.
	LastContact time.Time
	// ListsServed and WatchesResumed are what readers got without upstream, ListsPassed the lists
	// that upstream answered after all, and Expired the 410s by their reason.
	ListsServed, ListsPassed, WatchesResumed int64
	Expired                                  map[string]int64
	// Problem says why the resource is passed through; "": it is mirrored.
	Problem string
	// OldestTime is when the change at Oldest was recorded; zero: nothing was removed yet.
	OldestTime time.Time
	// RemovedBy says what removed what was before Oldest, at RemovedAt; "": nothing was removed.
	RemovedBy string
	RemovedAt time.Time
	// Bytes is the size of the objects on disk, and HistoryBytes that of their former versions.
	Bytes, HistoryBytes int64
	// LastTime is when the newest change was recorded that is kept; zero: there is none.
	LastTime time.Time
}

// Status returns what is known of each mirrored resource, by name.
func (r *Relay) Status() []Status {
	r.mu.Lock()
	all := make([]*collection, 0, len(r.collections))
	for _, c := range r.collections {
		all = append(all, c)
	}
	r.mu.Unlock()
	counts := r.metrics.counts()
	logs := r.mirror.Resources()
	status := make([]Status, len(all))
	for i, c := range all {
		s := Status{GVR: c.resource.GVR(), Resource: c.name, Readers: c.readers.Load()}
		counted := counts[c.name]
		s.ListsServed, s.ListsPassed, s.WatchesResumed, s.Expired = counted.served, counted.passed, counted.resumed,
			counted.expired
		if err := c.failed(nil); err != nil {
			s.Problem = err.Error()
		}
		if reads := c.reads.Load(); reads != nil {
			now := reads.Status()
			s.Lists, s.Watches = now.Lists, now.Watches
		}
		s.LastContact = r.contact(c.resource)
		if h := c.current.Load(); h != nil {
			has := logs[h.log.Key()]
			s.ResourceVersion, s.Oldest = h.log.Reached(), h.log.Oldest(has.Floor.Revision)
			s.OldestTime, s.RemovedBy, s.RemovedAt = has.Floor.Time, has.Floor.Reason, has.Floor.RemovedAt
			s.Bytes, s.HistoryBytes, s.LastTime = has.LiveBytes, has.History, has.Last.Time
			s.Objects = h.cached.Cache.Stats().Objects
		}
		status[i] = s
	}
	slices.SortFunc(status, func(a, b Status) int { return cmp.Compare(a.Resource, b.Resource) })
	return status
}

// Lag returns how many changes of a resource after a resourceVersion are in memory, and when the first one will be removed;
// zero: there is none, or the mirror does not have that version, or it is not foreseen.
func (r *Relay) Lag(of kinds.GroupVersionResource, known kube.ResourceVersion) (behind int, expires time.Time) {
	r.mu.Lock()
	c := r.collections[of]
	r.mu.Unlock()
	if c == nil {
		return 0, expires
	}
	h := c.current.Load()
	if h == nil {
		return 0, expires
	}
	if position, err := h.log.Position(known, kube.ExpiredWatch); err == nil {
		expires = r.mirror.ExpiresAt(h.log.Key(), position)
	}
	return h.cached.Cache.Behind(known), expires
}

// Reached returns up to which resourceVersion each resource is mirrored, by name; 0: it is not.
func (r *Relay) Reached() map[string]kube.ResourceVersion {
	all := map[string]kube.ResourceVersion{}
	for _, of := range r.Status() {
		all[of.Resource] = of.ResourceVersion
	}
	return all
}
