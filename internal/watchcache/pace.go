package watchcache

import (
	"context"
	"slices"
	"time"

	"github.com/gapless-io/gapless/kube"
)

// Writers take processors, and the one goroutine of an HTTP/2 connection, from the watchers of what they
// write: without a bound, those are seconds behind as soon as more is written than can be sent. So a writer waits a little
// while most watchers of the resource are late. Most, since one that is slow must slow nobody else; and a little,
// since it is better to be late than to refuse writes.
const (
	// paceWait is how long one write waits at most, whatever its watchers do.
	paceWait = 5 * time.Millisecond
	// paceLook is how often a writer that waits looks again, and the time between two looks.
	paceLook = time.Millisecond
	// paceLate is how old a change is that a late watcher has not been sent.
	paceLate = 50 * time.Millisecond
	// paceLost is how late a watcher is that does not count any more: it will not follow, whoever waits for it.
	paceLost = time.Second
	// paceStalled is how long a watcher that is sent nothing counts: its client does not read.
	paceStalled = 100 * time.Millisecond
	// paceQuorum is for how many watchers writers wait at all.
	paceQuorum = 8
	// paceSample is how many watchers one look looks at.
	paceSample = 32
)

// pace says whether most watchers of a resource are late. index.mu guards it.
type pace struct {
	all     []*Cursor // every open cursor
	next    int       // of all, the first to be looked at next
	looked  time.Time
	closed  bool // what the last look has found
	history []reached
}

// reached is a resourceVersion that the resource had at a time.
type reached struct {
	rv kube.ResourceVersion
	at time.Time
}

// paceStep and paceSteps are the resolution and the length of pace.history, which reaches back for longer than paceLost.
const (
	paceStep  = 4 * time.Millisecond
	paceSteps = 256
)

// progress is what pace knows of a cursor.
type progress struct {
	at    int                  // its place in pace.all
	pos   kube.ResourceVersion // when it was looked at
	moved time.Time            // when it was seen to have another position than before
}

// Pace is called by who has appended, in the goroutine that is to be slowed down: it blocks for at most 5 ms, or until ctx
// ends, while more than half of at least 8 watchers have not been sent changes that are older than 50 ms. A watcher
// counts as long as it is sent anything, and is less than a second late.
func (c *Cache) Pace(ctx context.Context) {
	if c.cursors.Load() < paceQuorum || !c.waiting.late(time.Now()) {
		return
	}
	c.paced.Add(1)
	until := time.Now().Add(paceWait)
	again := time.NewTicker(paceLook)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-again.C:
			if !now.Before(until) || !c.waiting.late(now) {
				return
			}
		}
	}
}

// opened adds a cursor to those that are looked at.
func (x *index) opened(k *Cursor) {
	x.mu.Lock()
	defer x.mu.Unlock()
	k.progress.at = len(x.pace.all)
	x.pace.all = append(x.pace.all, k)
}

// closed removes it.
func (x *index) closed(k *Cursor) {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := x.pace.all
	last := len(all) - 1
	all[k.progress.at] = all[last]
	all[k.progress.at].progress.at = k.progress.at
	all[last] = nil
	x.pace.all = all[:last]
}

// late reports whether most watchers are late.
func (x *index) late(now time.Time) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := &x.pace
	if now.Sub(p.looked) < paceLook {
		return p.closed
	}
	p.looked = now
	p.note(now, x.cache.state.Load().last)
	late, lost := p.reached(now.Add(-paceLate)), p.reached(now.Add(-paceLost))
	counted, behind := 0, 0
	for range min(paceSample, len(p.all)) {
		if p.next++; p.next >= len(p.all) {
			p.next = 0
		}
		switch k := p.all[p.next]; {
		case k.wait.in != nil:
			counted++ // it has everything
		case !k.moving(now, lost):
		case k.progress.pos < late:
			behind++
			counted++
		default:
			counted++
		}
	}
	p.closed = counted >= paceQuorum && behind > counted/2
	return p.closed
}

// moving updates what is known of a cursor that does not wait, and reports whether it is being sent
// anything, and is further than lost. index.mu is held.
func (k *Cursor) moving(now time.Time, lost kube.ResourceVersion) bool {
	// What it has considered, or what look has for it; nothing before matched.
	at := max(kube.ResourceVersion(k.done.Load()), k.wait.hit-min(k.wait.hit, 1))
	if at != k.progress.pos || k.progress.moved.IsZero() {
		k.progress.pos, k.progress.moved = at, now
	}
	return at >= lost && now.Sub(k.progress.moved) < paceStalled
}

// note remembers that the resource has reached rv.
func (p *pace) note(now time.Time, rv kube.ResourceVersion) {
	if p.history == nil {
		p.history = make([]reached, 0, paceSteps)
	}
	if n := len(p.history); n > 0 && now.Sub(p.history[n-1].at) < paceStep {
		return
	}
	if len(p.history) == paceSteps {
		p.history = slices.Delete(p.history, 0, paceSteps/4)
	}
	p.history = append(p.history, reached{rv, now})
}

// reached returns what the resource had reached at a time, or before; 0 if that is not known.
func (p *pace) reached(at time.Time) kube.ResourceVersion {
	for _, r := range slices.Backward(p.history) {
		if !r.at.After(at) {
			return r.rv
		}
	}
	return 0
}
