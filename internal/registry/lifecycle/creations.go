package lifecycle

import (
	"context"
	"sync"
)

// creations counts the creations that are under way, from the look at the namespace to
// the commit, so that no object is created in a namespace after its content was
// deleted. It knows those of this process: for other servers see longestQuiet. The zero value is
// ready. It is safe for concurrent use, but for wait.
type creations struct {
	// mu guards current and all generations.
	mu      sync.Mutex
	current *generation
}

// generation is the creations that began between two calls of wait.
type generation struct {
	running int
	closed  bool          // no creation is added any more
	done    chan struct{} // closed when the generation is closed and none is running
}

// begin counts a creation; the caller calls end when it is committed or given up, maybe more than
// once.
func (c *creations) begin() (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil {
		c.current = &generation{done: make(chan struct{})}
	}
	g, ended := c.current, false
	g.running++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if ended {
			return
		}
		ended = true
		g.running--
		if g.closed && g.running == 0 {
			close(g.done)
		}
	}
}

// wait blocks until every creation that began before it has ended. It is called by one
// goroutine at a time.
func (c *creations) wait(ctx context.Context) error {
	c.mu.Lock()
	g := c.current
	c.current = nil
	if g == nil || g.running == 0 {
		c.mu.Unlock()
		return nil
	}
	g.closed = true
	c.mu.Unlock()
	select {
	case <-g.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
