// Package share shares one informer per source among several users, and ends it with the
// last of them.
//
// A [Pool] holds the informers, and runs them while its Run runs. A [Lease] is one user's
// access to an informer: to its cache and its changes. A [Sharing] lists the leases of an
// informer. A [Leak] is a lease that was never released.
//
//	pool := share.New(share.Config{Logger: log})
//	go pool.Run(ctx) // returns when ctx ended and all of its goroutines have
//	…
//	pods, err := share.Get(pool, informer.For[*corev1.Pod](cfg, podGVR))
//	if err != nil {
//		return err
//	}
//	defer pods.Release(ctx)
//	pods.Handle(react)
//
// The first lease of a source makes its informer. Further leases of the same source,
// by its Identity, share it: one watch, one copy of the objects. When the last lease is
// released, the informer ends: its watch is closed, its goroutines end, and its memory is
// freed as soon as the leases are unreachable. The next lease makes a new informer. So a
// controller for a resource that was deleted leaves no watch behind that is retried
// forever (kubernetes#79610, #142256).
//
// Handlers, waits and Events of a lease end with it; other leases are not affected.
//
// # Leaked leases
//
// A lease that becomes unreachable without Release is released by the garbage collector,
// with a warning that says where it was taken. A handler keeps its lease reachable until
// it is stopped, so no handler is ever dropped silently.
package share

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"weak"

	"github.com/gapless-io/gapless/informer"
)

var (
	// ErrRunning is returned by Run when the pool is already running.
	ErrRunning = errors.New("the pool is already running")
	// ErrReleased says that the lease was released.
	ErrReleased = errors.New("the lease was released")
	// ErrConflict says that the informer, or the index, is already shared with different
	// options.
	ErrConflict = errors.New("already shared with different options")
)

// Config configures a pool and its informers. The zero value is valid.
type Config struct {
	// Logger logs leaks as warnings, informers that cannot run as errors, and the incidents
	// of the informers. nil: nothing is logged.
	Logger *slog.Logger
	// OnLeak is called for each leaked lease; nil: it is only logged. It must be quick,
	// because cleanups of the whole program wait for it.
	OnLeak func(Leak)
	// Options are those of each informer. OnError and Metrics belong here: see Get.
	Options []informer.Option
}

// Leak is a lease that became unreachable without Release.
type Leak struct {
	Source string // its name
	Taken  string // where Get was called, "file:line"
}

// Sharing lists the leases of an informer.
type Sharing struct {
	Source string   // its name
	Leases []string // where they were taken, "file:line"
}

// Pool holds the shared informers. All methods are safe for concurrent use,
// before, during and after Run.
type Pool struct {
	cfg Config

	// mu guards all that is below, and all of shared and ticket.
	mu      sync.Mutex
	shared  map[informer.Identity]*shared
	running *running // nil outside of Run
}

// running is one Run.
type running struct {
	group sync.WaitGroup
	start func(*shared) // runs one more informer; called under the pool's mu
	over  bool          // nothing is started any more
}

// shared is an informer and its leases.
type shared struct {
	name     string
	identity informer.Identity
	opts     []informer.Option // of Get
	informer any               // *informer.Informer[T]
	run      func(context.Context) error
	tickets  map[*ticket]struct{}
	indices  map[string]*index
	stop     context.CancelFunc // ends it; nil: it does not run
	done     chan struct{}      // closed when its last run has ended; nil: there was none
	err      error              // why it cannot run
}

// ticket is what the pool knows of a lease.
type ticket struct {
	pool  *Pool
	of    *shared
	taken string
	over  bool // released
	uses  map[*use]struct{}
	ended <-chan struct{} // closed when the informer that it was the last to hold has ended; nil: it was not
}

// use is a call that waits through a lease.
type use struct {
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when it has returned
}

// New returns a pool. It does nothing until Run is called.
func New(cfg Config) *Pool {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Options = append([]informer.Option{informer.Logger(cfg.Logger)}, cfg.Options...)
	return &Pool{cfg: cfg, shared: map[informer.Identity]*shared{}}
}

// Run runs the informers that have leases, including those that are made meanwhile, until
// ctx ends. Then it returns nil when all of its goroutines have ended. If the pool is
// already running, it returns ErrRunning at once. It can be called again, and then the
// informers continue where they stopped. An informer that cannot run is not an error of
// Run: the methods of its leases return it.
func (p *Pool) Run(ctx context.Context) error {
	run := &running{}
	run.start = func(s *shared) { p.start(ctx, run, s) }
	if err := p.begin(run); err != nil {
		return err
	}
	<-ctx.Done()
	p.mu.Lock()
	run.over = true
	p.mu.Unlock()
	run.group.Wait()
	p.mu.Lock()
	p.running = nil
	p.mu.Unlock()
	return nil
}

func (p *Pool) begin(run *running) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running != nil {
		return fmt.Errorf("run a pool of informers: %w", ErrRunning)
	}
	p.running = run
	for _, s := range p.shared {
		p.startLocked(s)
	}
	return nil
}

// startLocked runs an informer, if Run runs.
func (p *Pool) startLocked(s *shared) {
	if p.running == nil || p.running.over {
		return
	}
	p.running.start(s)
}

// start runs an informer as a part of Run, which waits for it.
func (p *Pool) start(ctx context.Context, run *running, s *shared) {
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	s.stop, s.done, s.err = stop, done, nil
	// It ends with Run's context, or with the last lease.
	run.group.Go(func() {
		defer close(done)
		defer stop()
		p.ended(s, s.run(ctx))
	})
}

// ended records that an informer does not run any more, and why if it could not, and wakes
// the calls that wait for it.
func (p *Pool) ended(s *shared, err error) {
	p.mu.Lock()
	s.stop, s.err = nil, err
	if err != nil {
		for t := range s.tickets {
			for u := range t.uses {
				u.cancel(err)
			}
		}
	}
	p.mu.Unlock()
	if err != nil {
		p.cfg.Logger.Error("informer cannot run", slog.String("informer", s.name), slog.String("error", err.Error()))
	}
}

// Shared lists the informers and their leases, by name.
func (p *Pool) Shared() []Sharing {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]Sharing, 0, len(p.shared))
	for _, s := range p.shared {
		all = append(all, Sharing{Source: s.name, Leases: s.takenLocked()})
	}
	slices.SortFunc(all, func(a, b Sharing) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), slices.Compare(a.Leases, b.Leases))
	})
	return all
}

// takenLocked is where the leases were taken.
func (s *shared) takenLocked() []string {
	sites := make([]string, 0, len(s.tickets))
	for t := range s.tickets {
		sites = append(sites, t.taken)
	}
	slices.Sort(sites)
	return sites
}

// Get returns a lease of the informer of a source. The first lease makes the informer,
// which runs while the pool runs. Get does not wait for its sync. Release ends the lease.
//
// opts are added to the pool's. All leases of an informer must have equal options
// (informer.SameOptions); otherwise Get returns ErrConflict, and the error says where the
// informer was leased. Options with a function, such as OnError and Metrics, equal no
// others, so such an informer has one lease. Sources are compared by their Identity.
func Get[T informer.Object](p *Pool, source informer.Source[T], opts ...informer.Option) (*Lease[T], error) {
	taken := caller()
	if source.Identity() == (informer.Identity{}) {
		return nil, fmt.Errorf("lease, taken at %s: no source", taken)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s, is := p.shared[source.Identity()]
	if !is {
		i := informer.New(source, slices.Concat(p.cfg.Options, opts)...)
		s = &shared{
			name: source.Name(), identity: source.Identity(), opts: slices.Clone(opts), informer: i, run: i.Run,
			tickets: map[*ticket]struct{}{}, indices: map[string]*index{},
		}
		p.shared[s.identity] = s
		p.startLocked(s)
	} else if !informer.SameOptions(s.opts, opts) {
		return nil, fmt.Errorf("lease of %s, taken at %s: %w, at %s", s.name, taken, ErrConflict, s.takenLocked()[0])
	}
	i, is := s.informer.(*informer.Informer[T])
	if !is {
		return nil, fmt.Errorf("lease of %s, taken at %s: it is shared as a %T", s.name, taken, s.informer)
	}
	t := &ticket{pool: p, of: s, taken: taken, uses: map[*use]struct{}{}}
	s.tickets[t] = struct{}{}
	l := &Lease[T]{informer: i, ticket: t}
	// Weak, because the ticket leads to the informer, its handlers, and by them to the
	// lease. As long as there is the pool there is the ticket.
	l.cleanup = runtime.AddCleanup(l, leaked, weak.Make(t))
	return l, nil
}

// caller returns where the exported function that called it was called.
func caller() string {
	at := make([]uintptr, 1)
	runtime.Callers(3, at)
	frame, _ := runtime.CallersFrames(at).Next()
	return fmt.Sprintf("%s:%d", frame.File, frame.Line)
}

// leaked releases a lease that became unreachable.
func leaked(w weak.Pointer[ticket]) {
	t := w.Value()
	if t == nil {
		return // the pool is gone too
	}
	t.drop()
	leak := Leak{Source: t.of.name, Taken: t.taken}
	t.pool.cfg.Logger.Warn("lease was forgotten, not released",
		slog.String("informer", leak.Source), slog.String("taken", leak.Taken))
	if t.pool.cfg.OnLeak != nil {
		t.pool.cfg.OnLeak(leak)
	}
}

// drop ends a lease, and the informer if it was the last one. It does not wait. A second
// call does nothing.
func (t *ticket) drop() {
	t.pool.mu.Lock()
	defer t.pool.mu.Unlock()
	if t.over {
		return
	}
	t.over = true
	for u := range t.uses {
		u.cancel(ErrReleased)
	}
	delete(t.of.tickets, t)
	if len(t.of.tickets) > 0 {
		return
	}
	delete(t.pool.shared, t.of.identity)
	if t.of.stop != nil {
		t.of.stop()
	}
	t.ended = t.of.done
}

// begin makes a context for a call that waits; it ends with the lease, and when the
// informer turns out not to run. The caller calls end when the call has returned.
func (t *ticket) begin(ctx context.Context) (within context.Context, end func(), err error) {
	t.pool.mu.Lock()
	defer t.pool.mu.Unlock()
	switch {
	case t.over:
		err = ErrReleased
	case t.of.err != nil:
		err = t.of.err
	}
	if err != nil {
		return nil, nil, fmt.Errorf("lease of %s, taken at %s: %w", t.of.name, t.taken, err)
	}
	within, cancel := context.WithCancelCause(ctx)
	u := &use{cancel: cancel, done: make(chan struct{})}
	t.uses[u] = struct{}{}
	return within, func() {
		t.pool.mu.Lock()
		delete(t.uses, u)
		t.pool.mu.Unlock()
		cancel(nil)
		close(u.done)
	}, nil
}

// wait blocks until all calls that wait through the lease have returned, and the
// informer has ended, if it was the last to hold it.
func (t *ticket) wait(ctx context.Context) error {
	t.pool.mu.Lock()
	var left []<-chan struct{}
	for u := range t.uses {
		left = append(left, u.done)
	}
	if t.ended != nil {
		left = append(left, t.ended)
	}
	t.pool.mu.Unlock()
	for _, done := range left {
		select {
		case <-done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
