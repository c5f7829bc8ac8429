package relay_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	gvk "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer/listwatchtest"
	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/mirror"
	"github.com/gapless-io/gapless/internal/relay"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

var (
	moverSeed  = flag.Uint64("seed", 0, "play only this seed")
	moverSeeds = flag.Int("seeds", 60, "how many seeds to play")
)

// scripted is an API server whose answers a test decides, with one resource: things.
type scripted struct {
	*listwatchtest.Server

	passed *atomic.Int64 // lists that the relay passed on
}

func newScripted() scripted {
	s := scripted{listwatchtest.New(), new(atomic.Int64)}
	s.ServesMetadata = true
	return s
}

// ServeHTTP adds discovery.
func (s scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch strings.TrimSuffix(r.URL.Path, "/") {
	case "/api":
		_, _ = io.WriteString(w, `{"kind":"APIVersions","versions":["v1"]}`)
	case "/apis":
		_, _ = io.WriteString(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
	case "/api/v1":
		_, _ = io.WriteString(w,
			`{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"things","singularName":"thing","namespaced":true,"kind":"Thing","verbs":["get","list","watch"]}]}`)
	default:
		s.Server.ServeHTTP(w, r)
	}
}

// served is a relay of a scripted server, without HTTP on its own side. It ends with the bubble's
// test.
type served struct {
	relay *relay.Relay
	stop  func()
}

func serve(t testing.TB, upstream http.Handler) *served {
	t.Helper()
	m, err := mirror.Open(t.Context(), mirror.Options{Memory: true})
	if err != nil {
		t.Fatalf("open the mirror: %v", err)
	}
	r, err := relay.New(relay.Config{Upstream: listwatchtest.Config(upstream), Mirror: m, Resources: []string{"things"}})
	if err != nil {
		t.Fatalf("make a relay: %v", err)
	}
	return running(t, r, m)
}

// running runs a relay until stop is called.
func running(t testing.TB, r *relay.Relay, m *mirror.Mirror) *served {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	below, cancelBelow := context.WithCancel(context.Background())
	logEnded, ended := make(chan error, 1), make(chan error, 1)
	go func() { logEnded <- m.Run(below) }() // stop waits for it
	go func() { ended <- r.Run(ctx) }()      // stop waits for it
	return &served{relay: r, stop: func() {
		cancel()
		err := <-ended
		cancelBelow()
		if err := errors.Join(err, <-logEnded, m.Close()); err != nil {
			t.Errorf("wait for log ended and close: %v", err)
		}
	}}
}

// target is what is read.
func (s *served) target() (kinds.Target, bool) {
	resource, served := s.relay.Live().Load().Lookup(gvk.GroupVersionResource{Version: "v1", Resource: "things"})
	return kinds.Target{Resource: resource}, served
}

func options(rv string) wire.ListOptions {
	o := wire.ListOptions{Labels: labels.Everything(), Fields: fields.Everything(), ResourceVersion: rv, Bookmarks: true}
	o.RV, _ = kube.ParseResourceVersion(rv)
	return o
}

// mover is a client that watches the relay or upstream, and moves between them at any moment with
// the resourceVersion that it has reached.
type mover struct {
	t      testing.TB
	name   string
	world  scripted
	served *served
	rng    *rand.Rand

	restarts time.Time // until then it forgets what it knows now and then

	state map[string]string // name: resourceVersion
	rv    kube.ResourceVersion
	log   []string
	lists int
	fresh int // lists of the most recent state among them
}

func (m *mover) logf(format string, args ...any) {
	m.log = append(m.log, fmt.Sprintf(format, args...))
}

// check compares the state with upstream's at a resourceVersion.
func (m *mover) check(at kube.ResourceVersion, where string) {
	objects, known := m.world.ObjectsAt(0, int(at)) //nolint:gosec // small
	if !known {
		return
	}
	want := map[string]string{}
	for _, o := range objects {
		want[o.Key.Name] = fmt.Sprint(o.RV)
	}
	if diff := cmp.Diff(want, m.state); diff != "" {
		m.t.Errorf("%s at %d %s (-upstream +client):\n%s\n%s", m.name, at, where, diff, strings.Join(m.log, "\n"))
	}
}

func (m *mover) apply(kind kube.EventType, name string, rv kube.ResourceVersion) {
	m.logf("%v %s %d", kind, name, rv)
	if kind == kube.Deleted {
		delete(m.state, name)
	} else {
		m.state[name] = rv.String()
	}
	m.rv = max(m.rv, rv)
}

// run lists and watches until ctx ends.
func (m *mover) run(ctx context.Context) {
	for ctx.Err() == nil {
		if m.rng.IntN(10) == 0 && time.Now().Before(m.restarts) { // it starts again
			m.rv, m.state = 0, map[string]string{}
		}
		short, cancel := context.WithTimeout(ctx, time.Duration(m.rng.IntN(40_000))*time.Millisecond)
		var err error
		if m.rng.IntN(3) == 0 {
			err = m.upstream(short)
		} else {
			err = m.relayed(short)
		}
		cancel()
		if _, expired := errors.AsType[*kube.ExpiredError](err); expired || kube.Classify(err) == kube.OutcomeExpired {
			m.logf("410: %v", err)
			m.rv, m.state = 0, map[string]string{}
		}
		if m.t.Failed() {
			return
		}
		wait(ctx, time.Duration(m.rng.IntN(2000))*time.Millisecond)
	}
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// relayed reads from the relay.
func (m *mover) relayed(ctx context.Context) error {
	target, served := m.served.target()
	if !served {
		return nil
	}
	reader := m.served.relay.Reader()
	if m.rv == 0 {
		o := options([]string{"", "0"}[m.rng.IntN(2)])
		before := m.world.RV()
		l, err := reader.List(ctx, target, o)
		if passed, is := errors.AsType[*apiserver.FallbackError](err); is {
			return m.passed(ctx, passed)
		}
		if err != nil {
			return err
		}
		m.lists++
		m.state = map[string]string{}
		for o, err := range l.Items {
			if err != nil {
				return err
			}
			m.state[o.Key().Name] = o.ResourceVersion().String()
		}
		m.rv = l.ResourceVersion
		m.logf("listed %q at the relay: %d", o.ResourceVersion, m.rv)
		m.check(m.rv, "listed at the relay")
		if o.ResourceVersion == "" {
			m.fresh++
			m.checkFresh(before)
		}
	}
	m.logf("watches the relay from %d", m.rv)
	w, err := reader.Watch(ctx, target, options(m.rv.String()))
	if _, is := errors.AsType[*apiserver.FallbackError](err); is {
		return m.upstream(ctx)
	}
	if err != nil {
		return err
	}
	defer w.Close()
	for {
		events, err := w.Next(ctx)
		if err != nil {
			return err
		}
		for _, e := range events {
			m.apply(e.Type, e.Object.Key().Name, e.Object.ResourceVersion())
			if m.rng.IntN(40) == 0 {
				return nil // in the middle of a batch
			}
		}
		if p := w.Position(); p >= m.rv {
			m.rv = p
			m.check(p, "followed at the relay")
		}
	}
}

// checkFresh checks that the state is not older than upstream's at a resourceVersion that it had before
// the request: each of its changes up to there is in the state.
func (m *mover) checkFresh(before int) {
	objects, known := m.world.ObjectsAt(0, before)
	if !known || int(m.rv) >= before { //nolint:gosec // small
		return
	}
	want := map[string]string{}
	for _, o := range objects {
		want[o.Key.Name] = fmt.Sprint(o.RV)
	}
	if !maps.Equal(want, m.state) {
		m.t.Errorf("%s: a list of the most recent state at %d has %v, upstream had %v at %d", m.name, m.rv, m.state, want, before)
	}
}

// passed lists at upstream, because the relay asks for that. Often upstream's answer takes
// forever, so that no more can be passed on.
func (m *mover) passed(ctx context.Context, of *apiserver.FallbackError) error {
	m.world.passed.Add(1)
	if m.rng.IntN(3) == 0 {
		defer of.Released()
	}
	state := map[string]string{}
	list, err := m.view().List(ctx, metav1.ListOptions{}, func(item []byte) error {
		meta, err := client.MetaOf(item)
		state[meta.Name] = meta.ResourceVersion
		return err
	})
	if err != nil {
		return err
	}
	if m.rv, err = kube.ParseResourceVersion(list.ResourceVersion); err != nil {
		return err
	}
	m.state = state
	m.logf("listed at upstream, passed on: %d", m.rv)
	m.check(m.rv, "listed at upstream")
	return nil
}

// view is upstream without faults.
func (m *mover) view() *listwatchtest.View {
	return &listwatchtest.View{
		Server: m.world.Server, Fail: func(listwatchtest.Request) listwatchtest.Fault { return listwatchtest.Fault{} },
	}
}

// upstream reads from upstream, which answers without faults.
func (m *mover) upstream(ctx context.Context) error {
	if m.rv == 0 {
		return nil // it lists at the relay
	}
	m.logf("watches upstream from %d", m.rv)
	s, err := m.view().Watch(ctx, metav1.ListOptions{ResourceVersion: m.rv.String(), AllowWatchBookmarks: true})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	for {
		f, err := s.Next()
		if err != nil {
			return err
		}
		meta, err := f.Meta()
		if err != nil {
			return err
		}
		rv, err := kube.ParseResourceVersion(meta.ResourceVersion)
		if err != nil {
			return err
		}
		if f.Type == kube.Bookmark {
			m.rv = max(m.rv, rv)
			m.logf("bookmark %d", rv)
			continue
		}
		m.apply(f.Type, meta.Name, rv)
	}
}

// TestClientsMoveBetweenRelayAndUpstream plays random changes, compactions and failures of upstream,
// and clients that move at any moment: none misses a change, whatever it saw where.
func TestClientsMoveBetweenRelayAndUpstream(t *testing.T) { playSeeds(t, playMovers) }

// playSeeds plays some seeds, or the one that is given, with a virtual clock.
func playSeeds(t *testing.T, play func(t *testing.T, seed uint64)) {
	first, count := *moverSeed, 1
	if first == 0 {
		first, count = rand.Uint64()>>1, *moverSeeds
	}
	switch {
	case testing.Short():
		count = min(count, 3)
	case raced:
		count = (count + 3) / 4
	}
	for n := range count {
		seed := first + uint64(n) //nolint:gosec // small
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { play(t, seed) })
		})
		if t.Failed() {
			t.Logf("replay: -seed %d", seed)
			return
		}
	}
}

func playMovers(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	world := newScripted()
	world.BookmarkEvery = time.Duration(1+rng.IntN(60)) * time.Second
	for i := range rng.IntN(5) {
		world.Put(fmt.Sprint("o", i), 0)
	}
	faults := rand.New(rand.NewPCG(seed, 1))
	rate := faults.Float64() / 2
	world.Fail(func(r listwatchtest.Request) listwatchtest.Fault { return honest(faults, rate, r) })
	s := serve(t, world)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	const changes = 25 * time.Minute
	var movers []*mover
	ended := make(chan struct{})
	for i := range 3 {
		m := &mover{t: t, name: fmt.Sprint("mover ", i), world: world, served: s, rng: rand.New(rand.NewPCG(seed, uint64(i)+2)), state: map[string]string{}, restarts: time.Now().Add(changes)} //nolint:gosec // small
		movers = append(movers, m)
		go func() { // it ends with ctx
			m.run(ctx)
			ended <- struct{}{}
		}()
	}
	changing, stop := context.WithTimeout(ctx, changes)
	defer stop()
	change(changing, world, rng, rng.IntN(3) == 0)
	world.Heal()
	for range movers {
		<-ended
	}
	status := s.relay.Status()
	s.stop()
	lists, fresh := 0, 0
	for _, m := range movers {
		lists += m.lists
		fresh += m.fresh
		if !t.Failed() && m.rv == 0 {
			t.Errorf("%s has no state after five quiet minutes\n%s", m.name, strings.Join(m.log[max(0, len(m.log)-20):], "\n"))
			continue
		}
		m.check(kube.ResourceVersion(world.RV()), "in the end") //nolint:gosec // small
	}
	if fresh == 0 && world.passed.Load() == 0 {
		t.Error("no list of the most recent state was answered")
	}
	if testing.Verbose() {
		holes := 0
		for _, status := range status {
			holes += int(status.Lists)
		}
		t.Logf(
			"seed %d: rate %.2f, %d changes, %d lists of clients (%d of the most recent state), %d passed on, %d of "+
				"the relay, %d requests", seed, rate, world.RV()-1000, lists, fresh, world.passed.Load(), holes,
			len(world.Requests()))
	}
}

// change changes objects, compacts and restarts upstream until ctx ends. others: another resource
// changes after each change, so that the mirror never knows that it is as new.
func change(ctx context.Context, world scripted, rng *rand.Rand, others bool) {
	for ctx.Err() == nil {
		switch name := fmt.Sprint("o", rng.IntN(6)); rng.IntN(12) {
		case 0, 1, 2:
			world.Delete(name)
		case 3:
			world.Tick()
		case 4:
			world.Delete(name)
			world.Put(name, rng.IntN(100))
		case 5:
			world.Compact(rng.IntN(10))
		case 6:
			if rng.IntN(8) == 0 {
				world.Restart()
			}
		default:
			world.Put(name, rng.IntN(100))
		}
		if others {
			world.Tick()
		}
		pause := time.Duration(rng.IntN(3000)) * time.Millisecond
		if rng.IntN(3) == 0 {
			pause = 0
		}
		if rng.IntN(40) == 0 {
			pause = time.Duration(rng.IntN(120)) * time.Second
		}
		wait(ctx, pause)
	}
}

// honest draws failures in which a server says nothing that is not true.
func honest(rng *rand.Rand, rate float64, r listwatchtest.Request) listwatchtest.Fault {
	f := listwatchtest.Fault{}
	if rng.IntN(2) == 0 {
		f.Page = []int{1, 2, 3, 500}[rng.IntN(4)]
	}
	if rng.IntN(6) == 0 {
		f.Delay = time.Duration(rng.IntN(3000)) * time.Millisecond
	}
	if rng.Float64() >= rate {
		return f
	}
	switch rng.IntN(9) {
	case 0:
		f.Refuse = true
	case 1:
		f.Hang = true
	case 2:
		f.Status, f.Reason = 410, metav1.StatusReasonExpired
	case 3:
		f.Status, f.Reason, f.RetryAfter = 429, metav1.StatusReasonTooManyRequests, rng.IntN(5)
	case 4:
		f.Status = 500 + 3*rng.IntN(2)
	case 5:
		f.NoBookmarks = true
	case 6:
		f.ExpireTokens, f.Page = true, 1
	case 7:
		f.NoEnd = true
	default:
		f.End, f.After = []string{"eof", "cut", "half", "silent"}[rng.IntN(4)], rng.IntN(10)
		if r.Watch && rng.IntN(2) == 0 {
			f.End = []string{"410", "429", "500", "410"}[rng.IntN(4)]
		}
	}
	return f
}
