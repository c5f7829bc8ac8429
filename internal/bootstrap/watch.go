package bootstrap

import (
	"context"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// watched is a watch that leads to tasks: of the objects of a resource, or of one name.
type watched struct {
	target kinds.Target
	name   string
	// seen returns the tasks for an event: of an object, or InitialEventsEnd.
	seen func(e wire.WatchEvent) []task
}

// watched returns all watches.
func (c *Controller) watched() []watched {
	var all []watched
	for _, object := range c.own() {
		all = append(all, watched{
			target: c.target(object.resource, object.namespace), name: object.name,
			seen: func(wire.WatchEvent) []task { return []task{{ownObject, object.name}} },
		})
	}
	if c.ca == nil {
		return all
	}
	fill := func(of func(wire.Key) string) func(e wire.WatchEvent) []task {
		return func(e wire.WatchEvent) []task {
			if e.Object == nil {
				return nil
			}
			return []task{{namespace, of(e.Object.Key())}}
		}
	}
	where := func(key wire.Key) string { return key.Namespace }
	return append(all,
		watched{target: c.target(namespaces(), ""), seen: fill(func(key wire.Key) string { return key.Name })},
		watched{target: c.target(core("configmaps"), ""), name: rootCA, seen: fill(where)},
		watched{target: c.target(core("serviceaccounts"), ""), name: defaultAccount, seen: fill(where)},
		watched{target: c.target(rbac("clusterroles"), ""), seen: c.roles.seen},
	)
}

// follow watches everything from the current state on until ctx ends. When one of the
// watches fails, all begin again, so that no event is missed.
func (c *Controller) follow(ctx context.Context) {
	for ctx.Err() == nil {
		err := c.followOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		c.logger.LogAttrs(ctx, slog.LevelDebug, "restart watches", slog.Any("err", err))
		select {
		case <-time.After(minRetry):
		case <-ctx.Done():
		}
	}
}

func (c *Controller) followOnce(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c.roles.forget()
	if c.ca != nil {
		c.due.add(task{namespace, corev1.NamespaceNodeLease}) // if it is missing there is no event
	}
	var wg sync.WaitGroup
	for _, w := range c.watched() {
		if w.target.Resource == nil {
			continue // a catalog without it: a test's
		}
		// They are followOnce's, and end with ctx or the first error.
		wg.Go(func() { cancel(c.followOne(ctx, w)) })
	}
	wg.Wait()
	return context.Cause(ctx)
}

func (c *Controller) followOne(ctx context.Context, w watched) error {
	o := wire.ListOptions{Labels: labels.Everything(), Fields: fields.Everything(), Watch: true}
	if w.name != "" {
		o.Fields = fields.OneTermEqualSelector("metadata.name", w.name)
	}
	stream, err := c.verbs.Watch(ctx, w.target, o)
	if err != nil {
		return err
	}
	defer stream.Close()
	for {
		events, err := stream.Next(ctx)
		if err != nil {
			return err
		}
		for _, e := range events {
			c.due.add(w.seen(e)...)
		}
	}
}
