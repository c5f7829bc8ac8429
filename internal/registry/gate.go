package registry

import (
	"context"
	"sync"
)

// gate counts the creations that are under way, from the look at the namespace to
// the commit, so that nothing is created in a namespace after it was found empty.
type gate struct {
	// mu guards now and all crossings.
	mu  sync.Mutex
	now *crossing
}

// crossing is those who entered between two barriers.
type crossing struct {
	inside int
	shut   bool          // nobody will enter any more
	empty  chan struct{} // closed when it is shut and nobody is inside
}

// enter lets a creation in; the caller calls leave when it is committed.
func (g *gate) enter() (leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.now == nil {
		g.now = &crossing{empty: make(chan struct{})}
	}
	c := g.now
	c.inside++
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		c.inside--
		if c.shut && c.inside == 0 {
			close(c.empty)
		}
	})
}

// barrier waits for everyone who entered before it. It is called by one goroutine
// at a time.
func (g *gate) barrier(ctx context.Context) error {
	g.mu.Lock()
	c := g.now
	g.now = nil
	if c == nil || c.inside == 0 {
		g.mu.Unlock()
		return nil
	}
	c.shut = true
	g.mu.Unlock()
	select {
	case <-c.empty:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
