// Package bootstrap creates the objects that every cluster has, and restores them as a
// cluster does.
//
// A [Controller] creates what kube-apiserver creates at its start (the Service kubernetes with
// its endpoints, the bootstrap roles, the objects of flow control, and a [Trust] for API servers behind it) and, if
// configured, what kube-controller-manager
// maintains (in every namespace the ConfigMap kube-root-ca.crt and the ServiceAccount default;
// aggregated roles). A task is one object, or the objects of one namespace, to check; it is
// idempotent, and writes nothing when nothing has to change.
package bootstrap

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// Verbs is what a Controller needs of a registry.
type Verbs interface {
	Get(ctx context.Context, t kinds.Target, rv string) (*wire.Object, error)
	Watch(ctx context.Context, t kinds.Target, o wire.ListOptions) (wire.Watch, error)
	Writes
}

// Writes are the verbs that change objects.
type Writes interface {
	Create(ctx context.Context, t kinds.Target, body []byte, o metav1.CreateOptions) (wire.Written, error)
	Update(ctx context.Context, t kinds.Target, body []byte, o metav1.UpdateOptions) (wire.Written, error)
	Patch(ctx context.Context, t kinds.Target, p wire.Patch, o metav1.PatchOptions) (wire.Written, error)
	Delete(ctx context.Context, t kinds.Target, o metav1.DeleteOptions) (wire.Written, error)
}

// Config says what a Controller creates. Verbs, Live and Logger are required.
type Config struct {
	Verbs Verbs
	Live  *kinds.Live
	// Address is where clients reach the server. Without it the Controller leaves out the Service
	// kubernetes with its endpoints.
	Address netip.AddrPort
	// Others reports whether kube-apiservers work over the same store: they maintain the endpoints of the Service
	// kubernetes then. Otherwise Run does, which is for the leader, and names this server only. The Service is made if it
	// is missing, and then left as it is. nil: there is no other server.
	Others func(ctx context.Context) (bool, error)
	// ServiceIP returns the address of the Service kubernetes; nil: it has none. ServiceRanges are those of the
	// ServiceCIDR kubernetes; without them the Controller leaves it out.
	ServiceIP     func() netip.Addr
	ServiceRanges []netip.Prefix
	// CA is the certificate, in PEM, of the CA of the server's certificate. Without it the
	// Controller leaves out what kube-controller-manager maintains.
	CA []byte
	// KeepOtherCAs leaves a ConfigMap kube-root-ca.crt as it is if it has other certificates than CA: other servers may
	// have the same objects, and another CA.
	KeepOtherCAs bool
	// Trust is by what the server knows its callers now, for API servers behind it; nil: nothing.
	Trust func() Trust
	// Flows says what is done with the objects of flow control.
	Flows  Flows
	Logger *slog.Logger
}

// Controller creates the objects. Make is called once, and then Run, not again before it has returned.
type Controller struct {
	verbs   Verbs
	live    *kinds.Live
	address netip.AddrPort
	others  func(ctx context.Context) (bool, error) // Config.Others
	running atomic.Bool
	ip      func() netip.Addr // of the Service kubernetes; nil: none
	ranges  []netip.Prefix    // of the ServiceCIDR kubernetes
	ca      []byte
	keepCAs bool
	warned  sync.Once // that another CA is kept
	logger  *slog.Logger
	trust   func() Trust

	due   due
	roles roles
	first map[string][]object // the initial roles and bindings, by name
	flows map[string]object   // of flow control, by flowName
	// references are those of all FlowSchemas; shared says that others may restore what is in flows.
	references references
	shared     bool
}

// New returns a Controller; it starts nothing.
func New(cfg Config) *Controller {
	return &Controller{
		verbs: cfg.Verbs, live: cfg.Live, address: cfg.Address, others: cfg.Others, ca: cfg.CA, keepCAs: cfg.KeepOtherCAs,
		logger: cfg.Logger, ip: cfg.ServiceIP, ranges: cfg.ServiceRanges, trust: cfg.Trust,
		due:   due{wake: make(chan struct{}, 1)},
		flows: firstFlows(cfg.Flows), shared: cfg.Flows == FlowsShared,
	}
}

// How long a Controller waits after a failure before it tries again, and how many tasks
// run concurrently, so that they share the syncs of the store: while it serves, and at a start,
// when there are no other writers.
const (
	minRetry = time.Second
	maxRetry = time.Minute
	workers  = 8
	starters = 128
)

// Make creates the server's own objects. It logs failures, and Run tries again: a server
// with a full disk must still serve reads.
func (c *Controller) Make(ctx context.Context) {
	for _, object := range c.own() {
		c.due.add(task{what: ownObject, name: object.name})
	}
	for name := range c.flows {
		c.due.add(task{what: flowObject, name: name})
	}
	c.first = firstRoles()
	for name := range c.first {
		c.due.add(task{what: firstRole, name: name})
	}
	c.due.add(c.doAll(ctx, c.due.take(), starters)...)
	// Now that there are the levels: who has started writes nothing by itself.
	c.due.add(c.doAll(ctx, c.conditions(), starters)...)
}

// Run maintains the objects until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	c.running.Store(true)
	defer c.running.Store(false)
	var wg sync.WaitGroup
	wg.Go(func() { c.follow(ctx) }) // it is Run's, and ends with ctx
	retry := minRetry
	var again <-chan time.Time // nil when no task has failed
	failed := map[task]struct{}{}
	looks := time.NewTicker(trustEvery)
	defer looks.Stop()
	for ctx.Err() == nil {
		for _, t := range c.doAll(ctx, c.due.take(), workers) {
			failed[t] = struct{}{}
		}
		switch {
		case len(failed) == 0:
			retry = minRetry
		case again == nil:
			again = time.After(retry)
			retry = min(2*retry, maxRetry)
		}
		select {
		case <-c.due.wake: // by a new task: failed ones wait for again
		case <-looks.C:
			if c.trust != nil {
				c.due.add(task{ownObject, authentication})
			}
			if c.others != nil { // they may be gone
				c.due.add(task{ownObject, serviceName})
			}
		case <-again:
			again = nil
			c.due.add(slices.Collect(maps.Keys(failed))...)
			clear(failed)
		case <-ctx.Done():
		}
	}
	wg.Wait()
	c.due.add(slices.Collect(maps.Keys(failed))...) // for the next Run
	return nil
}

// doAll runs tasks, as many concurrently as there are workers, and returns those that failed.
func (c *Controller) doAll(ctx context.Context, tasks []task, workers int) (left []task) {
	var mu sync.Mutex // guards left
	turns := make(chan task)
	var wg sync.WaitGroup
	// They are doAll's, and end when turns is closed.
	for range min(workers, len(tasks)) {
		wg.Go(func() {
			for t := range turns {
				err := c.do(ctx, t)
				if err == nil {
					continue
				}
				if ctx.Err() == nil {
					c.logger.LogAttrs(ctx, slog.LevelWarn, "create a bootstrap object",
						slog.String("what", string(t.what)), slog.String("name", t.name), slog.Any("err", err))
				}
				mu.Lock()
				left = append(left, t)
				mu.Unlock()
			}
		})
	}
	for _, t := range tasks {
		turns <- t
	}
	close(turns)
	wg.Wait()
	return left
}

// task is one object, or the objects of one namespace, to check.
type task struct {
	what what
	name string
}

type what string

// The kinds of tasks.
const (
	ownObject what = "object of the server"
	firstRole what = "role"
	namespace what = "namespace"
	aggregate what = "aggregated role"

	flowObject   what = "object of flow control"
	unwantedFlow what = "former object of flow control"
	dangling     what = "status of a FlowSchema"
)

func (c *Controller) do(ctx context.Context, t task) error {
	switch t.what {
	case ownObject:
		return c.ensureOne(ctx, c.own(), t.name)
	case firstRole:
		return c.ensureOne(ctx, c.first[t.name], t.name)
	case namespace:
		return c.fill(ctx, t.name)
	case aggregate:
		return c.aggregate(ctx, t.name)
	case flowObject:
		return c.ensure(ctx, c.flows[t.name])
	case unwantedFlow:
		return c.removeFlow(ctx, t.name)
	case dangling:
		return c.note(ctx, t.name)
	}
	return nil
}

// due is the set of pending tasks.
type due struct {
	wake chan struct{} // holds one token: a task is pending

	// mu guards tasks.
	mu    sync.Mutex
	tasks map[task]struct{}
}

func (d *due) add(tasks ...task) {
	if len(tasks) == 0 {
		return
	}
	d.mu.Lock()
	if d.tasks == nil {
		d.tasks = map[task]struct{}{}
	}
	for _, t := range tasks {
		d.tasks[t] = struct{}{}
	}
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

func (d *due) take() []task {
	d.mu.Lock()
	defer d.mu.Unlock()
	tasks := make([]task, 0, len(d.tasks))
	for t := range d.tasks {
		tasks = append(tasks, t)
	}
	d.tasks = nil
	return tasks
}

// target is a place for objects of a resource; its Resource is nil when the catalog
// does not have it.
func (c *Controller) target(gr kinds.GroupResource, namespace string) kinds.Target {
	resource, _ := c.live.Load().Storage(gr)
	return kinds.Target{Resource: resource, Namespace: namespace}
}

func core(plural string) kinds.GroupResource { return kinds.GroupResource{Resource: plural} }

func namespaces() kinds.GroupResource { return core("namespaces") }
