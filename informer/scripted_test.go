package informer_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/kube"
)

var (
	seed    = flag.Uint64("seed", 0, "replay one server of TestScriptedServers (0: many)")
	servers = flag.Uint64("servers", 2000, "how many servers TestScriptedServers plays")
	base    = flag.Uint64("base", 0, "the seed of the first of them (0: anywhere)")
)

// TestScriptedServers plays servers that fail in every way at random while objects
// change, and then lets them heal. It checks, after each step of the cache, that the
// state is one that the server had, at just that resource version (nothing is lost),
// and that the step is exactly the difference between two of them: objects that did
// not change keep their pointer and raise nothing. Handlers are told each key's way in
// order, some of them each version. At the end everybody knows the server's state.
//
// A seed that fails replays with -run TestScriptedServers -seed N, and says what
// happened; make servers plays a hundred thousand.
func TestScriptedServers(t *testing.T) {
	if *seed != 0 {
		playSeed(t, *seed)
		return
	}
	first := *base
	if first == 0 {
		first = rand.Uint64() >> 1
	}
	n := *servers
	if testing.Short() {
		n = min(n, 200)
	}
	var played atomic.Uint64
	for range runtime.GOMAXPROCS(0) {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			for {
				k := played.Add(1)
				if k > n || t.Failed() {
					return
				}
				if !t.Run(fmt.Sprint("seed=", first+k), func(t *testing.T) { playSeed(t, first+k) }) {
					t.Fatalf("replay with -run TestScriptedServers -seed %d", first+k)
				}
			}
		})
	}
}

func playSeed(t *testing.T, seed uint64) {
	synctest.Test(t, func(t *testing.T) {
		p := newStage(t, seed)
		p.play()
	})
}

// stage is one scripted server and an informer on it.
type stage struct {
	*testing.T
	rng      *rand.Rand
	s        *script
	backends []*backend
	i        *informer.Informer[*thing]
	tuned    bool
	rewinds  bool
	shard    *kube.Shard
	begun    time.Time

	// What the informer showed; the goroutine of Run, one at a time, writes it.
	cache   map[informer.Key]*thing
	rv      int
	history map[informer.Key][]*thing

	ledgers []*ledger
	recs    []*recorder
}

func newStage(t *testing.T, n uint64) *stage {
	rng := rand.New(rand.NewPCG(n, 1))
	p := &stage{
		T: t, rng: rng, s: newScript(rand.New(rand.NewPCG(n, 2))), begun: time.Now(),
		cache: map[informer.Key]*thing{}, history: map[informer.Key][]*thing{},
	}
	if *seed != 0 {
		p.s.shouts = func(format string, args ...any) {
			t.Logf("%9.3f "+format, append([]any{time.Since(p.begun).Seconds()}, args...)...)
		}
	}
	p.rewinds = !p.s.several && !p.s.oldRV && rng.IntN(5) == 0
	lends := rng.IntN(4) == 0
	namespaces := []string{""}
	if p.s.several {
		namespaces = []string{"default", "other"}
	}
	several := map[string]informer.Backend{}
	for k, namespace := range namespaces {
		b := &backend{script: p.s, rng: rand.New(rand.NewPCG(n, uint64(3+k))), namespace: namespace, lends: lends}
		several[namespace] = b
		p.backends = append(p.backends, b)
	}
	source := informer.From("script", informer.Backend(p.backends[0]), p.s.decode)
	if p.s.several {
		source = source.Several(several)
	}
	if lends {
		source = source.Lending()
	}
	if rng.IntN(10) == 0 {
		source = source.Sharded(0, 2)
		p.shard, _ = kube.ShardOf(0, 2)
	}
	p.i = informer.New(source, p.options(n)...)
	p.i.Mirror(p.turn)
	for range rng.IntN(7) {
		p.s.put(rng.IntN(population), false)
	}
	return p
}

func (p *stage) options(n uint64) []informer.Option {
	opts := []informer.Option{informer.Seed(n), informer.OnError(func(in informer.Incident) { p.s.shouts("%v", in) })}
	if p.rng.IntN(3) == 0 {
		opts = append(opts, informer.NoStreamingLists())
	}
	if p.rng.IntN(4) == 0 {
		p.tuned = true
		least := time.Duration(1+p.rng.IntN(2000)) * time.Millisecond
		opts = append(opts,
			informer.Backoff(least, least*time.Duration(1+p.rng.IntN(20))),
			informer.SyncDeadline(time.Duration(1+p.rng.IntN(60))*time.Second),
			informer.Watchdog(time.Duration(20+p.rng.IntN(300))*time.Second))
	}
	return opts
}

// play plays the script.
func (p *stage) play() {
	for range 1 + p.rng.IntN(2) {
		p.listen()
	}
	if p.rng.IntN(10) == 0 {
		p.recs = append(p.recs, addRandomHandler(p.T, p.i, p.rng, len(p.recs)))
		p.recs[0].rewinds = p.rewinds
	}
	runs := 1 + p.rng.IntN(5)/4
	for n := range runs {
		run(p.T, p.i, func() {
			p.churn(10 + p.rng.IntN(40))
			if n < runs-1 {
				return
			}
			p.checkRate()
			p.s.heal()
			p.settle()
			if p.rng.IntN(3) == 0 && !p.backends[0].astray {
				p.readAgain()
			}
		})
	}
	for _, rec := range p.recs {
		rec.stop()
		rec.check(p.T)
	}
	for _, l := range p.ledgers {
		l.check(p)
	}
}

func (p *stage) churn(ops int) {
	for range ops {
		name := p.rng.IntN(population)
		switch d := p.rng.IntN(100); {
		case d < 55:
			p.s.put(name, false)
		case d < 60:
			p.s.put(name, true)
		case d < 75:
			p.s.delete(name)
		case d < 84:
			p.s.delete(name)
			p.s.put(name, false)
		case d < 89:
			p.s.tick()
		case d < 95:
			p.s.compact()
		case d < 98 || !p.rewinds:
			p.s.restart()
		default:
			p.s.rewind()
		}
		if p.rng.IntN(3) == 0 {
			after(time.Duration(p.rng.IntN(10_000)) * time.Millisecond)
		}
		if p.rng.IntN(30) == 0 {
			after(time.Duration(p.rng.IntN(10)) * time.Minute)
		}
	}
}

// checkRate: whatever happened, the server was not hammered.
func (p *stage) checkRate() {
	for _, b := range p.backends {
		if most := 20 + int(time.Since(p.begun)/(800*time.Millisecond)); !p.tuned && b.requests > most {
			p.Errorf("%d requests in %v", b.requests, time.Since(p.begun))
		}
	}
}

// want is the server's state, without what cannot be read.
func (p *stage) want() map[informer.Key]string {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.wantOf(p.s.stateLocked())
}

func (p *stage) wantOf(m moment) map[informer.Key]string {
	want := map[informer.Key]string{}
	for _, v := range m {
		if v != nil && (p.shard == nil || p.shard.Includes(v.uid)) {
			want[v.key] = "?"
			if !v.bad {
				want[v.key] = p.digest(v.uid, strconv.Itoa(v.rv), v.value)
			}
		}
	}
	return want
}

// digest is how two versions are told apart: by the value too, unless there was another
// history with the same UIDs and resource versions, where nobody can.
func (p *stage) digest(uid types.UID, rv string, value int) string {
	if p.rewinds && !p.s.bumps {
		return fmt.Sprintf("%s rv=%s", uid, rv)
	}
	return fmt.Sprintf("%s rv=%s value=%d", uid, rv, value)
}

// differs compares what the informer has with what it should; what cannot be read may
// be missing, or be as it was.
func (p *stage) differs(want map[informer.Key]string, got map[informer.Key]*thing) string {
	has := map[informer.Key]string{}
	for k, o := range got {
		has[k] = p.digest(o.UID, o.ResourceVersion, o.Value)
	}
	for k, w := range want {
		if w == "?" {
			delete(want, k)
			delete(has, k)
		}
	}
	return cmp.Diff(want, has)
}

func (p *stage) cached() map[informer.Key]*thing {
	return maps.Collect(p.i.All())
}

// settle waits until the cache is the server's state, which a healthy server has to
// bring about, and then for the handlers.
func (p *stage) settle() {
	for range 15 {
		after(time.Minute)
		if p.differs(p.want(), p.cached()) == "" && p.i.ResourceVersion() != "" {
			break
		}
	}
	if diff := p.differs(p.want(), p.cached()); diff != "" {
		p.Errorf("cache (-server +cache):\n%s", diff)
	}
	if len(p.recs) > 0 {
		after(10 * time.Minute)
	}
	now := p.cached()
	for _, rec := range p.recs {
		if diff := rec.missing(now); diff != "" {
			p.Errorf("%s (-cache +handler):\n%s", rec.name, diff)
		}
	}
}

// readAgain lets the server forget: nobody hears of a state that is as it was.
func (p *stage) readAgain() {
	held, lists := p.cached(), p.i.Status().Lists
	var calls int
	for _, l := range p.ledgers {
		calls += l.count()
	}
	p.s.tick()
	p.s.compact()
	p.s.restart()
	after(12 * time.Minute) // a dead watch is noticed only then
	if p.i.Status().Lists == lists {
		p.Errorf("nothing was read again: %+v", p.i.Status())
	}
	if diff := cmp.Diff(pointers(held), pointers(p.cached())); diff != "" {
		p.Errorf("pointers (-before +after):\n%s", diff)
	}
	for _, l := range p.ledgers {
		calls -= l.count()
	}
	if calls != 0 {
		p.Errorf("%d calls for a state that is as it was", -calls)
	}
}

func pointers(all map[informer.Key]*thing) map[informer.Key]string {
	these := map[informer.Key]string{}
	for k, o := range all {
		these[k] = fmt.Sprintf("%p", o)
	}
	return these
}

// turn checks a step of the cache.
func (p *stage) turn(turn informer.Turn[*thing]) {
	rewound := false
	if b := p.backends[0]; turn.Whole && !p.s.several {
		rewound = b.answered != b.known || b.astray
		b.known, b.astray = b.answered, false
	}
	for k, o := range turn.Changes() {
		old := p.cache[k]
		switch {
		case o == nil && old == nil:
			p.Errorf("%v was not there and is deleted", k)
		case o == nil:
			delete(p.cache, k)
		case old != nil && old.UID != o.UID:
			p.Errorf("%v: %s became %s without a deletion", k, digest(old), digest(o))
		case old != nil && old.ResourceVersion == o.ResourceVersion && !rewound:
			p.Errorf("%v: %s did not change", k, digest(o))
		default:
			p.cache[k] = o
		}
		p.history[k] = append(p.history[k], o)
	}
	if turn.Len() != len(p.cache) {
		p.Errorf("%d objects, with the changes %d", turn.Len(), len(p.cache))
	}
	for k, o := range turn.All() {
		if p.cache[k] != o {
			p.Errorf("%v: nobody said that it is %s", k, digest(o))
		}
	}
	p.checkState(turn.RV, rewound)
}

// checkState: what the informer says that it has at a resource version is what the
// server had there.
func (p *stage) checkState(rv string, rewound bool) {
	var now int
	if _, err := fmt.Sscan(rv, &now); err != nil {
		p.Errorf("resourceVersion %q: %v", rv, err)
		return
	}
	p.s.shouts("the cache is at %d, with %d objects", now, len(p.cache))
	if now < p.rv && !rewound {
		p.Errorf("the position went from %d to %d", p.rv, now)
	}
	p.rv = now
	if p.s.several || p.s.oldRV || p.backends[0].astray {
		return // the position says less
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if moments := p.s.moments[p.backends[0].known]; now-p.s.first >= len(moments) {
		p.Errorf("the position is %d, which the server never was at", now)
	} else if diff := p.differs(p.wantOf(moments[now-p.s.first]), p.cache); diff != "" {
		p.Errorf("at %d (-server +cache):\n%s", now, diff)
	}
}

// ledger is a handler that keeps accounts.
type ledger struct {
	every bool
	mu    sync.Mutex
	told  map[informer.Key][]*thing
	calls int
}

// listen adds a handler.
func (p *stage) listen() {
	l := &ledger{told: map[informer.Key][]*thing{}, every: p.rng.IntN(2) == 0}
	opts := []informer.HandleOption{informer.Workers(1 + p.rng.IntN(2))}
	if l.every {
		opts = append(opts, informer.Every(1+p.rng.IntN(20), informer.Block))
	}
	p.i.Handle(l.handle, opts...)
	p.ledgers = append(p.ledgers, l)
}

func (l *ledger) handle(_ context.Context, e event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told[e.Key] = append(l.told[e.Key], e.New)
	l.calls++
	return nil
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls
}

// check compares what was told with the way the cache went.
func (l *ledger) check(p *stage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, history := range p.history {
		told := l.told[k]
		if l.every && len(told) != len(history) {
			p.Errorf("%v: %d versions, told %d", k, len(history), len(told))
		}
		last := func(all []*thing) *thing {
			if len(all) == 0 {
				return nil
			}
			return all[len(all)-1]
		}
		if last(told) != last(history) {
			p.Errorf("%v: told last %s", k, way(told))
		}
		for _, o := range history {
			if len(told) > 0 && told[0] == o {
				told = told[1:]
			}
		}
		if len(told) > 0 {
			p.Errorf("%v: the way was %s, told %s", k, way(history), way(l.told[k]))
		}
	}
}

func way(all []*thing) string {
	var b strings.Builder
	for _, o := range all {
		if o == nil {
			b.WriteString(" gone")
		} else {
			b.WriteString(" " + o.ResourceVersion)
		}
	}
	return b.String()
}
