package lifecycle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry/caches"
	"github.com/gapless-io/gapless/internal/registry/strategy"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
)

// Verbs is what the controller needs of a registry.
type Verbs interface {
	// CreateObject stores a new object, unless one of its name is there.
	CreateObject(ctx context.Context, r *kinds.Resource, u *unstructured.Unstructured) error
	// DeleteObjects deletes objects of one resource, and returns how many of them are
	// still there: finalizers or a grace period hold them.
	DeleteObjects(
		ctx context.Context, r *kinds.Resource, items []*wire.Object, options func(*wire.Object) metav1.DeleteOptions,
	) (left int, err error)
	// Refresh writes a definition as it is, so that its status is completed again.
	Refresh(ctx context.Context, t kinds.Target) error
	// Finalize changes an object under deletion by release, and removes it when nothing
	// holds it any more. It does nothing to an object that is not under deletion, or has another uid.
	Finalize(ctx context.Context, t kinds.Target, uid types.UID, release func(*unstructured.Unstructured)) error
}

// Config configures a Controller. All members but KeepNamespaces, Quiet, Shared and Elsewhere are required.
type Config struct {
	Caches *caches.Set
	Live   *kinds.Live
	Gate   *Gate
	Verbs  Verbs
	Logger *slog.Logger
	// KeepNamespaces says whether namespaces under deletion, and their content, are left to another program now; nil: never.
	KeepNamespaces func() bool
	// Quiet is for how long nothing must have been deleted in a namespace under deletion before
	// its content goes, so that clients find what they delete with it; 0: it goes at once.
	Quiet time.Duration
	// Shared says that other servers create objects in the same store.
	Shared bool
	// Elsewhere is other servers that have objects in namespaces; nil: there are none.
	Elsewhere Elsewhere
}

// Controller deletes the content of namespaces and definitions under deletion, and then
// removes them. Upstream's is the namespace controller, and the finalizer of
// apiextensions-apiserver.
type Controller struct {
	cfg    Config
	wake   chan struct{} // holds one token: look again
	active atomic.Bool   // something under deletion still has content: every removal counts
	// namespaces and definitions under deletion
	namespaces, definitions quiet
	// what other servers have in namespaces under deletion
	elsewhere elsewhere
}

// NewController returns a controller; it starts no goroutine.
func NewController(cfg Config) *Controller {
	if cfg.KeepNamespaces == nil {
		cfg.KeepNamespaces = func() bool { return false }
	}
	c := &Controller{cfg: cfg, wake: make(chan struct{}, 1), elsewhere: elsewhere{of: cfg.Elsewhere}}
	c.namespaces.after = cfg.Quiet
	if cfg.Shared {
		c.namespaces.least, c.definitions.least = longestQuiet, longestQuiet
	}
	return c
}

// How long the controller waits after an error before it tries again.
const (
	minRetry = time.Second
	maxRetry = time.Minute
)

// CreateNamespaces creates the namespaces that always exist, unless they are there.
func (c *Controller) CreateNamespaces(ctx context.Context) error {
	resource, found := c.cfg.Live.Load().Storage(kinds.Namespaces())
	if !found {
		return nil // a catalog without namespaces: a test's
	}
	cached := c.cfg.Caches.Lookup(kinds.Namespaces())
	namespaces := cached.Cache.Snapshot()
	for _, name := range initialNamespaces() {
		key := wire.Key{Name: name}
		if _, found := namespaces.Get(key); found || cached.Readable(key) != nil { // it is there
			continue
		}
		u := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name},
		}}
		if err := c.cfg.Verbs.CreateObject(ctx, resource, u); err != nil {
			return fmt.Errorf("create namespace %s: %w", name, err)
		}
	}
	return nil
}

// Notify wakes the controller when entries may be work for it. The publisher calls it
// after each append; it does not block.
func (c *Controller) Notify(r *caches.Resource, entries []*watchcache.Entry) {
	definitions := r.GR == kinds.Definitions()
	container := r.GR == kinds.Namespaces() || definitions
	active := c.active.Load()
	if !container && !active {
		return
	}
	c.namespaces.seen(entries)
	if slices.ContainsFunc(entries, func(e *watchcache.Entry) bool {
		freed := definitions && (e.Deleted || e.Replaces) // names that others may have now
		return container && e.Object.Deleting() || active && e.Deleted || freed
	}) {
		c.Wake()
	}
}

// Wake lets Run look again, as when Config.KeepNamespaces has changed. It does not block.
func (c *Controller) Wake() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Run deletes namespaces and definitions with their content until ctx ends, which is no error. It
// also finishes deletions that an earlier process began. It is not called again before it has
// returned.
func (c *Controller) Run(ctx context.Context) error {
	defer c.elsewhere.running.Wait()
	retry := minRetry
	for {
		c.active.Store(true) // before the look, so that no removal is missed
		left, next, err := c.deleteAll(ctx)
		if left == 0 && err == nil {
			c.active.Store(false)
		}
		var again <-chan time.Time
		if err != nil && ctx.Err() == nil {
			c.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "delete the content of namespaces and definitions",
				slog.Int64("retry_ms", retry.Milliseconds()), slog.Any("err", err))
			if next == 0 || next > retry {
				next = retry
			}
			retry = min(2*retry, maxRetry)
		} else {
			retry = minRetry
		}
		if next > 0 {
			again = time.After(next)
		}
		select {
		case <-c.wake:
		case <-again:
		case <-ctx.Done():
			return nil
		}
	}
}

// deleteAll does what can be done now; left is how many objects are still held. If next is not 0,
// there is more to do after that time.
func (c *Controller) deleteAll(ctx context.Context) (left int, next time.Duration, err error) {
	errs := []error{c.acceptNames(ctx)}
	for _, all := range []containers{
		{kinds.Definitions(), &c.definitions, never, c.deleteDefinition},
		{kinds.Namespaces(), &c.namespaces, c.empty, c.deleteNamespace},
	} {
		keep := func() bool { return all.gr == kinds.Namespaces() && c.cfg.KeepNamespaces() }
		if keep() {
			continue
		}
		cached := c.cfg.Caches.Lookup(all.gr)
		resource, found := c.cfg.Live.Load().Storage(all.gr)
		if cached == nil || !found {
			continue
		}
		s := cached.Cache.Snapshot()
		for o := range s.Scan("", watchcache.Selection{}) {
			if !o.Deleting() || keep() {
				continue
			}
			name := o.Key().Name
			if err := cached.Readable(o.Key()); err != nil { // it may be another one by now
				errs = append(errs, err)
				continue
			}
			if stays := all.quiet.left(o, func() bool { return all.empty(name) }); stays > 0 {
				left++
				if next == 0 || stays < next {
					next = stays
				}
				continue
			}
			n, err := all.delete(ctx, container{Target: kinds.Target{Resource: resource, Name: name}, uid: o.UID()})
			left += n
			if err != nil {
				errs = append(errs, fmt.Errorf("%s %s: %w", resource.Kind, name, err))
			}
		}
		is := func(name string) bool {
			_, is := s.Get(wire.Key{Name: name})
			return is
		}
		all.quiet.keep(is)
		if all.gr == kinds.Namespaces() {
			c.elsewhere.keep(is)
		}
	}
	return left, next, errors.Join(errs...)
}

// containers are all objects of a resource, whose deletion deletes what is in them.
type containers struct {
	gr     kinds.GroupResource
	quiet  *quiet
	empty  func(name string) bool
	delete func(context.Context, container) (left int, err error)
}

// container is one namespace or definition. Another one of its name may have taken its place since it was seen
// under deletion: somebody else has finished it, and created it again.
type container struct {
	kinds.Target

	uid types.UID
}

// errReplaced says that a container is gone. Another one may have its name.
var errReplaced = errors.New("it was removed by somebody else")

// never says of no container that it is empty.
func never(string) bool { return false }

// acceptNames writes the definitions again whose names another one had, so that they get
// those that are free now (apiextensions pkg/controller/status).
func (c *Controller) acceptNames(ctx context.Context) error {
	cached := c.cfg.Caches.Lookup(kinds.Definitions())
	resource, found := c.cfg.Live.Load().Storage(kinds.Definitions())
	if cached == nil || !found {
		return nil
	}
	var errs []error
	var parts [][]byte
	conflict := []byte(`Conflict","status":"False"`)
	for o := range cached.Cache.Snapshot().Scan("", watchcache.Selection{}) {
		// A reason of NamesAccepted; it is not in what objects share.
		if parts = o.Parts(parts[:0]); !slices.ContainsFunc(parts, func(p []byte) bool { return bytes.Contains(p, conflict) }) {
			continue
		}
		if err := c.cfg.Verbs.Refresh(ctx, kinds.Target{Resource: resource, Name: o.Key().Name}); err != nil {
			errs = append(errs, fmt.Errorf("accept the names of %s: %w", o.Key().Name, err))
		}
	}
	return errors.Join(errs...)
}

// deleteNamespace deletes everything in a namespace, the pods first; when nothing is left
// it removes the namespace. Otherwise the conditions of the namespace say what is left.
func (c *Controller) deleteNamespace(ctx context.Context, t container) (left int, err error) {
	// Creations of this server that saw the namespace before its deletion began are committed then.
	if err := c.cfg.Gate.creations.wait(ctx); err != nil {
		return 0, err
	}
	var errs []error
	found := newRemaining()
	if definitions := c.cfg.Caches.Lookup(kinds.Definitions()); definitions != nil {
		if err := definitions.Whole(""); err != nil { // there may be objects of one that is not known
			errs = append(errs, err)
			found.errors = append(found.errors, err.Error())
		}
	}
	for _, resource := range podsFirst(c.cfg.Live.Load().Stored()) {
		if !resource.Namespaced {
			continue
		}
		n, err := c.deleteContent(ctx, t, resource)
		switch {
		case ctx.Err() != nil:
			return left, err
		case errors.Is(err, errReplaced):
			return 0, nil
		}
		if err != nil {
			errs = append(errs, err)
			found.errors = append(found.errors, err.Error())
		}
		if n > 0 || err != nil {
			c.count(resource, t.Name, found)
		}
		if left += n; n > 0 && resource.GR() == pods() {
			break // what pods use stays until they have ended (kubernetes OrderedNamespaceDeletion)
		}
	}
	if found.objects[pods()] == 0 && c.elsewhere.any() {
		n, known := c.addElsewhere(ctx, t, left == 0 && len(errs) == 0, found)
		if left += n; !known && left == 0 && len(errs) == 0 {
			return 1, nil // the answer wakes the controller
		}
	}
	if left > 0 || len(errs) > 0 {
		return left, errors.Join(append(errs, c.cfg.Verbs.Finalize(ctx, t.Target, t.uid, found.report))...)
	}
	return 0, c.cfg.Verbs.Finalize(ctx, t.Target, t.uid, func(u *unstructured.Unstructured) {
		unstructured.RemoveNestedField(u.Object, "spec", "finalizers")
	})
}

func pods() kinds.GroupResource { return kinds.GroupResource{Resource: "pods"} }

// podsFirst returns the resources with the pods before all others.
func podsFirst(resources []*kinds.Resource) []*kinds.Resource {
	return slices.SortedStableFunc(slices.Values(resources), func(a, b *kinds.Resource) int {
		switch pods() {
		case a.GR():
			return -1
		case b.GR():
			return 1
		}
		return 0
	})
}

// count adds what a resource still has in a namespace.
func (c *Controller) count(resource *kinds.Resource, namespace string, to *remaining) {
	if cached := c.cfg.Caches.Lookup(resource.GR()); cached != nil {
		for o := range cached.Cache.Snapshot().Scan("", watchcache.Selection{Namespace: namespace}) {
			to.add(resource.GR(), o)
		}
	}
}

// deleteDefinition deletes the custom resources of a definition; when nothing is left
// it removes the definition.
func (c *Controller) deleteDefinition(ctx context.Context, t container) (left int, err error) {
	if err := c.cfg.Gate.creations.wait(ctx); err != nil {
		return 0, err
	}
	if resource, found := c.cfg.Live.Load().Storage(kinds.DefinedBy(t.Name)); found && resource.Custom {
		left, err = c.deleteContent(ctx, t, resource)
		switch {
		case errors.Is(err, errReplaced):
			return 0, nil
		case err != nil || left > 0:
			return left, err
		}
	}
	return 0, c.cfg.Verbs.Finalize(ctx, t.Target, t.uid, func(u *unstructured.Unstructured) {
		u.SetFinalizers(slices.DeleteFunc(u.GetFinalizers(), func(f string) bool { return f == strategy.DefinitionFinalizer }))
	})
}

// deleteContent deletes the objects of one resource in a namespace, or of a definition, and
// returns how many are still held. Errors: errReplaced.
func (c *Controller) deleteContent(ctx context.Context, in container, resource *kinds.Resource) (left int, err error) {
	unread := c.cfg.Caches.Unread(resource.GR()) // before the look: see caches.Set.Of
	cached := c.cfg.Caches.Lookup(resource.GR())
	if cached == nil { // its definition was removed just now, after its objects; or it could not be read yet
		return 0, unread
	}
	var content watchcache.Selection
	if in.Resource.IsNamespace() {
		content.Namespace = in.Name
	}
	s, err := cached.FreshIn(ctx, content.Namespace)
	if err != nil {
		return 0, err
	}
	items := slices.Collect(s.Scan("", content))
	if len(items) == 0 {
		return 0, nil
	}
	if err := c.check(ctx, in); err != nil {
		return 0, err
	}
	return c.cfg.Verbs.DeleteObjects(ctx, resource, items, c.deleteOptions)
}

// check returns errReplaced if a container is gone. If it is there, then all that was read before is its own: none of
// it was created after the container was gone. What is deleted then is that, and nothing of the same name, by its uid.
func (c *Controller) check(ctx context.Context, in container) error {
	cached := c.cfg.Caches.Lookup(in.Resource.GR())
	if cached == nil {
		return errReplaced
	}
	key := wire.Key{Name: in.Name}
	s, err := cached.FreshOf(ctx, key)
	if err != nil {
		return err
	}
	if now, found := s.Get(key); !found || now.UID() != in.uid || !now.Deleting() {
		return errReplaced
	}
	return nil
}

// deleteOptions ends a pod at once when its node does not exist: no kubelet is there
// to end it gracefully (upstream's pod garbage collector). Nothing is orphaned (namespace
// deletion/namespaced_resources_deleter.go).
func (c *Controller) deleteOptions(o *wire.Object) metav1.DeleteOptions {
	options := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
	nodes := c.cfg.Caches.Lookup(kinds.GroupResource{Resource: "nodes"})
	if name := o.Fields().Get("spec.nodeName"); name != "" && nodes != nil {
		key := wire.Key{Name: name}
		readable := nodes.Readable(key) == nil // before the look, which finds the node then if it can be read
		if _, found := nodes.Cache.Snapshot().Get(key); !found && readable {
			options.GracePeriodSeconds = new(int64(0))
		}
	}
	return options
}
