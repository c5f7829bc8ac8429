package harness

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"
)

const (
	// pace is the time between two writes. Clients back off for a second or two
	// after a cut: a phase has to last longer than that.
	pace = 5 * time.Millisecond
	// lull is what every storm leaves the clients first. A watch that ends within a
	// second and without an event makes client-go list again (reflector.go,
	// VeryShortWatchError): so it would, if a phase began with the storm.
	lull = 1500 * time.Millisecond
)

// Informer is a client under test. It reads through the proxy; its handler tells
// the witness all it is called with.
type Informer struct {
	Name string
	// Path is the URL path of the collection, in one namespace.
	Path string
	// Object makes the n-th content of an object of a name.
	Object func(name string, n int) map[string]any
	// Run runs the client until ctx ends.
	Run func(ctx context.Context)
	// Store returns the client's cache: "namespace/name" to resourceVersion.
	Store   func() map[string]string
	Witness *Witness
	Counter *Counter
	// MaxLists is how often it may ask for the whole state; 0: as often as it likes.
	MaxLists int64

	writer *writer
}

// ConfigMap is the Object of an informer on configmaps.
func ConfigMap(name string, n int) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name},
		"data": map[string]any{"n": fmt.Sprint(n)},
	}
}

// phase is one sort of weather, over writes that go on in the meantime.
type phase struct {
	name   string
	writes int
	// storm runs beside the writers, which are done when working is closed.
	storm func(working <-chan struct{})
	// after runs when the writers are done.
	after func()
	// relists says that every client has to read the whole state again.
	relists bool
}

// Weather takes informers through work, cut connections, expired history,
// restarts and a crash, while writers work. After each phase every informer must
// have come to the server's state; its handler must have seen every version that
// was written in it, in order, unless the informer had to list again.
func Weather(t *testing.T, s *Server, p *Proxy, web *http.Client, informers ...*Informer) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for i, inf := range informers {
		inf.writer = &writer{
			web: web, url: s.URL + inf.Path, object: inf.Object, live: map[string]bool{},
			random: rand.New(rand.NewPCG(seed, uint64(i))),
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for _, inf := range informers {
		running.Go(func() { inf.Run(ctx) }) // ends with ctx
	}
	for _, ph := range phases(t, s, p) {
		ph.run(ctx, t, informers)
	}
	for _, inf := range informers {
		for _, c := range inf.Witness.Complaints() {
			t.Errorf("%s: %s", inf.Name, c)
		}
		if lists := inf.Counter.Lists(); inf.MaxLists > 0 && lists > inf.MaxLists {
			t.Errorf("%s listed %d times, more than %d", inf.Name, lists, inf.MaxLists)
		}
		t.Logf("%-24s %s; %s; %d writes", inf.Name+":", inf.Counter, inf.Witness, inf.writer.n)
	}
}

func phases(t *testing.T, s *Server, p *Proxy) []phase {
	forget := func() { s.Run(t, "compact", "--older-than", "0s") }
	return []phase{
		{name: "calm", writes: 100, storm: func(<-chan struct{}) {}},
		{name: "cut connections", writes: 900, storm: func(working <-chan struct{}) {
			every(working, 400*time.Millisecond, p.Cut)
		}},
		{name: "forgotten history, connected", writes: 500, storm: func(working <-chan struct{}) {
			every(working, 300*time.Millisecond, forget)
		}},
		{
			name: "forgotten history, away", writes: 500, relists: true,
			storm: func(<-chan struct{}) { p.Refuse(); p.Cut() },
			after: func() { forget(); p.Accept(t) },
		},
		{name: "restart", writes: 500, storm: func(<-chan struct{}) { p.Refuse(); s.Restart(t); p.Accept(t) }},
		{name: "crash", writes: 500, storm: func(<-chan struct{}) { p.Refuse(); s.Crash(t); p.Accept(t) }},
		{
			name: "away over a restart", writes: 500,
			storm: func(<-chan struct{}) { p.Refuse(); p.Cut(); s.Restart(t) },
			after: func() { p.Accept(t) },
		},
		{name: "calm again", writes: 100, storm: func(<-chan struct{}) {}},
	}
}

// after waits, or until done.
func after(done <-chan struct{}, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// every does something again and again until done.
func every(done <-chan struct{}, period time.Duration, do func()) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			do()
		}
	}
}

func (ph phase) run(ctx context.Context, t *testing.T, informers []*Informer) {
	t.Helper()
	before := make([]int64, len(informers))
	acked := make([]int, len(informers))
	errs := make([]error, len(informers))
	working := make(chan struct{})
	var writers sync.WaitGroup
	for i, inf := range informers {
		before[i], acked[i] = inf.Counter.Lists(), len(inf.writer.acked)
		writers.Go(func() { errs[i] = inf.writer.work(ctx, ph.writes, pace) })
	}
	var waiter sync.WaitGroup
	waiter.Go(func() { writers.Wait(); close(working) })
	after(working, lull)
	ph.storm(working)
	waiter.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("%s: writer of %s: %v", ph.name, informers[i].Name, err)
		}
	}
	if ph.after != nil {
		ph.after()
	}
	for i, inf := range informers {
		inf.settle(ctx, t, ph.name)
		lists := inf.Counter.Lists() - before[i]
		missed := 0
		for _, v := range inf.writer.acked[acked[i]:] {
			if !inf.Witness.Saw(v.key, v.rv) {
				missed++
			}
		}
		t.Logf("%-30s %-24s %d lists, %d of %d versions not seen", ph.name, inf.Name, lists, missed, len(inf.writer.acked)-acked[i])
		switch {
		case missed > 0 && lists == 0:
			t.Errorf("%s: %s missed %d versions without a reason", ph.name, inf.Name, missed)
		case ph.relists && lists == 0:
			t.Errorf("%s: %s did not list again, although what it needed was forgotten", ph.name, inf.Name)
		}
	}
}

// settle waits until the informer's cache and what its handler was told are the
// server's state.
func (inf *Informer) settle(ctx context.Context, t *testing.T, phase string) {
	t.Helper()
	want, err := inf.writer.list(ctx)
	if err != nil {
		t.Fatalf("%s: %v", phase, err)
	}
	Eventually(t, fmt.Sprintf("%s has the server's state after %q", inf.Name, phase), func() bool {
		return maps.Equal(inf.Store(), want) && maps.Equal(inf.Witness.State(), want)
	})
}
