// Package informer keeps a copy of a Kubernetes collection that is never wrong
// and tells handlers what changed in it.
//
// It has six nouns. A [Source] is where the objects come from. An [Informer]
// holds their current state as an immutable snapshot and, while Run runs, keeps it
// so. An [Event] is what a handler is told. A [Registration] is a handler that was
// added. A [Status] says how the informer is, an [Incident] what went wrong.
//
//	pods := informer.New(informer.For[*corev1.Pod](cfg, podGVR))
//	pods.Handle(func(ctx context.Context, e informer.Event[*corev1.Pod]) error {
//		return react(ctx, e.Type, e.Object())
//	}, informer.Workers(4))
//	return pods.Run(ctx)
//
// There are three ways to be told: [Informer.Handle] is called with events,
// [Informer.Reconcile] with keys, and [Informer.Events] is pulled. Options narrow what
// they hear of. docs/informer.md says it in the words of client-go.
//
// # What a handler can rely on
//
// It is called for every object that is there at the beginning (Initial) and for
// every change after it. For one key, calls never overlap and never go back: after
// a state was handed over, no older one is, also across retries, resyncs and
// re-lists. Changes of a key that waits are merged, so that a slow or failing
// handler is behind by at most one pending state per key (a deletion and the new
// object with the same name count as two), and it never slows down another handler
// or the cache. Old is what this handler handled last. An object that came and went
// untold is never mentioned. Between keys there is no order. An error or a panic
// leads to another call for that key, with the newest state, after a pause; see Retry.
// When a handler is called, Get and All show the event's course.State or a newer one.
//
// # What happens on 410
//
// The state is read again at once, not older than what is known already, and
// compared: objects with an equal resourceVersion keep their pointer and raise
// nothing, what vanished is Deleted (Inferred), and another UID under the same name
// is Deleted and Added. Ends of a watch, errors and timeouts are no reason to read
// the state again: the watch goes on from the last resourceVersion.
package informer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gapless-io/gapless/informer/internal/course"
	"github.com/gapless-io/gapless/informer/internal/state"
)

// ErrRunning is returned by Run when the informer runs already.
var ErrRunning = errors.New("the informer is running already")

// Informer is a cache of one collection. All methods are safe for concurrent use,
// before, during and after Run.
type Informer[T Object] struct {
	source  Source[T]
	opts    options
	current atomic.Pointer[snapshot[T]]
	synced  chan struct{} // closed at the first complete state

	// mu guards handlers, running and named, and orders what is published with the
	// changes that the handlers get. It may be held when a queue's mu is taken.
	mu       sync.Mutex
	handlers []*handler[T]
	running  *running // nil outside of Run
	named    int      // handlers that were numbered

	// publishing guards indexers, positions and merged, and who holds it makes the next
	// state. It may be held when mu is taken.
	publishing sync.Mutex
	indexers   []func(indexed any, changes []change[T]) any
	positions  []string            // of the parts; "" before the first sync
	merged     state.Tree[held[T]] // the parts' states in one, if there are several

	// statusMu guards status; nothing else is locked under it.
	statusMu sync.Mutex
	status   Status

	parts  []*part[T]
	holds  func(object []byte) (held[T], error) // what the parts decode with
	shelf  *shelf[T]                            // of Run; nil until it is needed
	mirror func(Turn[T])                        // set before Run; nil: none
}

// running is one Run: where further goroutines of it are started.
type running struct {
	ctx   context.Context //nolint:containedctx // Run's own, for handlers that are added while it runs
	group sync.WaitGroup
}

// New makes an informer. Nothing happens before Run.
func New[T Object](source Source[T], opts ...Option) *Informer[T] {
	i := &Informer[T]{source: source, opts: newOptions(opts), synced: make(chan struct{})}
	i.current.Store(newSnapshot[T]())
	i.status = Status{Name: source.name, Incidents: map[IncidentKind]int64{}}
	if (len(source.parts) == 0 || source.decode == nil) && source.err == nil {
		i.source.err = errors.New("no source, or one that cannot decode")
	}
	if err := i.opts.tuning.Validate(); err != nil {
		i.source.err = errors.Join(i.source.err, err)
	}
	i.newParts()
	return i
}

// Run keeps the cache current and calls the handlers until ctx ends, and then
// returns nil when all of its goroutines have ended: within 100 ms, if the handlers
// obey their context. It returns an error only if it cannot begin: ErrRunning, or
// what is wrong with the source or an option, or if it gives up, which it does only
// with Stop4xx. It can be run again, and then goes on from where it stopped, in the
// server's history as well as with the handlers.
func (i *Informer[T]) Run(ctx context.Context) error {
	if i.source.err != nil {
		return fmt.Errorf("run informer of %s: %w", i.source.name, i.source.err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	run := &running{ctx: ctx}
	if err := i.begin(run); err != nil {
		return err
	}
	finish := i.persist(ctx)
	err := i.reflect(ctx)
	finish()
	i.mu.Lock()
	i.running = nil // from now on Handle starts nothing
	i.mu.Unlock()
	stop() // the handlers, if nobody else did
	run.group.Wait()
	if err != nil {
		return fmt.Errorf("run informer of %s: %w", i.source.name, err)
	}
	return nil
}

func (i *Informer[T]) begin(run *running) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.running != nil {
		return fmt.Errorf("run informer of %s: %w", i.source.name, ErrRunning)
	}
	i.running = run
	for _, h := range i.handlers {
		i.startLocked(h)
	}
	return nil
}

// WaitSynced blocks until the cache has held a complete state, or until ctx ended,
// and then says what stood in the way.
func (i *Informer[T]) WaitSynced(ctx context.Context) error {
	if i.source.err != nil {
		return fmt.Errorf("informer of %s is not synced: %w", i.source.name, i.source.err)
	}
	select {
	case <-i.synced:
		return nil
	default:
	}
	select {
	case <-i.synced:
		return nil
	case <-ctx.Done():
	}
	return fmt.Errorf("informer of %s is not synced, it is %s: %w", i.source.name, i.trouble(), context.Cause(ctx))
}

// Get returns the object as it is in the cache. It is shared and must not be modified.
func (i *Informer[T]) Get(k Key) (object T, found bool) { return i.current.Load().get(k) }

// All yields the objects of one state, by namespace and name, whatever happens
// meanwhile. They are shared and must not be modified. It holds no lock.
func (i *Informer[T]) All() iter.Seq2[Key, T] { return i.current.Load().all() }

// Len is how many objects there are.
func (i *Informer[T]) Len() int { return i.current.Load().tree.Len() }

// ResourceVersion is the version that the cache's course.State has; "" before the first sync.
func (i *Informer[T]) ResourceVersion() string { return i.current.Load().rv }

// Status says how the informer is. Counters are since New. Of an informer of several
// namespaces, State is that of one that is not watching, if there is one, LastContact
// the oldest, and the counters are sums.
type Status struct {
	Name        string
	State       string // "idle", "listing", "streaming", "watching", "waiting", "stopped"
	RV          string // as ResourceVersion
	Objects     int
	Undecodable int       // objects whose newest state could not be read
	LastContact time.Time // when the server last sent something; zero: never

	Lists   int64 // how often the whole state was asked for, by LIST or as streaming list
	Streams int64 // of them: streaming lists
	Watches int64 // how often a watch was opened from a resourceVersion
	Gone    int64 // 410, however it was said
	// Incidents counts all of them, Last is the latest; nil: none.
	Incidents map[IncidentKind]int64
	Last      *Incident
}

// Status returns how the informer is now. The result belongs to the caller.
func (i *Informer[T]) Status() Status {
	now := i.current.Load()
	i.statusMu.Lock()
	defer i.statusMu.Unlock()
	s := i.status
	i.streams(&s)
	s.RV, s.Objects = now.rv, now.tree.Len()
	s.Incidents = maps.Clone(s.Incidents)
	s.Gone = s.Incidents[Gone] + s.Incidents[SilentGone]
	if s.Last != nil {
		last := *s.Last
		s.Last = &last
	}
	return s
}

// streams adds up how the streams are. The one with the most trouble says what State is.
func (i *Informer[T]) streams(s *Status) {
	s.State = course.Idle.String()
	phase := course.Watching
	for n, p := range i.parts {
		now := p.reflector.Status()
		if n == 0 || phase == course.Watching {
			phase = now.State
		}
		if n == 0 || now.LastContact.Before(s.LastContact) {
			s.LastContact = now.LastContact
		}
		s.Undecodable += now.Undecodable
		s.Lists, s.Streams, s.Watches = s.Lists+now.Lists, s.Streams+now.Streams, s.Watches+now.Watches
		s.State = phase.String()
	}
}

func (i *Informer[T]) note(change func(*Status)) {
	i.statusMu.Lock()
	defer i.statusMu.Unlock()
	change(&i.status)
}

// report counts, logs and hands on an incident.
func (i *Informer[T]) report(in Incident) {
	i.note(func(s *Status) {
		s.Incidents[in.Kind]++
		s.Last = &in
	})
	i.record(MetricIncidents, 1, in.Kind.String())
	attrs := []any{slog.String("informer", i.source.name), slog.String("kind", in.Kind.String()), slog.String("rv", in.RV)}
	if in.Key.Name != "" {
		attrs = append(attrs, slog.String("key", in.Key.String()))
	}
	if in.Handler != "" {
		attrs = append(attrs, slog.String("handler", in.Handler))
	}
	if in.Err != nil {
		attrs = append(attrs, slog.String("error", in.Err.Error()))
	}
	if in.Next != "" {
		attrs = append(attrs, slog.String("next", in.Next))
	}
	i.opts.logger.Warn("informer incident", attrs...)
	if i.opts.onError != nil {
		i.opts.onError(in)
	}
}
