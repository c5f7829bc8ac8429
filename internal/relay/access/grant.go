package access

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/auth"
)

// askedAtOnce bounds how many questions about open watches are sent to upstream at the same time.
const askedAtOnce = 16

// Grant is the permission of one open watch. Watches with the same user and attributes share what is
// asked for them.
type Grant struct {
	access *Access
	of     *watched
}

// watched is a question that open watches depend on.
type watched struct {
	question

	user       user.Info
	attributes auth.Attributes
	refused    chan struct{} // closed after err was set
	err        error

	// The mutex of Access guards the rest.
	open    int // grants
	asked   time.Time
	allowed time.Time // the last time that upstream has allowed it
}

// Grant returns the permission of a watch that is opened now, after Decide has allowed it. The caller
// must close it. It is refused only while Run runs.
func (a *Access) Grant(u user.Info, attributes auth.Attributes) (*Grant, error) {
	q, err := a.mode.question(u, attributes)
	if err != nil {
		return nil, err
	}
	asked := time.Now()
	if decided := a.decisions.usable(q.key, asked); decided != nil {
		asked = decided.asked
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.watched[q.key]
	if w == nil {
		w = &watched{question: q, user: u, attributes: attributes, refused: make(chan struct{}), asked: asked, allowed: asked}
		a.watched[q.key] = w
	}
	w.open++
	return &Grant{access: a, of: w}, nil
}

// Refused is closed when upstream does not allow the watch any more, or could not be asked for
// Config.Stale.
func (g *Grant) Refused() <-chan struct{} { return g.of.refused }

// Err returns the refusal after Refused is closed, for the last frame of the watch. Errors: 403; 503
// if upstream could not be asked; in Passthrough 401 when the token does not count any more.
func (g *Grant) Err() error {
	select {
	case <-g.of.refused:
		return g.of.err
	default:
		return nil
	}
}

// Close ends the grant with its watch. It is called once.
func (g *Grant) Close() {
	g.access.mu.Lock()
	defer g.access.mu.Unlock()
	g.of.open--
	if g.of.open == 0 {
		g.access.dropLocked(g.of)
	}
}

func (a *Access) dropLocked(w *watched) {
	if a.watched[w.key] == w {
		delete(a.watched, w.key)
	}
}

// pace is how often a question of open watches is asked.
func (a *Access) pace() time.Duration {
	if a.cfg.Allowed > 0 {
		return a.cfg.Allowed
	}
	return time.Second
}

// Run asks for the permissions of open watches again, each when the decision is older than
// Config.Allowed, and keeps answers in Config.Kept, until ctx ends. It is called once.
func (a *Access) Run(ctx context.Context) error {
	const parts = 10 // of the pace, so that the questions are spread over it
	ticks := time.NewTicker(max(a.pace()/parts, time.Millisecond))
	defer ticks.Stop()
	keeping := time.NewTicker(keepEvery)
	defer keeping.Stop()
	defer a.keep()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-keeping.C:
			a.keep()
		case now := <-ticks.C:
			a.askAgain(ctx, a.due(now))
		}
	}
}

// due returns the questions that are to be asked at a time.
func (a *Access) due(now time.Time) []*watched {
	a.mu.Lock()
	defer a.mu.Unlock()
	var due []*watched
	for _, w := range a.watched {
		if now.Sub(w.asked) >= a.pace() {
			w.asked = now
			due = append(due, w)
		}
	}
	return due
}

// askAgain asks questions, and ends the grants of those that are refused.
func (a *Access) askAgain(ctx context.Context, due []*watched) {
	var g errgroup.Group
	g.SetLimit(askedAtOnce)
	for _, w := range due {
		g.Go(func() error {
			if err := a.refusal(ctx, w); err != nil && ctx.Err() == nil {
				a.mu.Lock()
				a.dropLocked(w)
				a.mu.Unlock()
				w.err = err
				close(w.refused)
			}
			return nil
		})
	}
	_ = g.Wait() // none has an error
}

// refusal returns why the watches of a question must end; nil: they go on.
func (a *Access) refusal(ctx context.Context, w *watched) error {
	got, err := a.decisions.get(ctx, w.key, w.ask)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err == nil && got.value.allowed:
		w.asked, w.allowed = got.asked, got.asked
		return nil
	case err == nil:
		return got.value.decision().Err(w.user, w.attributes)
	case isPassing(err) && time.Since(w.allowed) < a.cfg.Stale: // the memo may have dropped the decision
		return nil
	}
	return unavailable(ctx, "what "+w.user.GetName()+" may still do", err)
}
