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
	countsFor = 30 * time.Second // an answer for a namespace that waited for nothing else, if there was nothing left
	askLater  = 8 * time.Second
	askFailed = time.Minute // at most: it doubles from askAgain
)

// elsewhere asks other servers about namespaces under deletion, each in a goroutine, so that a server that hangs keeps
// only what it may have objects in.
type elsewhere struct {
	of Elsewhere // nil: there are none

	running sync.WaitGroup
	// mu guards all, by name. A namespace leaves it when it is gone.
	mu     sync.Mutex
	all    map[string]*asking
	waking bool // the controller will be woken
}

// asking is one namespace.
type asking struct {
	uid     types.UID
	running bool          // the servers are asked, or it is too early to ask them again
	last    *wire.Content // nil: no answer yet
	old     bool          // last may not count any more
	alone   bool          // the namespace waited for nothing else when last was asked for,
	at      time.Time     // and when that was
	failed  int           // how often in a row
}

// counts reports whether the last answer is of now. One that there is nothing, when there was nothing here either, counts
// for longer: looking at many namespaces takes time, and none would ever go if answers were old by the next look.
func (a *asking) counts() bool {
	return a.last != nil && (!a.old || a.alone && clean(a.last) && time.Since(a.at) < countsFor)
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
	fresh = a.counts()
	if !fresh && !a.running && (alone || a.last == nil || !clean(a.last)) {
		a.running = true
		asked := asking{alone: alone, at: time.Now()}
		e.running.Go(func() { e.ask(ctx, in.Name, a, asked, c) }) // it is Controller.Run's, and ends with ctx
	}
	return a.last, fresh
}

// ask asks the servers once, and returns when they may be asked again. asked says when, and whether alone.
func (e *elsewhere) ask(ctx context.Context, namespace string, a *asking, asked asking, c *Controller) {
	defer e.wakeSoon(c)
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
	again := e.note(a, asked, &got)
	if clean(&got) {
		c.Wake() // the namespace may go
	} else {
		e.wakeSoon(c)
	}
	select {
	case <-time.After(again):
	case <-ctx.Done():
	}
}

// wakeSoon wakes the controller in a while. It looks at all namespaces then, so that it is not woken for each that a server
// which does not answer keeps.
func (e *elsewhere) wakeSoon(c *Controller) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waking {
		return
	}
	e.waking = true
	time.AfterFunc(askAgain, func() {
		e.mu.Lock()
		e.waking = false
		e.mu.Unlock()
		c.Wake()
	})
}

// note takes an answer, and returns after which time the servers may be asked again.
func (e *elsewhere) note(a *asking, asked asking, got *wire.Content) (again time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	a.last, a.old, a.alone, a.at = got, false, asked.alone, asked.at
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
