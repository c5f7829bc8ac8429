package serve

import (
	"context"
	"sync"
)

// Turn runs the work of controllers while a server is the leader among several over the same store.
// Whatever elects the leader calls Hold for each term.
type Turn struct {
	// mu guards the following.
	mu      sync.Mutex
	term    *term         // nil: this server does not lead
	changed chan struct{} // closed, and replaced, when term changes
}

// term is one time as the leader.
type term struct {
	ctx     context.Context //nolint:containedctx // it is the term
	working sync.WaitGroup
}

// NewTurn returns a Turn of a server that does not lead.
func NewTurn() *Turn { return &Turn{changed: make(chan struct{})} }

// Hold is one term: it lets work run until ctx ends, and returns when all of it has ended.
func (t *Turn) Hold(ctx context.Context) error {
	now := &term{ctx: ctx}
	t.set(now)
	<-ctx.Done()
	t.set(nil)
	now.working.Wait()
	return nil
}

func (t *Turn) set(now *term) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.term = now
	close(t.changed)
	t.changed = make(chan struct{})
}

// Leads reports whether the server leads.
func (t *Turn) Leads() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.term != nil
}

// enter returns the term, in which its caller works now; nil if there is none, and what is closed when
// that may have changed.
func (t *Turn) enter() (*term, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.term != nil {
		t.term.working.Add(1)
	}
	return t.term, t.changed
}

// Run calls work in each term, with a context that ends with the term, until ctx ends or work fails.
func (t *Turn) Run(ctx context.Context, work func(context.Context) error) error {
	for ctx.Err() == nil {
		now, changed := t.enter()
		if now != nil {
			if err := t.work(ctx, now, work); err != nil {
				return err
			}
		}
		select {
		case <-changed: // the term has ended, or another one begins
		case <-ctx.Done():
		}
	}
	return nil
}

func (*Turn) work(ctx context.Context, now *term, work func(context.Context) error) error {
	defer now.working.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(now.ctx, func() { cancel(context.Cause(now.ctx)) })() //nolint:contextcheck // the term's ends it too
	return work(ctx)
}
