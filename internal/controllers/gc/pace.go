package gc

import (
	"context"
	"sync"
	"time"
)

// The most that the collector writes: 4 000 objects a second. It bounds the processor time and
// the space in groups of writes that clients lose to a large collection.
const (
	writeEvery = 250 * time.Microsecond
	// step is how often writes begin: those of a step share syncs and wake-ups.
	step = 4 * time.Millisecond
	// catchUp is how much of the time that has passed without a write may be made up for: while
	// syncs are slow, groups are larger. All workers may write at once then.
	catchUp = workers * writeEvery
)

// pace spreads the writes of all workers over time. The zero value is ready.
type pace struct {
	mu sync.Mutex
	at time.Time // when the next write is due; guarded by mu
}

// wait blocks until the next write may begin. It returns ctx's cause when ctx ends first.
func (p *pace) wait(ctx context.Context) error {
	pause := p.reserve(time.Now())
	if pause <= 0 {
		return nil
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// reserve returns how long the next write has to wait.
func (p *pace) reserve(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if oldest := now.Add(-catchUp); p.at.Before(oldest) {
		p.at = oldest
	}
	p.at = p.at.Add(writeEvery)
	if !p.at.After(now) {
		return 0
	}
	return p.at.Truncate(step).Add(step).Sub(now)
}
