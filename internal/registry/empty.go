package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/kube"
)

// emptying is how the publisher tells the emptier that there may be work.
type emptying struct {
	wake    chan struct{} // holds one token: look again
	pending atomic.Bool   // something under deletion is not empty yet: every removal counts
}

// How long the emptier waits after an error before it tries again.
const (
	minRetry = time.Second
	maxRetry = time.Minute
)

// notice looks for what the emptier waits for.
func (e *emptying) notice(k *kind, entries []*watchcache.Entry) {
	container := k.gr == namespacesGR() || k.gr == definitionsGR()
	pending := e.pending.Load()
	if !container && !pending {
		return
	}
	if slices.ContainsFunc(entries, func(entry *watchcache.Entry) bool {
		return container && entry.Object.Deleting() || pending && entry.Deleted
	}) {
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
}

// empty deletes the content of namespaces and definitions under deletion, and then
// them, until ctx ends. What an earlier process has begun is finished too.
func (r *Registry) empty(ctx context.Context) {
	retry := minRetry
	for {
		r.emptying.pending.Store(true) // before the look, so that no removal is missed
		left, err := r.emptyAll(ctx)
		if left == 0 && err == nil {
			r.emptying.pending.Store(false)
		}
		var again <-chan time.Time
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			r.logger.LogAttrs(ctx, slog.LevelWarn, "what is under deletion could not be emptied yet",
				slog.Int64("retry_ms", retry.Milliseconds()), slog.Any("err", err))
			again = time.After(retry)
			retry = min(2*retry, maxRetry)
		} else {
			retry = minRetry
		}
		select {
		case <-r.emptying.wake:
		case <-again:
		case <-ctx.Done():
			return
		}
	}
}

// emptyAll does what can be done now; left is how many objects are still held.
func (r *Registry) emptyAll(ctx context.Context) (left int, err error) {
	var errs []error
	for _, c := range []struct {
		gr    schema.GroupResource
		empty func(context.Context, subject) (int, error)
	}{{definitionsGR(), r.emptyDefinition}, {namespacesGR(), r.emptyNamespace}} {
		k := (*r.kinds.Load())[c.gr.String()]
		resource, found := r.live.Load().Storage(c.gr)
		if k == nil || !found {
			continue
		}
		for o := range k.cache.Snapshot().Scan("", watchcache.Selection{}) {
			if !o.Deleting() {
				continue
			}
			w := subject{target: schema.Target{Resource: resource, Name: o.Key().Name}, kind: k}
			n, err := c.empty(ctx, w)
			left += n
			if err != nil {
				errs = append(errs, fmt.Errorf("empty %s %s: %w", resource.Kind, o.Key().Name, err))
			}
		}
	}
	return left, errors.Join(errs...)
}

// emptyNamespace deletes everything in a namespace; when nothing is left it
// removes the namespace.
func (r *Registry) emptyNamespace(ctx context.Context, w subject) (left int, err error) {
	// Who looked at the namespace before it was under deletion has committed now.
	if err := r.creations.barrier(ctx); err != nil {
		return 0, err
	}
	for _, resource := range r.live.Load().Stored() {
		if !resource.Namespaced {
			continue
		}
		n, err := r.emptyOf(ctx, resource, w.target.Name)
		if err != nil {
			return left, err
		}
		left += n
	}
	if left > 0 {
		return left, nil
	}
	return 0, r.letGo(ctx, w, func(u *unstructured.Unstructured) {
		unstructured.RemoveNestedField(u.Object, "spec", "finalizers")
	})
}

// emptyDefinition deletes all objects of a definition, and then lets it go.
func (r *Registry) emptyDefinition(ctx context.Context, w subject) (left int, err error) {
	if err := r.creations.barrier(ctx); err != nil {
		return 0, err
	}
	if resource, found := r.live.Load().Storage(resourceOf(w.target.Name)); found && resource.Custom {
		if left, err = r.emptyOf(ctx, resource, ""); err != nil || left > 0 {
			return left, err
		}
	}
	return 0, r.letGo(ctx, w, func(u *unstructured.Unstructured) {
		u.SetFinalizers(slices.DeleteFunc(u.GetFinalizers(), func(f string) bool { return f == cleanup }))
	})
}

// emptyOf deletes the objects of one resource in a namespace, or all of them, and
// returns how many are still held.
func (r *Registry) emptyOf(ctx context.Context, resource *schema.Resource, namespace string) (left int, err error) {
	k := (*r.kinds.Load())[resource.GR().String()]
	if k == nil {
		return 0, nil // its definition went away just now, and everything of it
	}
	w := subject{target: schema.Target{Resource: resource, Namespace: namespace}, kind: k}
	s, err := r.fresh(ctx, w.kind)
	if err != nil {
		return 0, err
	}
	items := slices.Collect(s.Scan("", watchcache.Selection{Namespace: namespace}))
	outcomes, err := r.deleteEach(ctx, w, items, r.emptyingOptions)
	for _, out := range outcomes {
		if out.object != nil && !out.removed {
			left++
		}
	}
	return left, err
}

// emptyingOptions ends a pod at once when its node does not exist: nobody is there
// to do it in peace (upstream's pod garbage collector).
func (r *Registry) emptyingOptions(o *kube.Object) metav1.DeleteOptions {
	nodes := (*r.kinds.Load())["nodes"]
	if name := o.Fields().Get("spec.nodeName"); name != "" && nodes != nil {
		if _, found := nodes.cache.Snapshot().Get(kube.Key{Name: name}); !found {
			return metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
		}
	}
	return metav1.DeleteOptions{}
}

// letGo takes from an object under deletion what held it until it was empty; it
// removes the object when nothing else holds it.
func (r *Registry) letGo(ctx context.Context, w subject, release func(*unstructured.Unstructured)) error {
	_, err := r.mutate(ctx, w, func(current *kube.Object) (decision, error) {
		if current == nil || !current.Deleting() {
			return decision{}, nil
		}
		u, err := treeOf(current)
		if err != nil {
			return decision{}, err
		}
		release(u)
		if finished(w.target.Resource, u) {
			return decision{remove: true}, nil
		}
		value, err := encodeStored(w.target.Resource, u)
		if err != nil || string(value) == string(current.Value()) {
			return decision{}, err
		}
		return decision{value: value}, nil
	})
	return err
}
