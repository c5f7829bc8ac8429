package relay

import "sync"

const (
	// opening is what a mirror costs upstream before it has saved anything: a list and a watch.
	opening = 2
	// overdraft is how many requests upstream may get above those of readers.
	overdraft = 2
	// savings bounds what readers can have saved, and so how many requests follow one another for a few.
	savings = 64
)

// account counts what the readers of a collection would have asked upstream, and what upstream is asked in
// their place: never more, besides the overdraft. The mirror's later watches are not counted: they end as
// seldom as those of readers would.
type account struct {
	mu sync.Mutex
	// mu guards saved.
	saved int64 // reads less requests
}

// read counts a list or a watch of a reader.
func (a *account) read() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.saved = min(a.saved+1, savings)
}

// spend counts requests to upstream.
func (a *account) spend(requests int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.saved -= requests
}

// affords reports whether upstream may get so many requests now.
func (a *account) affords(requests int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.saved-requests >= -overdraft
}

// asks counts a request to upstream for readers.
func (c *collection) asks(what string) {
	c.fresh.account.spend(1)
	c.relay.metrics.upstream.WithLabelValues(c.name, what).Inc()
}
