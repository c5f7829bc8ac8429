package stored

import (
	"sync"

	"github.com/gapless-io/gapless/kube"
)

// knownCounts bounds Counts: some 100 bytes each.
const knownCounts = 256

// Place is where a list continues: all objects with a key >= Start, in one namespace or
// ("") in all, at a resourceVersion.
type Place struct {
	RV        kube.ResourceVersion
	Start     string
	Namespace string
}

// Counts cache how many objects follow the places where pages of lists ended, so that the
// next page need not count the remaining items. They never become stale: a past state does
// not change. The zero value is empty and ready.
type Counts struct {
	// mu guards known and order.
	mu    sync.Mutex
	known map[Place]int64
	order []Place // oldest first
}

// Get returns how many objects follow a place, if the count is cached.
func (c *Counts) Get(p Place) (n int64, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, known = c.known[p]
	return n, known
}

// Put caches a count, and evicts the oldest when there are too many.
func (c *Counts) Put(p Place, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.known[p]; known {
		return
	}
	if c.known == nil {
		c.known = map[Place]int64{}
	}
	if len(c.order) == knownCounts {
		delete(c.known, c.order[0])
		c.order = append(c.order[:0], c.order[1:]...)
	}
	c.known[p] = n
	c.order = append(c.order, p)
}
