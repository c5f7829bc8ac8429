package load

import (
	"context"
	"sync"
)

// gate stops writers between two writes. The zero gate is closed.
type gate struct {
	mu sync.Mutex
	// mu guards what follows.
	isOpen bool
	inside int
	change chan struct{} // closed and replaced at each change
}

// changedLocked wakes all who wait.
func (g *gate) changedLocked() {
	if g.change != nil {
		close(g.change)
	}
	g.change = nil
}

// wait waits until ok, which is called with mu held.
func (g *gate) wait(ctx context.Context, ok func() bool) error {
	for {
		g.mu.Lock()
		if ok() {
			g.mu.Unlock()
			return nil
		}
		if g.change == nil {
			g.change = make(chan struct{})
		}
		change := g.change
		g.mu.Unlock()
		select {
		case <-change:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// enter waits until the gate is open. Whoever entered leaves.
func (g *gate) enter(ctx context.Context) error {
	return g.wait(ctx, func() bool {
		if g.isOpen {
			g.inside++
		}
		return g.isOpen
	})
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	g.changedLocked()
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.isOpen = true
	g.changedLocked()
}

// close closes the gate, and waits until all have left.
func (g *gate) close(ctx context.Context) error {
	g.mu.Lock()
	g.isOpen = false
	g.mu.Unlock()
	return g.wait(ctx, func() bool { return g.inside == 0 })
}
