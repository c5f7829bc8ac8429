package bootstrap

import (
	"context"
	"errors"
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

// watched returns all watches. That of the namespaces comes after those of what is in them: each
// namespace is checked when a deletion in it would be seen.
func (c *Controller) watched() []watched {
	var all []watched
	for _, object := range c.own() {
		all = append(all, watched{
			target: c.target(object.resource, object.namespace), name: object.name,
			seen: func(wire.WatchEvent) []task { return []task{{ownObject, object.name}} },
		})
	}
	all = append(all, c.watchedFlows()...)
	if c.ca == nil {
		return all
	}
	fill := func(e wire.WatchEvent) []task {
		if e.Object == nil {
			return nil
		}
		return []task{{namespace, e.Object.Key().Namespace}}
	}
	return append(all,
		watched{target: c.target(core("configmaps"), ""), name: rootCA, seen: fill},
		watched{target: c.target(core("serviceaccounts"), ""), name: defaultAccount, seen: fill},
		watched{target: c.target(namespaces(), ""), seen: func(e wire.WatchEvent) []task {
			if e.Object == nil {
				return []task{{namespace, corev1.NamespaceNodeLease}} // if it is missing there is no event of it
			}
			return []task{{namespace, e.Object.Key().Name}}
		}},
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
		c.logger.LogAttrs(ctx, slog.LevelWarn, "watch again what the server maintains", slog.Any("err", err))
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
	var failed error
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, w := range c.watched() {
		if w.target.Resource == nil {
			continue // a catalog without it: a test's
		}
		stream, err := c.open(ctx, w)
		if err != nil {
			failed = errors.Join(failed, err)
			continue // an object that cannot be read concerns its resource only
		}
		// They are followOnce's, and end with ctx or the first error.
		wg.Go(func() {
			defer stream.Close()
			cancel(c.read(ctx, stream, w.seen))
		})
	}
	if failed != nil {
		select {
		case <-time.After(reopenAfter):
			cancel(failed)
		case <-ctx.Done():
		}
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// reopenAfter is for how long some watches go on alone when others could not be opened.
const reopenAfter = 10 * time.Second

func (c *Controller) open(ctx context.Context, w watched) (wire.Watch, error) {
	o := wire.ListOptions{Labels: labels.Everything(), Fields: fields.Everything(), Watch: true}
	if w.name != "" {
		o.Fields = fields.OneTermEqualSelector("metadata.name", w.name)
	}
	return c.verbs.Watch(ctx, w.target, o)
}

// read adds the tasks for the events of a watch until it fails.
func (c *Controller) read(ctx context.Context, stream wire.Watch, seen func(wire.WatchEvent) []task) error {
	for {
		events, err := stream.Next(ctx)
		if err != nil {
			return err
		}
		for _, e := range events {
			c.due.add(seen(e)...)
		}
	}
}
