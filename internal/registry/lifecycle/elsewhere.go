package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/internal/wire"
)

// Elsewhere is other servers that have objects in namespaces: aggregated API servers.
type Elsewhere interface {
	// MayHaveContent reports whether there may be such servers. It does not block.
	MayHaveContent() bool
	// DeleteContent deletes what they have in a namespace, and returns what is left. It may wait for them, and ends with ctx.
	DeleteContent(ctx context.Context, namespace string) wire.Content
}

// problem returns what keeps a namespace besides what is left in it; nil is nothing.
func problem(c *wire.Content) error {
	return errors.Join(append(slices.Clone(c.Failed), c.Undiscovered)...)
}

// clean reports whether nothing keeps the namespace.
func clean(c *wire.Content) bool { return problem(c) == nil && len(c.Objects) == 0 }

// How soon other servers are asked about a namespace again: after an answer, if there was an error, and if finalizers hold
// something (half of what kubernetes pkg/controller/namespace/deletion expects of them).
const (
	askAgain  = time.Second
	askLater  = 8 * time.Second
	askFailed = time.Minute // at most: it doubles from askAgain
)

// elsewhere asks other servers about namespaces under deletion, each in a goroutine, so that a server that hangs keeps
// only what it may have objects in.
type elsewhere struct {
	of Elsewhere // nil: there are none

	running sync.WaitGroup
	// mu guards all, by name. A namespace leaves it when it is gone.
	mu  sync.Mutex
	all map[string]*asking
}

// asking is one namespace.
type asking struct {
	uid     types.UID
	running bool          // the servers are asked, or it is too early to ask them again
	last    *wire.Content // nil: no answer yet
	old     bool          // last may not count any more
	failed  int           // how often in a row
}

// any reports whether there are other servers.
func (e *elsewhere) any() bool { return e.of != nil && e.of.MayHaveContent() }

// content returns what other servers have last said of a namespace, nil: nothing yet. It has them asked again if it is
// time to, and if that may change something: they had something, or the namespace waits for nothing else. They wake the
// controller then. The content is of now if fresh, so that the namespace may go without any.
func (e *elsewhere) content(ctx context.Context, in container, alone bool, c *Controller) (last *wire.Content, fresh bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	a := e.all[in.Name]
	if a == nil || a.uid != in.uid {
		a = &asking{uid: in.uid}
		if e.all == nil {
			e.all = map[string]*asking{}
		}
		e.all[in.Name] = a
	}
	if !a.running && (alone || a.last == nil || !clean(a.last)) {
		a.running = true
		e.running.Go(func() { e.ask(ctx, in.Name, a, c) }) // it is Controller.Run's, and ends with ctx
	}
	return a.last, a.last != nil && !a.old
}

// ask asks the servers once, and returns when they may be asked again.
func (e *elsewhere) ask(ctx context.Context, namespace string, a *asking, c *Controller) {
	defer c.Wake()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		a.running, a.old = false, true
	}()
	got := e.of.DeleteContent(ctx, namespace)
	if ctx.Err() != nil {
		return
	}
	if err := problem(&got); err != nil {
		c.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "delete what other servers have in a namespace",
			slog.String("namespace", namespace), slog.Any("err", err))
	}
	again := e.note(a, &got)
	c.Wake()
	select {
	case <-time.After(again):
	case <-ctx.Done():
	}
}

// note takes an answer, and returns after which time the servers may be asked again.
func (e *elsewhere) note(a *asking, got *wire.Content) (again time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	a.last, a.old = got, false
	if problem(got) != nil {
		a.failed++
		return min(askAgain<<min(a.failed-1, 10), askFailed) //nolint:mnd // more is more than askFailed
	}
	a.failed = 0
	if len(got.Objects) > 0 {
		return askLater
	}
	return askAgain
}

// keep forgets the namespaces for which is returns false.
func (e *elsewhere) keep(is func(name string) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for name := range e.all {
		if !is(name) {
			delete(e.all, name)
		}
	}
}

// addElsewhere adds what other servers have in a namespace, and returns for how much of it the namespace stays. known says
// that this is of now. Alone says that the namespace waits for nothing else.
func (c *Controller) addElsewhere(ctx context.Context, t container, alone bool, to *remaining) (left int, known bool) {
	content, known := c.elsewhere.content(ctx, t, alone, c)
	if content == nil {
		return 0, false
	}
	for gr, n := range content.Objects {
		to.objects[gr] += n
		left += n
	}
	for finalizer, n := range content.Finalizers {
		to.finalizers[finalizer] += n
	}
	for _, err := range content.Failed {
		to.errors = append(to.errors, err.Error())
	}
	to.undiscovered = content.Undiscovered
	if problem(content) != nil {
		left++
	}
	return left, known
}
