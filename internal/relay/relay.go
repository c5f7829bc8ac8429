// Package relay mirrors the collections of an API server, and serves their lists and watches
// with hours of history under that server's own resourceVersions.
//
// A [Relay] is the mirror of all that is read of upstream, which is the API server in front of which
// it stands. Each resource of upstream is mirrored, in one version, while somebody reads it: it is a
// collection. A history of a collection ends when upstream's history becomes another one. A request
// that the mirror cannot answer after all is upstream's: *apiserver.FallbackError says so.
//
// Upstream's events reach a reader so: the informer reads them (collection.go), they are
// recorded in the log and shown in a watch cache (update.go), both by position; the reader
// translates positions to upstream's resourceVersions and back (reader.go, watch.go). fresh.go
// sees to it that who asks for the most recent state gets it.
//
// request.go (Reading) and relay.go (handler) say what is served from the mirror and what is
// passed on; tables.go which tables; fresh.go, proof.go and account.go how a relay knows that
// its mirror is as fresh as upstream, and how often it asks; unserved.go, replaced.go and
// update.go (rewrite) when a mirror ends and what a restored upstream does to readers;
// keep.go, here and in access and pass, what it knows when it starts while upstream is away.
package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/mirror"
	"github.com/gapless-io/gapless/internal/registry/stored"
	"github.com/gapless-io/gapless/internal/relay/kept"
	"github.com/gapless-io/gapless/internal/wire"
)

// Config configures a Relay. Upstream and Mirror are required.
type Config struct {
	// Upstream is the API server, with credentials that may list and watch everything that is
	// mirrored.
	Upstream *rest.Config
	Mirror   *mirror.Mirror
	// Resources are mirrored from the start, and for as long as the relay runs: "pods",
	// "deployments.apps", "deployments.v1.apps", "*.example.com" or "*". Others are while
	// somebody reads them.
	Resources []string
	// Idle is how long a resource is mirrored after its last reader has left; 0 is 10 min.
	Idle time.Duration
	// Shards, if not 0, is the number of relays that share the resources by name, and Shard, from 0,
	// which of them this one is: it passes through those of the others.
	Shard, Shards int
	// MirrorSecrets mirrors Secrets too; otherwise they are passed through.
	MirrorSecrets bool
	// Compress asks upstream to compress lists, for a fifth more of its CPU and half as much again
	// of the relay's.
	Compress bool
	// Grant is asked for the permission of each watch, which ends when that is refused. Nil:
	// watches are not checked again.
	Grant GrantFunc
	// Kept is where upstream's resources are kept for the next start; see Restore. The zero value keeps
	// none.
	Kept kept.File
	// ServeStale serves a list of the most recent state, and a watch that begins with it, from the mirror
	// when upstream cannot be asked, with a warning that says how old the state is.
	ServeStale bool
	Logger     *slog.Logger // nil: none
}

// Relay is the mirror of an API server. All methods are safe for concurrent use.
type Relay struct {
	cfg      Config
	logger   *slog.Logger
	mirror   *mirror.Mirror
	source   *stored.Source
	upstream *client.Client
	metadata *client.Client // with metadata only
	live     *kinds.Live
	builtin  *kinds.Catalog
	metrics  *metrics
	tables   *tables

	starts  chan *collection // to Run, which runs them
	refresh chan struct{}    // holds one token: discovery is wanted
	look    chan struct{}    // holds one token: something has changed for supervise
	learned atomic.Int64     // when upstream was last asked, in Unix nanoseconds
	ready   chan struct{}    // closed when Config.Resources are mirrored
	asked   chan struct{}    // closed when upstream was asked for its resources for the first time

	away atomic.Pointer[error] // why upstream did not answer the last discovery; nil: it did

	histories atomic.Uint64 // how many there were
	learning  sync.Mutex    // held while live is changed

	// mu guards what follows.
	mu          sync.Mutex
	collections map[kinds.GroupVersionResource]*collection
	doubts      map[kinds.GroupVersionResource]time.Time     // resources that upstream may not serve any more, since when
	replaced    map[kinds.GroupVersionResource]chan struct{} // closed when upstream's history is found to be another one
	contacts    map[string]time.Time                         // what a relay before this one knew, by name
}

const defaultIdle = 10 * time.Minute

// New returns a relay. It sends nothing and starts no goroutine.
func New(cfg Config) (*Relay, error) {
	if !cfg.Compress {
		cfg.Upstream = rest.CopyConfig(cfg.Upstream)
		cfg.Upstream.DisableCompression = true
	}
	upstream, err := client.New(cfg.Upstream)
	if err != nil {
		return nil, fmt.Errorf("the client for upstream: %w", err)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Idle == 0 {
		cfg.Idle = defaultIdle
	}
	r := &Relay{
		cfg: cfg, logger: cfg.Logger, mirror: cfg.Mirror, source: stored.NewMirror(cfg.Mirror.Store(), cfg.Mirror),
		upstream: upstream, metadata: upstream.As(client.Form{Metadata: true, Protobuf: true}),
		live: kinds.NewLive(kinds.NewCatalog()), builtin: builtin.Catalog(),
		starts: make(chan *collection), refresh: make(chan struct{}, 1), ready: make(chan struct{}), asked: make(chan struct{}),
		look:        make(chan struct{}, 1),
		collections: map[kinds.GroupVersionResource]*collection{}, doubts: map[kinds.GroupVersionResource]time.Time{},
		replaced: map[kinds.GroupVersionResource]chan struct{}{}, contacts: map[string]time.Time{},
	}
	r.metrics = newMetrics(r)
	if r.tables, err = newTables(r); err != nil {
		return nil, err
	}
	return r, nil
}

// Reader serves lists and watches, not those of tables: Reading.Asked has a reader for each request.
func (r *Relay) Reader() apiserver.Reader { return reader{relay: r} }

// Count returns about how many objects a list of a target has, at once.
func (r *Relay) Count(t kinds.Target) int {
	c := r.known(t.Resource)
	if c == nil {
		return 0
	}
	if h := c.current.Load(); h != nil {
		return h.reader.Count(t)
	}
	return 0
}

// Live has the resources that are mirrored.
func (r *Relay) Live() *kinds.Live { return r.live }

// superviseEvery is how often collections are looked after.
const superviseEvery = time.Second

// Run mirrors until ctx ends, which is no error. It is called once.
func (r *Relay) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	running.Go(func() { r.discover(ctx) }) // it ends with ctx
	ticker := time.NewTicker(superviseEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case c := <-r.starts:
			running.Go(func() { r.run(ctx, c) }) // it ends with ctx, or when nobody reads it
			continue
		case <-r.look:
		case <-ticker.C:
		}
		for _, c := range r.supervise() {
			running.Go(func() { r.run(ctx, c) }) // as above
		}
	}
}

// nudge makes Run call supervise now.
func (r *Relay) nudge() {
	select {
	case r.look <- struct{}{}:
	default: // it will
	}
}

// discover keeps the list of upstream's resources current.
func (r *Relay) discover(ctx context.Context) {
	defer r.keep()
	for failures := 0; ctx.Err() == nil; {
		err := r.learn(ctx)
		if r.learned.Swap(time.Now().UnixNano()) == 0 {
			close(r.asked)
		}
		wait := refreshEvery
		r.away.Store(nil)
		if err != nil {
			r.away.Store(&err)
		}
		r.nudge()
		if err != nil {
			failures++
			wait = min(time.Duration(failures)*time.Second, 10*time.Second)
			if ctx.Err() == nil {
				r.logger.WarnContext(ctx, "upstream's resources are not known", slog.Any("error", err))
			}
		} else {
			failures = 0
			r.endUnserved()
			r.keep()
			r.tables.refresh(ctx)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-r.refresh:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// Asked returns a channel that is closed when upstream was asked for its resources for the first time,
// and has answered or not. Until then everything is passed through.
func (r *Relay) Asked() <-chan struct{} { return r.asked }

// Refresh asks upstream soon which resources it serves.
func (r *Relay) Refresh() {
	if time.Since(time.Unix(0, r.learned.Load())) < refreshAfter {
		return
	}
	select {
	case r.refresh <- struct{}{}:
	default: // it was asked for
	}
}

// errUnserved ends the mirror of a resource that upstream no longer serves.
var errUnserved = errors.New("upstream no longer serves the resource")

// endUnserved ends collections that upstream no longer serves.
func (r *Relay) endUnserved() {
	catalog := r.live.Load()
	r.mu.Lock()
	defer r.mu.Unlock()
	for gvr, c := range r.collections {
		if now, served := catalog.Lookup(gvr); !served || !same(now, c.resource) {
			c.cancel(errUnserved)
		}
	}
}

// supervise ends collections that nobody reads, and returns those that are to be started.
func (r *Relay) supervise() (start []*collection) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.collections {
		if c.idle(r.cfg.Idle) && !r.wanted(c.resource) {
			c.cancel(errIdle)
		}
	}
	complete := len(r.live.Load().Resources()) > 0
	for _, resource := range r.live.Load().Resources() {
		if !r.wanted(resource) {
			continue
		}
		c := r.collections[resource.GVR()]
		if c == nil {
			c = newCollection(r, resource)
			r.collections[resource.GVR()] = c
			start = append(start, c)
		}
		complete = complete && (c.current.Load() != nil || c.failed(nil) != nil)
	}
	if complete {
		select {
		case <-r.ready:
		default:
			close(r.ready)
		}
	}
	return start
}

// Away returns why upstream did not answer when it was asked for its resources last; nil: it did.
func (r *Relay) Away() error {
	if err := r.away.Load(); err != nil {
		return *err
	}
	return nil
}

// Ready returns nil once the resources that are mirrored from the start have been read, now or by a
// relay before this one, and otherwise which are missing and why.
func (r *Relay) Ready() error {
	select {
	case <-r.ready:
		return nil
	default:
	}
	all := r.live.Load().Resources()
	why := "upstream has not answered yet"
	if err := r.Away(); err != nil {
		why = "upstream does not answer: " + err.Error()
	}
	if len(all) == 0 {
		return errors.New("upstream's resources are not known, and none are kept from before: " + why)
	}
	var missing []string
	for _, resource := range all {
		if c := r.known(resource); r.wanted(resource) && (c == nil || c.current.Load() == nil) {
			missing = append(missing, name(resource))
		}
	}
	return fmt.Errorf("of --resources %s have not been read yet: %s", strings.Join(missing, ", "), why)
}

// WaitReady blocks until Ready returns nil, or returns ctx's cause.
func (r *Relay) WaitReady(ctx context.Context) error {
	select {
	case <-r.ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

const (
	// tryAgain and tryAgainLater are how long a resource is passed through after its mirror
	// has failed: in this process, and because of what upstream sent.
	tryAgain      = 5 * time.Second
	tryAgainLater = time.Minute
)

// run mirrors a collection and says what becomes of it.
func (r *Relay) run(ctx context.Context, c *collection) {
	err := c.run(ctx)
	if ctx.Err() != nil {
		return
	}
	pause := tryAgain
	unfit, isUnfit := errors.AsType[*unmirrored](err)
	switch {
	case errors.Is(err, errIdle), errors.Is(err, errUnserved):
		c.logger.InfoContext(ctx, "the resource is no longer mirrored", slog.Any("cause", err))
		r.forget(c)
		return
	case isUnfit:
		pause = tryAgainLater
		c.logger.WarnContext(ctx, "the resource cannot be mirrored: it is passed through", slog.Any("error", unfit),
			slog.Duration("again_after", pause))
	default:
		c.logger.ErrorContext(ctx, "the mirror of the resource failed: it is passed through", slog.Any("error", err),
			slog.Duration("again_after", pause))
	}
	r.metrics.failed.WithLabelValues(c.name).Inc()
	c.mu.Lock()
	c.problem = cmpError(err)
	c.mu.Unlock()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	r.forget(c)
}

func cmpError(err error) error {
	if err == nil {
		return errors.New("the mirror has ended")
	}
	return err
}

// forget makes the next reader of a collection start it again.
func (r *Relay) forget(c *collection) {
	contact := r.contact(c.resource)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.collections[c.resource.GVR()] == c {
		r.contacts[c.name] = contact
		delete(r.collections, c.resource.GVR())
		close(c.gone)
	}
}

// known returns the collection of a resource, nil if it is not mirrored now.
func (r *Relay) known(resource *kinds.Resource) *collection {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.collections[resource.GVR()]
}

// syncWithin is how long a reader waits for the first state of a resource.
const syncWithin = 30 * time.Second

// visit is a reader of a collection, until leave is called.
type visit struct {
	collection *collection
	history    *history // what it reads
	leave      func()   // may be called more than once
}

// enter counts a reader of a resource, and returns what it reads. The first one starts the mirror.
// Errors: 503 if there is no state within 30 s, or the resource cannot be mirrored; ctx's cause.
func (r *Relay) enter(ctx context.Context, resource *kinds.Resource) (visit, error) {
	limited, cancel := context.WithTimeout(ctx, syncWithin)
	defer cancel()
	for {
		v, err := r.tryEnter(limited, resource)
		if err == nil {
			return v, nil
		}
		if ctx.Err() != nil {
			return visit{}, context.Cause(ctx)
		}
		if limited.Err() != nil || v.collection.failed(nil) != nil {
			return visit{}, wire.Unavailable(fmt.Sprintf("the mirror of %s is not complete: %v", v.collection.name, err),
				time.Second)
		}
		select { // it ended because nobody read it: the next one begins
		case <-v.collection.gone:
		case <-limited.Done():
		}
	}
}

// tryEnter is enter for the collection that there is, or a new one, which it returns also with an
// error.
func (r *Relay) tryEnter(ctx context.Context, resource *kinds.Resource) (v visit, err error) {
	r.mu.Lock()
	c, started := r.collections[resource.GVR()], true
	if c == nil {
		c, started = newCollection(r, resource), false
		r.collections[resource.GVR()] = c
	}
	v = visit{collection: c, leave: c.enter()}
	r.mu.Unlock()
	if !started {
		select {
		case r.starts <- c:
		case <-ctx.Done():
			r.forget(c)
			v.leave()
			return v, context.Cause(ctx)
		}
	}
	if v.history, err = c.wait(ctx); err != nil {
		v.leave()
	}
	return v, err
}
