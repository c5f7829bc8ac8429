package harness

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

const (
	// pace is the time between two writes. Clients back off for a second or two
	// after a cut: a phase has to last longer than that.
	pace = 5 * time.Millisecond
	// calm is the time before the faults of a phase. A watch that ends within a second
	// and without an event makes client-go list again (reflector.go,
	// VeryShortWatchError), which faults from the beginning of a phase would cause.
	calm = 1500 * time.Millisecond
)

// Informer is a client under test. It reads through the proxy; its handler passes
// every call to the witness.
type Informer struct {
	Name string
	// Path is the URL path of the collection, in one namespace.
	Path string
	// Object returns the n-th content of the object with a name.
	Object func(name string, n int) map[string]any
	// Run runs the client until ctx ends.
	Run func(ctx context.Context)
	// Store returns the client's cache: "namespace/name" to resourceVersion.
	Store   func() map[string]string
	Witness *Witness
	Counter *Counter
	// MaxLists is how often it may list the whole state, besides what it lists after the server was
	// restored, or in a phase that jumps; 0: without limit.
	MaxLists int64
	// Slow means that after a restore it repeats a list at its old resourceVersion for most of a minute,
	// as old versions of client-go do. CI has no time for that.
	Slow bool

	writer   *writer
	counted  int64 // its lists until the end of the last phase: the first is before all
	restored int64 // its lists that do not count for MaxLists
}

// ConfigMap is the Object of an informer on configmaps.
func ConfigMap(name string, n int) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name},
		"data": map[string]any{"n": fmt.Sprint(n)},
	}
}

// phase is one kind of failure, while writers work.
type phase struct {
	name   string
	writes int
	// faults runs beside the writers, which are done when working is closed.
	faults func(working <-chan struct{})
	// after runs when the writers are done.
	after func()
	// restore runs then too, when every client has what was written: it makes the server forget the
	// newest of it. Its resourceVersions go back, or skip ahead.
	restore func()
	// relists means that every client has to list the whole state again.
	relists bool
	// skips means that a relay has to list, so that clients get the newest versions only.
	skips bool
	// jumps means that one of two relays may have to list over what the other has passed on, so that a client which
	// comes from there has to list, too.
	jumps bool
}

// UnderFailures runs informers through a scenario while writers work: normal work, cut
// connections, expired history, restarts, a crash, restores from an older copy and from a backup. After
// each phase every informer must have the server's state, and its handler must have seen every
// version that was written in that phase, in order, unless the informer had to list again.
func UnderFailures(t *testing.T, s *Server, p *Proxy, web *http.Client, informers ...*Informer) {
	t.Helper()
	all := phases(t, s, p)
	if inCI() {
		all = slices.DeleteFunc(all, func(ph phase) bool {
			return ph.restore != nil && slices.ContainsFunc(informers, func(inf *Informer) bool { return inf.Slow })
		})
	}
	play(t, s.URL, web, all, informers)
}

// play runs informers through phases, while writers work at url.
func play(t *testing.T, url string, web *http.Client, phases []phase, informers []*Informer) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for i, inf := range informers {
		inf.writer = &writer{
			web: web, url: url + inf.Path, object: inf.Object, live: map[string]bool{},
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
	for _, ph := range phases {
		ph.run(ctx, t, informers)
	}
	for _, inf := range informers {
		for _, v := range inf.Witness.Violations() {
			t.Errorf("%s: %s", inf.Name, v)
		}
		if lists := inf.Counter.Answered() - inf.restored; inf.MaxLists > 0 && lists > inf.MaxLists {
			t.Errorf("%s listed %d times, more than %d", inf.Name, lists, inf.MaxLists)
		}
		t.Logf("%-24s %s; %s; %d writes", inf.Name+":", inf.Counter, inf.Witness, inf.writer.n)
	}
}

func phases(t *testing.T, s *Server, p *Proxy) []phase {
	compact := func() { s.Run(t, "compact", "--older-than", "0s") }
	kept := ""
	return []phase{
		{name: "no failure", writes: 100, faults: func(<-chan struct{}) {}},
		{name: "cut connections", writes: 900, faults: func(working <-chan struct{}) {
			every(working, 400*time.Millisecond, p.Cut)
		}},
		{name: "compacted history, connected", writes: 500, faults: func(working <-chan struct{}) {
			every(working, 300*time.Millisecond, compact)
		}},
		{
			name: "compacted history, disconnected", writes: 500, relists: true,
			faults: func(<-chan struct{}) { p.Refuse(); p.Cut() },
			after:  func() { compact(); p.Accept(t) },
		},
		{name: "restart", writes: 500, faults: func(<-chan struct{}) { p.Refuse(); s.Restart(t); p.Accept(t) }},
		{name: "crash", writes: 500, faults: func(<-chan struct{}) { p.Refuse(); s.Crash(t); p.Accept(t) }},
		{
			name: "disconnected during a restart", writes: 500,
			faults: func(<-chan struct{}) { p.Refuse(); p.Cut(); s.Restart(t) },
			after:  func() { p.Accept(t) },
		},
		{
			name: "restored from an older copy", writes: 400,
			faults:  func(<-chan struct{}) { p.Refuse(); kept = s.Copy(t); p.Accept(t) },
			restore: func() { p.Refuse(); s.Restore(t, kept); p.Accept(t) },
		},
		{
			name: "restored from a backup", writes: 400,
			faults:  func(<-chan struct{}) { kept = s.Backup(t) },
			restore: func() { p.Refuse(); s.RestoreBackup(t, kept); p.Accept(t) },
		},
		{name: "no failure again", writes: 100, faults: func(<-chan struct{}) {}},
	}
}

// after waits for a time, or until done.
func after(done <-chan struct{}, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// every calls do periodically until done.
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
	acked := make([]int, len(informers))
	errs := make([]error, len(informers))
	working := make(chan struct{})
	var writers sync.WaitGroup
	for i, inf := range informers {
		inf.Witness.DeletedAgain(ph.skips)
		acked[i] = len(inf.writer.acked)
		writers.Go(func() { errs[i] = inf.writer.work(ctx, ph.writes, pace) })
	}
	var waiter sync.WaitGroup
	waiter.Go(func() { writers.Wait(); close(working) })
	after(working, calm)
	ph.faults(working)
	waiter.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("%s: writer of %s: %v", ph.name, informers[i].Name, err)
		}
	}
	if ph.after != nil {
		ph.after()
	}
	if ph.restore != nil {
		ph.restored(ctx, t, informers)
	}
	for i, inf := range informers {
		inf.waitForState(ctx, t, ph.name)
		lists := inf.Counter.Answered() - inf.counted
		inf.counted += lists
		if ph.restore != nil {
			inf.restored += lists
			t.Logf("%-30s %-24s %d lists", ph.name, inf.Name, lists)
			if lists == 0 {
				t.Errorf("%s: %s did not list again, although it has seen what the server has forgotten", ph.name, inf.Name)
			}
			continue
		}
		if ph.jumps {
			const moves = 2 // a list for each, at most
			inf.restored += min(lists, moves)
		}
		missed := 0
		for _, v := range inf.writer.acked[acked[i]:] {
			if !inf.Witness.Saw(v.key, v.rv) {
				missed++
			}
		}
		t.Logf("%-30s %-24s %d lists, %d of %d versions not seen",
			ph.name, inf.Name, lists, missed, len(inf.writer.acked)-acked[i])
		switch {
		case missed > 0 && lists == 0 && !ph.skips:
			t.Errorf("%s: %s missed %d versions without a reason", ph.name, inf.Name, missed)
		case ph.relists && lists == 0:
			t.Errorf("%s: %s did not list again, although the history that it needed was compacted", ph.name, inf.Name)
		}
	}
}

// restored restores the server while informers watch. Nothing is written until they have its state: a
// client that comes back when the server has reached its resourceVersion again cannot know.
func (ph phase) restored(ctx context.Context, t *testing.T, informers []*Informer) {
	t.Helper()
	for _, inf := range informers {
		inf.waitForState(ctx, t, ph.name+", before it")
		inf.Witness.Restored()
	}
	ph.restore()
	for _, inf := range informers {
		if err := inf.writer.restored(ctx); err != nil {
			t.Fatalf("%s: %v", ph.name, err)
		}
	}
}

// waitForState waits until the informer's cache and its handler have the server's state.
func (inf *Informer) waitForState(ctx context.Context, t *testing.T, phase string) {
	t.Helper()
	want, err := inf.writer.list(ctx)
	if err != nil {
		t.Fatalf("%s: %v", phase, err)
	}
	within := patience
	if inf.Slow {
		within *= 3
	}
	eventually(t, within, fmt.Sprintf("%s has the server's state after %q", inf.Name, phase), func() bool {
		return maps.Equal(inf.Store(), want) && maps.Equal(inf.Witness.State(), want)
	})
}
