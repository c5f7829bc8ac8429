package share_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/share"
)

var seed = flag.Uint64("seed", 0, "of the random test; 0: a random one")

// holding is one lease in the model.
type holding struct {
	*share.Lease[*book]
	source int
	object *book
	over   atomic.Bool // Release has returned
	calls  atomic.Int64
}

// model is what is held: leases of one source that are held at the same time have
// the same cache, which shows in the pointer to an object that never changes.
type model struct {
	t  *testing.T
	mu sync.Mutex
	// mu guards held.
	held map[int]map[*holding]struct{}
}

func (m *model) enter(h *holding) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for other := range m.held[h.source] {
		if other.object != h.object {
			m.t.Errorf("source %d has two caches at once", h.source)
		}
	}
	if m.held[h.source] == nil {
		m.held[h.source] = map[*holding]struct{}{}
	}
	m.held[h.source][h] = struct{}{}
}

func (m *model) leave(h *holding) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.held[h.source], h)
}

// player takes and releases leases at random.
type player struct {
	*model
	pool    *share.Pool
	sources []informer.Source[*book]
	mine    []*holding
	random  *rand.Rand
}

func (p *player) take(ctx context.Context) {
	n := p.random.IntN(len(p.sources))
	l, err := share.Get(p.pool, p.sources[n])
	if err != nil {
		p.t.Errorf("take a lease: %v", err)
		return
	}
	h := &holding{Lease: l, source: n}
	if p.random.IntN(2) == 0 {
		l.Handle(func(context.Context, informer.Event[*book]) error {
			if h.over.Load() {
				p.t.Error("a handler is called after its lease was released")
			}
			h.calls.Add(1)
			return nil
		})
	}
	switch p.random.IntN(3) {
	case 0: // at once, perhaps before it was begun
		p.release(ctx, h)
		return
	case 1:
		x, err := share.NewIndex1(l, "name", func(b *book) string { return b.Name })
		if err != nil {
			p.t.Errorf("make an index: %v", err)
		} else if err := l.WaitSynced(ctx); err != nil || x.Len("still") != 1 {
			p.t.Errorf("the index has %d objects, synced: %v", x.Len("still"), err)
		}
	}
	if err := l.WaitSynced(ctx); err != nil {
		p.t.Errorf("wait until it is synced: %v", err)
	}
	h.object, _ = l.Get(keyOf("still"))
	p.enter(h)
	p.mine = append(p.mine, h)
}

func (p *player) release(ctx context.Context, h *holding) {
	if err := h.Release(ctx); err != nil {
		p.t.Errorf("release: %v", err)
	}
	h.over.Store(true)
}

func (p *player) play(ctx context.Context, steps int) {
	for range steps {
		if len(p.mine) == 0 || len(p.mine) < 3 && p.random.IntN(2) == 0 {
			p.take(ctx)
			continue
		}
		n := p.random.IntN(len(p.mine))
		h := p.mine[n]
		p.mine = append(p.mine[:n], p.mine[n+1:]...)
		p.leave(h)
		p.release(ctx, h)
	}
	for _, h := range p.mine {
		p.leave(h)
		p.release(ctx, h)
	}
}

func TestLeasesCanBeTakenAndReleasedConcurrently(t *testing.T) {
	start := *seed
	if start == 0 {
		start = rand.Uint64()
	}
	t.Logf("-seed %d", start)
	var shelves []shelf
	var sources []informer.Source[*book]
	for n := range 3 {
		s := newShelf()
		s.put("still", n)
		shelves, sources = append(shelves, s), append(sources, s.source(fmt.Sprint("shelf-", n)))
	}
	pool := share.New(share.Config{OnLeak: func(l share.Leak) { t.Errorf("a leak: %+v", l) }})
	m := &model{t: t, held: map[int]map[*holding]struct{}{}}
	var players sync.WaitGroup
	for n := range 8 {
		p := &player{model: m, pool: pool, sources: sources, random: rand.New(rand.NewPCG(start, uint64(n)))}
		players.Go(func() { p.play(t.Context(), 250) })
	}
	done := make(chan struct{})
	go func() { players.Wait(); close(done) }() // ends with the players
	random := rand.New(rand.NewPCG(start, 99))
	for stopped := false; !stopped; {
		stop := run(t, pool)
		for range random.IntN(50) {
			shelves[random.IntN(len(shelves))].put("moves", random.Int())
		}
		select {
		case <-done:
			stopped = true
		default:
		}
		stop() // and on in the next round
	}
	for n, s := range shelves {
		if open, opened := s.watches(); open != 0 || opened == 0 {
			t.Errorf("shelf %d: %d of %d watches are open at the end", n, open, opened)
		}
	}
	if left := pool.Shared(); len(left) > 0 {
		t.Errorf("held at the end: %v", left)
	}
}
