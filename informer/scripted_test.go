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
	"github.com/gapless-io/gapless/informer/listwatchtest"
	"github.com/gapless-io/gapless/kube"
)

var (
	seed    = flag.Uint64("seed", 0, "replay one server of TestScriptedServers (0: many)")
	servers = flag.Uint64("servers", 1000, "how many servers TestScriptedServers plays")
	base    = flag.Uint64("base", 0, "the seed of the first of them (0: anywhere)")
)

// TestScriptedServers runs an informer against servers that fail at random while objects
// change, and then heal. After each update of the cache it checks that the server had this
// state at this resource version, and that the update is exactly the difference to the
// state before: unchanged objects keep their pointer and cause no event. Handlers get the
// versions of each key in order, some of them every version. At the end the cache and the
// handlers have the server's state.
//
// -run TestScriptedServers -seed N repeats one seed with a log; make servers runs a
// hundred thousand.
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
		n = min(n, 100)
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
		p := newScenario(t, seed)
		p.play()
	})
}

// scenario is one scripted server and an informer on it.
type scenario struct {
	*testing.T
	rng     *rand.Rand
	s       *script
	views   []*listwatchtest.View
	i       *informer.Informer[*thing]
	tuned   bool
	rewinds bool
	shard   *kube.Shard
	begun   time.Time

	// The states of the cache, written by the goroutine of Run.
	cache   map[informer.Key]*thing
	rv      int
	history map[informer.Key][]*thing

	versionLogs []*versionLog
	recs        []*recorder
}

func (p *scenario) logf(format string, args ...any) {
	if p.s.Log != nil {
		p.s.Log(format, args...)
	}
}

func newScenario(t *testing.T, n uint64) *scenario {
	rng := rand.New(rand.NewPCG(n, 1))
	p := &scenario{
		T: t, rng: rng, s: newScript(rand.New(rand.NewPCG(n, 2))), begun: time.Now(),
		cache: map[informer.Key]*thing{}, history: map[informer.Key][]*thing{},
	}
	if *seed != 0 {
		p.s.Log = func(format string, args ...any) {
			t.Logf("%9.3f "+format, append([]any{time.Since(p.begun).Seconds()}, args...)...)
		}
	}
	p.rewinds = !p.s.several && !p.s.DeletionKeepsRV && rng.IntN(5) == 0
	lends := rng.IntN(4) == 0
	namespaces := []string{""}
	if p.s.several {
		namespaces = []string{"default", "other"}
	}
	several := map[string]informer.Backend{}
	for k, namespace := range namespaces {
		faults := &listwatchtest.Random{Rand: rand.New(rand.NewPCG(n, uint64(3+k))), Rate: p.s.rate}
		v := &listwatchtest.View{
			Server: p.s.Server, Namespace: namespace, Lend: lends, Fail: faults.Next, Position: new(listwatchtest.Position),
		}
		several[namespace] = backend(v)
		p.views = append(p.views, v)
	}
	source := informer.From("script", backend(p.views[0]), p.s.decode)
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

func (p *scenario) options(n uint64) []informer.Option {
	opts := []informer.Option{informer.Seed(n), informer.OnError(func(in informer.Incident) { p.logf("%v", in) })}
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

// play runs the scenario.
func (p *scenario) play() {
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
			p.s.Heal()
			p.converge()
			if p.rng.IntN(3) == 0 && !p.views[0].Position.Astray {
				p.readAgain()
			}
		})
	}
	for _, rec := range p.recs {
		rec.stop()
		rec.check(p.T)
	}
	for _, l := range p.versionLogs {
		l.check(p)
	}
}

func (p *scenario) churn(ops int) {
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
			p.s.Tick()
		case d < 95:
			p.s.Compact(0)
		case d < 98 || !p.rewinds:
			p.s.Restart()
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

// checkRate checks that the rate of requests stayed bounded.
func (p *scenario) checkRate() {
	requests := map[string]int{} // by namespace, for a state or a watch; of pages only those of lists that never end
	for _, r := range p.s.Requests() {
		if r.Watch || r.Continue == "" || r.InEndless() {
			requests[r.Namespace]++
		}
	}
	for namespace, n := range requests {
		if most := 40 + int(time.Since(p.begun)/(800*time.Millisecond)); !p.tuned && n > most {
			p.Errorf("%d requests in %v, of namespace %q", n, time.Since(p.begun), namespace)
		}
	}
}

// want returns the server's state without undecodable objects.
func (p *scenario) want() map[informer.Key]string { return p.wantOf(p.s.Objects()) }

func (p *scenario) wantOf(objects []*listwatchtest.Version) map[informer.Key]string {
	want := map[informer.Key]string{}
	for _, v := range objects {
		if p.shard == nil || p.shard.Includes("", v.UID) {
			want[v.Key] = "?"
			if c := v.Value.(payload); !c.unreadable {
				want[v.Key] = p.digest(v.UID, strconv.Itoa(v.RV), c.value)
			}
		}
	}
	return want
}

// digest identifies a version. It includes the value, unless the server had two histories
// with the same UIDs and resource versions, which a client cannot distinguish.
func (p *scenario) digest(uid types.UID, rv string, value int) string {
	if p.rewinds && !p.s.bumps {
		return fmt.Sprintf("%s rv=%s", uid, rv)
	}
	return fmt.Sprintf("%s rv=%s value=%d", uid, rv, value)
}

// differs compares the cache with the state that it should have. An undecodable object may
// be missing or have an older state.
func (p *scenario) differs(want map[informer.Key]string, got map[informer.Key]*thing) string {
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

func (p *scenario) cached() map[informer.Key]*thing {
	return maps.Collect(p.i.All())
}

// converge waits until the cache has the state of the server, which is healthy now, and
// then for the handlers. Before the informer has heard of the server again, the states can only
// happen to be equal, such as but for an undecodable object.
func (p *scenario) converge() {
	healed := time.Now()
	for range 15 {
		after(time.Minute)
		if p.differs(p.want(), p.cached()) == "" && p.i.ResourceVersion() != "" && p.i.Status().LastContact.After(healed) {
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

// readAgain compacts the server's history, so that the informer lists again, and checks
// that an unchanged state causes no event.
func (p *scenario) readAgain() {
	held, lists := p.cached(), p.i.Status().Lists
	var calls int
	for _, l := range p.versionLogs {
		calls += l.count()
	}
	p.s.Tick()
	p.s.Compact(0)
	p.s.Restart()
	after(12 * time.Minute) // a dead watch is noticed only then
	if p.i.Status().Lists == lists {
		p.Errorf("nothing was read again: %+v", p.i.Status())
	}
	if diff := cmp.Diff(pointers(held), pointers(p.cached())); diff != "" {
		p.Errorf("pointers (-before +after):\n%s", diff)
	}
	for _, l := range p.versionLogs {
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

// turn checks one update of the cache.
func (p *scenario) turn(update informer.Update[*thing]) {
	rewound := false
	if update.Whole && !p.s.several {
		rewound = p.views[0].Position.Take()
	}
	for k, o := range update.Changes() {
		old := p.cache[k]
		switch {
		case o == nil && old == nil:
			p.Errorf("%v was not there and is deleted", k)
		case o == nil:
			delete(p.cache, k)
		case old != nil && old.UID != o.UID:
			p.Errorf("%v: %s became %s without a deletion", k, digest(old), digest(o))
		case old != nil && old.ResourceVersion == o.ResourceVersion && old.Value == o.Value && !rewound:
			p.Errorf("%v: %s did not change", k, digest(o))
		default:
			p.cache[k] = o
		}
		p.history[k] = append(p.history[k], o)
	}
	if update.Len() != len(p.cache) {
		p.Errorf("%d objects, with the changes %d", update.Len(), len(p.cache))
	}
	for k, o := range update.All() {
		if p.cache[k] != o {
			p.Errorf("%v: nobody said that it is %s", k, digest(o))
		}
	}
	p.checkState(update.RV, rewound)
}

// checkState compares the cache with the server's state at the same resource version.
func (p *scenario) checkState(rv string, rewound bool) {
	var now int
	if _, err := fmt.Sscan(rv, &now); err != nil {
		p.Errorf("resourceVersion %q: %v", rv, err)
		return
	}
	p.logf("the cache is at %d, with %d objects", now, len(p.cache))
	if now < p.rv && !rewound {
		p.Errorf("the position went from %d to %d", p.rv, now)
	}
	p.rv = now
	at := p.views[0].Position
	if p.s.several || p.s.DeletionKeepsRV || at.Astray {
		return // the resource version does not identify the state
	}
	if objects, was := p.s.ObjectsAt(at.Known, now); !was {
		p.Errorf("the position is %d, which the server never was at", now)
	} else if diff := p.differs(p.wantOf(objects), p.cache); diff != "" {
		p.Errorf("at %d (-server +cache):\n%s", now, diff)
	}
}

// versionLog is a handler that records the versions of each key.
type versionLog struct {
	every    bool
	mu       sync.Mutex
	received map[informer.Key][]*thing
	calls    int
}

// listen adds a handler.
func (p *scenario) listen() {
	l := &versionLog{received: map[informer.Key][]*thing{}, every: p.rng.IntN(2) == 0}
	opts := []informer.HandleOption{informer.Workers(1 + p.rng.IntN(2))}
	if l.every {
		opts = append(opts, informer.Every(1+p.rng.IntN(20), informer.Block))
	}
	p.i.Handle(l.handle, opts...)
	p.versionLogs = append(p.versionLogs, l)
}

func (l *versionLog) handle(_ context.Context, e event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.received[e.Key] = append(l.received[e.Key], e.New)
	l.calls++
	return nil
}

func (l *versionLog) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls
}

// check compares the received versions with those of the cache.
func (l *versionLog) check(p *scenario) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, history := range p.history {
		received := l.received[k]
		if l.every && len(received) != len(history) {
			p.Errorf("%v: %d versions in the cache, %d received", k, len(history), len(received))
		}
		last := func(all []*thing) *thing {
			if len(all) == 0 {
				return nil
			}
			return all[len(all)-1]
		}
		if last(received) != last(history) {
			p.Errorf("%v: the last one received is %s", k, way(received))
		}
		for _, o := range history {
			if len(received) > 0 && received[0] == o {
				received = received[1:]
			}
		}
		if len(received) > 0 {
			p.Errorf("%v: the cache had %s, received %s", k, way(history), way(l.received[k]))
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
