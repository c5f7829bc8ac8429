// Package protection keeps claims, volumes and classes of attributes while they are used, as three controllers of
// kube-controller-manager do: what is deleted has a finalizer of the admission plugin StorageObjectInUseProtection, which a
// [Controller] removes when nothing uses the object. Objects without it, from before the plugin was on, get it.
//
// A [Protection] follows all changes. For each claim it has which pods use it, and for each class how many claims and
// volumes name it (users.go), so that a look at one object costs the same whatever else there is. It gets a change
// before who has written it is answered; before anything is released, it waits for what other servers have written too. It
// has no state of its own: a Run looks at every object once.
//
// kubernetes pkg/controller/volume/pvcprotection, pvprotection and vacprotection have the rules. handle.go decides and
// writes, queue.go has what is to be looked at; docs/controllers.md.
package protection

import (
	"context"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// Verbs is what a Controller needs of a registry.
type Verbs interface {
	Get(ctx context.Context, t kinds.Target, rv string) (*wire.Object, error)
	Patch(ctx context.Context, t kinds.Target, p wire.Patch, o metav1.PatchOptions) (wire.Written, error)
	Latest(ctx context.Context, gr kinds.GroupResource, namespace string) error
}

// Config configures a Protection. Live and Logger are required.
type Config struct {
	Live   *kinds.Live
	Logger *slog.Logger
	// Writable returns why the store refuses every write now: nothing is tried then. nil: it does not.
	Writable func() error
}

// Protection knows what uses claims, volumes and classes. It is a registry.Collector.
type Protection struct {
	// Claims, Volumes and Classes are the controllers.
	Claims, Volumes, Classes *Controller

	// mu guards what follows. Those of the queues are not locked while it is held.
	mu    sync.Mutex
	users users
	names names
}

// Controller adds and removes the finalizer of one resource.
type Controller struct {
	cfg       Config
	of        kinds.GroupResource
	finalizer string
	account   string                                    // of upstream's controller
	keep      func(metadata *wire.Object) bool          // whether there may be something to do about an object
	inUse     func(o *wire.Object) (bool, error)        // as far as the server knows
	asks      func(key wire.Key) []inNamespace          // what is to be as new as the store before inUse is believed
	before    func(context.Context, item) (bool, error) // what else is to be written; nil: nothing
	verbs     Verbs                                     // set by Run, before the workers begin
	queue     queue

	writes, errors atomic.Int64
}

// inNamespace is the objects of a resource in a namespace, or ("") all.
type inNamespace struct {
	of        kinds.GroupResource
	namespace string
}

// The resources.
//
//nolint:gochecknoglobals // constants that Go cannot have
var (
	pods    = kinds.GroupResource{Resource: "pods"}
	claims  = kinds.GroupResource{Resource: "persistentvolumeclaims"}
	volumes = kinds.GroupResource{Resource: "persistentvolumes"}
	classes = kinds.GroupResource{Group: storagev1.GroupName, Resource: "volumeattributesclasses"}
)

// workers is how many objects of a resource are looked at concurrently; they share the syncs of the store.
const workers = 4

// How long an object waits after its first failure, and at most: each failure doubles it.
const (
	minRetry = 50 * time.Millisecond
	maxRetry = time.Minute
)

// New returns a Protection; it starts nothing. It follows changes from the start, and its controllers act when they run.
func New(cfg Config) *Protection {
	if cfg.Writable == nil {
		cfg.Writable = func() error { return nil }
	}
	p := &Protection{users: newUsers(), names: newNames()}
	p.Claims = newController(cfg, claims, "kubernetes.io/pvc-protection", "pvc-protection-controller")
	p.Claims.inUse = p.claimIsUsed
	p.Claims.asks = func(key wire.Key) []inNamespace { return []inNamespace{{pods, key.Namespace}} }
	p.Claims.before = p.noteUse
	p.Claims.keep = func(o *wire.Object) bool { return !o.Deleting() || p.Claims.has(o) }
	p.Volumes = newController(cfg, volumes, "kubernetes.io/pv-protection", "pv-protection-controller")
	p.Volumes.inUse = isBound
	p.Classes = newController(cfg, classes, "kubernetes.io/vac-protection", "volumeattributesclass-protection-controller")
	p.Classes.inUse = p.classIsUsed
	p.Classes.asks = func(wire.Key) []inNamespace { return []inNamespace{{volumes, ""}, {claims, ""}} }
	return p
}

// Controllers returns the controllers by their names in kube-controller-manager; nil has none.
func (p *Protection) Controllers() map[string]*Controller {
	if p == nil {
		return nil
	}
	return map[string]*Controller{
		"persistentvolumeclaim-protection-controller": p.Claims,
		"persistentvolume-protection-controller":      p.Volumes,
		"volumeattributesclass-protection-controller": p.Classes,
	}
}

func newController(cfg Config, of kinds.GroupResource, finalizer, account string) *Controller {
	c := &Controller{cfg: cfg, of: of, finalizer: finalizer, account: account, queue: newQueue()}
	c.keep = func(o *wire.Object) bool { return o.Deleting() == c.has(o) }
	c.asks = func(wire.Key) []inNamespace { return nil }
	return c
}

// has reports whether an object has the finalizer.
func (c *Controller) has(o *wire.Object) bool { return slices.Contains(o.Finalizers(), c.finalizer) }

// caller is the user of upstream's controller, as admission plugins see it.
func (c *Controller) caller() user.Info {
	return &user.DefaultInfo{
		Name:   "system:serviceaccount:kube-system:" + c.account,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", user.AllAuthenticated},
	}
}

// Load implements registry.Collector.
func (p *Protection) Load(gr kinds.GroupResource, objects iter.Seq[*wire.Object]) {
	switch gr {
	case pods, claims, volumes, classes:
		for o := range objects {
			p.Changed(gr, nil, o)
		}
	}
}

// Changed implements registry.Collector. For a pod without claims it costs a search in its JSON when it is created.
func (p *Protection) Changed(gr kinds.GroupResource, before, after *wire.Object) {
	switch gr {
	case pods:
		p.mu.Lock()
		touched := p.users.change(before, after)
		p.mu.Unlock()
		for _, key := range touched {
			p.Claims.queue.look(key)
		}
	case claims:
		p.named(gr, before, after)
		p.Claims.changed(before, after)
	case volumes:
		p.named(gr, before, after)
		p.Volumes.changed(before, after)
	case classes:
		p.Classes.changed(before, after)
	}
}

// named notes which classes a claim or a volume names.
func (p *Protection) named(gr kinds.GroupResource, before, after *wire.Object) {
	p.mu.Lock()
	left := p.names.change(gr, before, after)
	p.mu.Unlock()
	for _, class := range left {
		p.Classes.queue.look(wire.Key{Name: class})
	}
}

// changed notes a change of an object that the controller protects.
func (c *Controller) changed(before, after *wire.Object) {
	if after != nil && c.keep(after) {
		c.queue.note(after.Key())
		return
	}
	if after == nil {
		after = before
	}
	c.queue.forget(after.Key())
}

// Forget implements registry.Collector: built-in resources do not end.
func (p *Protection) Forget(kinds.GroupResource) {}

// Defined implements registry.Collector.
func (p *Protection) Defined() {}

// Run protects objects until ctx ends, which is no error. It is called when verbs are served, and not again before it has
// returned.
func (c *Controller) Run(ctx context.Context, verbs Verbs) error {
	c.verbs = verbs
	c.queue.begin()
	defer c.queue.end()
	var wg sync.WaitGroup
	// They are Run's, and end with ctx.
	for range workers {
		wg.Go(func() { c.work(ctx) })
	}
	wg.Wait()
	return nil
}

// work looks at one object after the other.
func (c *Controller) work(ctx context.Context) {
	for ctx.Err() == nil {
		i, wait := c.queue.take(time.Now())
		if i != nil {
			c.queue.done(i, c.turn(ctx, i))
			continue
		}
		var due <-chan time.Time
		if wait > 0 {
			due = time.After(wait)
		}
		select {
		case <-c.queue.wake:
		case <-due:
		case <-ctx.Done():
		}
	}
}

// turn looks at an object, and returns when to do so again; 0: when something changes.
func (c *Controller) turn(ctx context.Context, i *waiting) time.Duration {
	err := c.cfg.Writable() // if it is not, it is not about this object
	tried := err == nil
	if tried {
		err = c.handle(ctx, i.key)
	}
	if err == nil || ctx.Err() != nil {
		i.retry = 0
		return 0
	}
	i.retry = min(max(2*i.retry, minRetry), maxRetry)
	if isReason(err, metav1.StatusReasonConflict) { // it was changed meanwhile
		return i.retry
	}
	c.errors.Add(1)
	if tried {
		c.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "protect storage that is used: trying again later",
			slog.String("resource", c.of.String()), slog.String("object", i.key.String()),
			slog.Int64("retry_ms", i.retry.Milliseconds()), slog.Any("err", err))
	}
	return i.retry
}

// Stats are the figures of a Controller.
type Stats struct {
	Pending int   // objects to look at, now or later; 0 while it does not run
	Writes  int64 // that have added or removed a finalizer, or changed a condition, ever
	Errors  int64 // failures, ever; they are tried again
}

// Stats returns the current figures.
func (c *Controller) Stats() Stats {
	return Stats{Pending: c.queue.len(), Writes: c.writes.Load(), Errors: c.errors.Load()}
}
