package scale

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"time"
)

// shown is how many servers of each tier below the first are played for each server above: all do the same.
const shown = 3

// Played is how late events arrive at watchers, after they were written.
type Played struct {
	P50, P99, Most time.Duration
	Events         int // of all watchers that were played
}

// Play lets n changes come, at random times as often as the load says, and plays some servers of each tier. Work of a
// server is done in the order in which it comes, by whichever of its processors is free. A piece takes half of its cost and
// an exponentially distributed rest, at most three times its cost.
func Play(c Costs, tiers []Tier, l Load, m Machine, n int, seed uint64) Played {
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a simulation that can be repeated
	written := make([]time.Duration, n)
	var now time.Duration
	for i := range written {
		now += time.Duration(random.ExpFloat64() / l.Changes * float64(time.Second))
		written[i] = now
	}
	p := &player{c: c, tiers: tiers, m: m, random: random, written: written}
	p.serve(0, written)
	slices.Sort(p.late)
	at := func(q float64) time.Duration { return p.late[min(int(q*float64(len(p.late))), len(p.late)-1)] }
	return Played{P50: at(0.5), P99: at(0.99), Most: p.late[len(p.late)-1], Events: len(p.late)}
}

type player struct {
	c       Costs
	tiers   []Tier
	m       Machine
	random  *rand.Rand
	written []time.Duration
	late    []time.Duration
}

// serve plays a server of a tier, at which changes arrive, and those that it serves.
func (p *player) serve(depth int, arrives []time.Duration) {
	t, own := p.tiers[depth], p.c.Mirror
	if depth == 0 {
		own = p.c.Write
	}
	last := depth == len(p.tiers)-1
	follow := make([][]time.Duration, min(shown, t.Watchers))
	free := make(clocks, p.m.Processors)
	for i, at := range arrives {
		known := free.work(at, p.cost(own)) // watchers wake up when it is in the cache
		for w := range t.Watchers {
			done := free.work(known, p.cost(p.c.Event))
			if last {
				p.late = append(p.late, done-p.written[i])
			} else if w*len(follow)/t.Watchers != (w+1)*len(follow)/t.Watchers { // some, evenly spread: the last is one
				follow[w*len(follow)/t.Watchers] = append(follow[w*len(follow)/t.Watchers], done)
			}
		}
	}
	if last {
		return
	}
	for _, at := range follow {
		slices.Sort(at) // one connection: in order
		p.serve(depth+1, at)
	}
}

// cost is what a piece of work takes that costs so much on average.
func (p *player) cost(mean time.Duration) time.Duration {
	return time.Duration(float64(mean) * (0.5 + min(p.random.ExpFloat64(), 5)/2))
}

// clocks are when each processor of a server is free: a heap.
type clocks []time.Duration

// work does a piece of work that can begin at a time, and returns when it is done.
func (c clocks) work(at, takes time.Duration) time.Duration {
	done := max(at, c[0]) + takes
	c[0] = done
	heap.Fix(&c, 0)
	return done
}

// Len implements heap.Interface.
func (c clocks) Len() int { return len(c) }

// Less implements heap.Interface.
func (c clocks) Less(i, j int) bool { return c[i] < c[j] }

// Swap implements heap.Interface.
func (c clocks) Swap(i, j int) { c[i], c[j] = c[j], c[i] }

// Push implements heap.Interface. The number of processors does not change.
func (c clocks) Push(any) {}

// Pop implements heap.Interface, as Push.
func (c clocks) Pop() any { return nil }
