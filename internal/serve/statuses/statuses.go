// Package statuses makes what the statuses of servers, replicas and relays have in common (package status): how the disk
// does, what there is of each resource, who watches, who got 410, and what was refused.
//
// Everything is read from figures that are kept anyway, by the resource and by the watch: no object is looked at, and no
// lock is held for longer than one look at one of them takes.
package statuses

import (
	"cmp"
	"slices"
	"time"

	"github.com/gapless-io/gapless/internal/apiserver/feed"
	"github.com/gapless-io/gapless/internal/apiserver/limit"
	"github.com/gapless-io/gapless/internal/durable"
	"github.com/gapless-io/gapless/internal/serve"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/kube"
	"github.com/gapless-io/gapless/status"
)

// Log is what is asked of a log.
type Log interface {
	serve.Log

	// Resources returns the figures of each resource.
	Resources() map[string]revlog.ResourceStats
	// ExpiresAt returns when the first change of a resource after a revision will be removed; zero: it is not foreseen.
	ExpiresAt(resource string, revision int64) time.Time
}

// Clients is where statuses learn of clients. All of it is required.
type Clients struct {
	Watches  func() []feed.Open
	Expired  func() []feed.Expired
	Refusals *limit.Refusals
	// Reads returns what is known about what a watch reads.
	Reads func(o *feed.Open) Reading
}

// Reading is what is known about what a watch reads.
type Reading struct {
	Oldest kube.ResourceVersion // from which a watch can go on
	// Behind counts the changes that are in memory and that the watch was not sent. It is not asked for if it waits.
	Behind func() int
	// Expires is when the first change after its last resourceVersion will be removed; zero: it is not foreseen.
	Expires time.Time
}

// Of returns the part about clients, with so many watches.
func (c Clients) Of(most int) status.Clients {
	open, now := c.Watches(), time.Now()
	of := status.Clients{
		Watches: []status.Watch{}, WatchCount: len(open), Expired: []status.Expired{}, Refused: c.Refusals.Counts(),
	}
	if most > 0 { // all have to be looked at to find the first ones
		all := make([]status.Watch, len(open))
		for i := range open {
			all[i] = c.watch(&open[i], now)
		}
		slices.SortStableFunc(all, expiresFirst) // before, they have the order in which they were opened
		of.Watches = all[:min(most, len(all))]
	}
	for _, e := range slices.Backward(c.Expired()) {
		of.Expired = append(of.Expired, status.Expired{
			Client: client(&e.Client), At: e.At, From: e.From, Known: e.Known, Why: e.Why,
		})
	}
	return of
}

func (c Clients) watch(o *feed.Open, now time.Time) status.Watch {
	reads := c.Reads(o)
	of := status.Watch{Client: client(&o.Client), Delivered: o.Delivered, Known: o.Known, ExpiresAt: reads.Expires}
	if o.Known > reads.Oldest {
		of.AboveOldest = uint64(o.Known - reads.Oldest)
	}
	if o.Writing && reads.Behind != nil {
		of.BehindEvents, of.BehindSeconds = reads.Behind(), max(0, now.Sub(o.WritingSince).Seconds())
	}
	return of
}

// expiresFirst orders watches by which would get 410 first.
func expiresFirst(a, b status.Watch) int {
	if a.ExpiresAt.IsZero() != b.ExpiresAt.IsZero() {
		return cmp.Compare(b.ExpiresAt.Unix(), a.ExpiresAt.Unix()) // the zero time is the smallest
	}
	return cmp.Or(a.ExpiresAt.Compare(b.ExpiresAt), cmp.Compare(a.AboveOldest, b.AboveOldest))
}

func client(c *feed.Client) status.Client {
	return status.Client{
		User: c.User, UserAgent: c.UserAgent, Resource: c.Resource, Version: c.Version, Namespace: c.Namespace,
		LabelSelector: c.LabelSelector, FieldSelector: c.FieldSelector, Since: c.Since,
	}
}

// Storage returns the part about the disk. dir is the directory that the log is in; "" for one in memory.
func Storage(log Log, dir string) status.Storage { return storage(log, dir, log.Resources()) }

func storage(log serve.Log, dir string, resources map[string]revlog.ResourceStats) status.Storage {
	stats := log.Stats()
	of := status.Storage{
		Bytes: stats.Bytes, Files: stats.Segments, Syncs: stats.Syncs.Count,
		RefusedWrites: stats.RefusedWrites, MaintenanceFailures: stats.MaintenanceFailures,
	}
	if dir != "" {
		if space, err := durable.SpaceOf(dir); err == nil { // 0, not known: the log says by itself if it cannot write
			of.FileSystemBytes, of.FreeBytes = space.Total, space.Free
		}
	}
	if err := log.Writable(); err != nil {
		of.ReadOnly = err.Error()
	}
	if err := log.Durable(); err != nil {
		of.Lost = err.Error()
	}
	for _, r := range resources {
		if r.Last.Time.After(of.LastWrite) {
			of.LastWrite = r.Last.Time
		}
	}
	if n := stats.Syncs.Count; n > 0 {
		of.SyncMeanSeconds = stats.Syncs.Seconds / float64(n)
		for within, done := range stats.Syncs.Buckets {
			if done*100 >= n*99 && (of.SyncMostSeconds == 0 || within < of.SyncMostSeconds) {
				of.SyncMostSeconds = within
			}
		}
	}
	return of
}

// Reads returns Clients.Reads of a server: what its caches and its log know. It looks at the log once, for all watches.
func Reads(
	log Log, behind func(resource string, rv kube.ResourceVersion) int, resources map[string]revlog.ResourceStats,
) func(o *feed.Open) Reading {
	return func(o *feed.Open) Reading {
		oldest, _ := begins(resources[o.Resource])
		return Reading{
			Oldest:  resourceVersion(oldest.Revision),
			Behind:  func() int { return behind(o.Resource, o.Known) },
			Expires: log.ExpiresAt(o.Resource, int64(o.Known)), //nolint:gosec // one that was sent is a revision
		}
	}
}

// begins returns where the history of a resource begins, and what removed what was before; "": nothing was removed.
func begins(of revlog.ResourceStats) (oldest revlog.Moment, removedBy string) {
	if of.Floor.Revision == 0 {
		return of.First, ""
	}
	return revlog.Moment{Revision: of.Floor.Revision, Time: of.Floor.Time}, cmp.Or(of.Floor.Reason, "unknown")
}

// Server is where the status of a server learns of its objects.
type Server struct {
	Log Log
	// Dir is the directory that the log is in; "" for one in memory.
	Dir    string
	Caches map[string]watchcache.Stats
	// Behind counts the changes of a resource after a resourceVersion that are in memory.
	Behind func(resource string, rv kube.ResourceVersion) int
}

// State returns what a server reports, with so many watches. Clients.Reads is not used.
func (s Server) State(c Clients, most int) *status.State {
	resources := s.Log.Resources()
	c.Reads = Reads(s.Log, s.Behind, resources)
	of := &status.State{Resources: []status.Resource{}, Storage: storage(s.Log, s.Dir, resources), Clients: c.Of(most)}
	names := map[string]bool{}
	for name := range resources {
		names[name] = true
	}
	for name := range s.Caches {
		names[name] = true
	}
	for name := range names {
		r := resource(name, resources[name])
		if cache, has := s.Caches[name]; has {
			r.Objects, r.Watches = int64(cache.Objects), cache.Cursors
		}
		if r.Objects > 0 || r.ResourceVersion > 0 || r.Oldest > 0 || r.Watches > 0 {
			of.Resources = append(of.Resources, r)
		}
	}
	slices.SortFunc(of.Resources, func(a, b status.Resource) int { return cmp.Compare(a.Resource, b.Resource) })
	return of
}

func resource(name string, of revlog.ResourceStats) status.Resource {
	oldest, removedBy := begins(of)
	return status.Resource{
		Resource: name, Objects: of.Keys, Bytes: of.LiveBytes, HistoryBytes: of.History,
		ResourceVersion: resourceVersion(of.Last.Revision), LastTime: of.Last.Time,
		Oldest: resourceVersion(oldest.Revision), OldestTime: oldest.Time,
		RemovedBy: removedBy, RemovedAt: of.Floor.RemovedAt,
	}
}

// resourceVersion is that of a revision, which is not negative.
func resourceVersion(revision int64) kube.ResourceVersion {
	return kube.ResourceVersion(max(revision, 0)) //nolint:gosec // it is not negative
}
