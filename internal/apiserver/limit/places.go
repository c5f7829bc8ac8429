package limit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// ErrFull is returned when no place became free in time.
var ErrFull = errors.New("no place became free")

// Places are a bounded number of requests or bytes, shared fairly among users. Each user
// may have at most a share: all of them divided by one more than the users that have or
// want any, so that there is always space for another user. A request that gets none
// waits; waiters whose user has the fewest are served first, and of these who came first. Who is
// next and needs more than is free keeps what becomes free from those after him: otherwise a
// large request would wait for as long as there are small ones.
type Places struct {
	all    int
	wait   time.Duration
	queued int

	// mu guards what follows.
	mu      sync.Mutex
	taken   int
	waiting int
	came    uint64 // how many have waited
	users   map[string]*user
}

type user struct {
	name    string
	taken   int
	waiting []*waiter
}

type waiter struct {
	n       int
	turn    uint64 // lower: it came earlier
	granted chan struct{}
}

// NewPlaces returns all places. At most queued requests of each user wait for
// one, each for at most wait.
func NewPlaces(all int, wait time.Duration, queued int) *Places {
	return &Places{all: all, wait: wait, queued: queued, users: map[string]*user{}}
}

// Take takes n places for a user, and waits for them if necessary. The caller calls
// release, once. Errors: ErrFull, and ctx's cause.
func (p *Places) Take(ctx context.Context, name string, n int) (release func(), err error) {
	p.mu.Lock()
	u := p.users[name]
	if u == nil {
		u = &user{name: name}
		p.users[name] = u
	}
	if len(u.waiting) == 0 && p.fitsLocked(u, n) && p.nextLocked() == nil {
		p.grantLocked(u, n)
		p.mu.Unlock()
		return func() { p.giveBack(u, n) }, nil
	}
	if len(u.waiting) >= p.queued {
		p.forgetLocked(u)
		p.mu.Unlock()
		return nil, ErrFull
	}
	p.came++
	p.waiting++
	w := &waiter{n: n, turn: p.came, granted: make(chan struct{})}
	u.waiting = append(u.waiting, w)
	p.servedLocked() // it may come before those who wait
	p.mu.Unlock()
	late := time.NewTimer(p.wait)
	defer late.Stop()
	select {
	case <-w.granted:
		return func() { p.giveBack(u, n) }, nil
	case <-late.C:
		err = ErrFull
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if !p.leave(u, w) { // it was granted meanwhile
		p.giveBack(u, n)
	}
	return nil, err
}

// fitsLocked reports whether a user may have n more, and they are free. Alone n may be more
// than there are.
func (p *Places) fitsLocked(u *user, n int) bool {
	return p.mayLocked(u, n) && (p.taken == 0 || p.taken+n <= p.all)
}

// mayLocked reports whether a user may have n more when they are free. A user that has none may
// have all free places: n may be more than a share.
func (p *Places) mayLocked(u *user, n int) bool {
	return u.taken == 0 || u.taken+n <= p.all/(len(p.users)+1)
}

func (p *Places) grantLocked(u *user, n int) {
	p.taken += n
	u.taken += n
}

func (p *Places) giveBack(u *user, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken -= n
	u.taken -= n
	p.forgetLocked(u)
	p.servedLocked()
}

// leave removes a waiter, and reports whether it was still waiting.
func (p *Places) leave(u *user, w *waiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.Index(u.waiting, w)
	if at < 0 {
		return false
	}
	u.waiting = slices.Delete(u.waiting, at, at+1)
	p.waiting--
	p.forgetLocked(u)
	p.servedLocked() // later waiters may fit now
	return true
}

func (p *Places) forgetLocked(u *user) {
	if u.taken == 0 && len(u.waiting) == 0 {
		delete(p.users, u.name)
	}
}

// servedLocked gives free places to waiters, the user with the fewest first.
func (p *Places) servedLocked() {
	for {
		next := p.nextLocked()
		if next == nil || !p.fitsLocked(next, next.waiting[0].n) {
			return
		}
		w := next.waiting[0]
		next.waiting = slices.Delete(next.waiting, 0, 1)
		p.waiting--
		p.grantLocked(next, w.n)
		close(w.granted)
	}
}

// nextLocked returns the user whose waiter is to be served next; nil if there is none.
func (p *Places) nextLocked() (next *user) {
	if p.waiting == 0 {
		return nil
	}
	for _, u := range p.users {
		if len(u.waiting) > 0 && (next == nil || u.before(next)) && p.mayLocked(u, u.waiting[0].n) {
			next = u
		}
	}
	return next
}

// before reports whether u is served before v. Both have waiters.
func (u *user) before(v *user) bool {
	if u.taken != v.taken {
		return u.taken < v.taken
	}
	return u.waiting[0].turn < v.waiting[0].turn
}

// Use returns how many places are taken, and how many requests wait for one.
func (p *Places) Use() (taken, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken, p.waiting
}
