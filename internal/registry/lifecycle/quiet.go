package lifecycle

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
)

// longestQuiet is the longest time for which the content of a namespace under deletion stays because
// clients are still deleting it. With several servers it stays for so long in any case: until then the
// others have seen the deletion, and committed what they had let in before, which Gate cannot know of.
// It is what upstream waits in any case, for both reasons
// (pkg/controller/namespace namespaceDeletionGracePeriod); there, a definition does not wait.
const longestQuiet = 5 * time.Second

// quiet leaves the content of containers under deletion, which are namespaces or definitions, as it is
// for a moment. Who deletes the objects of a manifest, as `kubectl delete -f` does, deletes the
// namespace first and finds its objects after it. The zero value does not wait.
type quiet struct {
	after time.Duration // the content stays until nothing in it was deleted for so long
	least time.Duration // the content stays for so long in any case

	// mu guards all containers under deletion, by name. A container leaves when it is gone.
	mu  sync.Mutex
	all map[string]*waiting
}

// waiting is one container under deletion.
type waiting struct {
	uid types.UID
	// began is when it was seen first: by this server, since the clocks of others may differ. last is
	// the last deletion in it.
	began, last time.Time
	over        bool // its content may be deleted
}

// left returns how much longer the content of a container stays. empty says of one that is new
// whether nothing is in it that a client would delete: then there is no client to wait for.
func (q *quiet) left(container *wire.Object, empty func() bool) time.Duration {
	if q.after == 0 && q.least == 0 {
		return 0
	}
	now, name := time.Now(), container.Key().Name
	q.mu.Lock()
	w := q.all[name]
	q.mu.Unlock()
	if w == nil || w.uid != container.UID() {
		w = &waiting{uid: container.UID(), began: now, last: now, over: q.least == 0 && empty()}
		q.mu.Lock()
		if q.all == nil {
			q.all = map[string]*waiting{}
		}
		q.all[name] = w
		q.mu.Unlock()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	until := w.last.Add(q.after)
	if most := w.began.Add(longestQuiet); until.After(most) {
		until = most
	}
	if least := w.began.Add(q.least); until.Before(least) {
		until = least
	}
	w.over = w.over || !until.After(now) // not again for what the server deletes
	if w.over {
		return 0
	}
	return until.Sub(now)
}

// seen notes the deletions among entries.
func (q *quiet) seen(entries []*watchcache.Entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.all) == 0 {
		return
	}
	for _, e := range entries {
		if w := q.all[e.Object.Key().Namespace]; w != nil && (e.Deleted || e.Object.Deleting()) {
			w.last = time.Now()
		}
	}
}

// keep forgets the containers for which is returns false.
func (q *quiet) keep(is func(name string) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for name := range q.all {
		if !is(name) {
			delete(q.all, name)
		}
	}
}

// empty reports whether a namespace has nothing but what the server itself puts into each: then no
// client is about to delete its objects.
func (c *Controller) empty(namespace string) bool {
	if c.elsewhere.any() {
		return false // of their objects nothing is known here
	}
	for _, resource := range c.cfg.Live.Load().Stored() {
		cached := c.cfg.Caches.Lookup(resource.GR())
		if cached == nil || !resource.Namespaced {
			continue
		}
		if cached.WholeIn(namespace) != nil {
			return false
		}
		for o := range cached.Cache.Snapshot().Scan("", watchcache.Selection{Namespace: namespace}) {
			switch name := o.Key().Name; resource.GR().String() + "/" + name {
			case "configmaps/kube-root-ca.crt", "serviceaccounts/default":
			default:
				return false
			}
		}
	}
	return true
}
