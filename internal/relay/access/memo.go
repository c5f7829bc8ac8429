package access

import (
	"container/list"
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/gapless-io/gapless/kube"
)

const (
	// AskWithin is how long an answer of upstream may take, which may ask webhooks itself; and all of those together that
	// one request needs.
	AskWithin = 10 * time.Second
	// askAgainWithin is how long it may take where a former answer can be used instead.
	askAgainWithin = 2 * time.Second
)

// key is the hash of all that a question depends on.
type key [sha256.Size]byte

// answer is what upstream has said.
type answer[V any] struct {
	value V
	// fresh is how long it is used without asking again.
	fresh time.Duration
	// end is when it must not be used any more; zero: that is not known.
	end time.Time
	// forget says that it is not kept, and that neither is the answer before it.
	forget bool
}

// known is an answer in a memo.
type known[V any] struct {
	answer[V]

	key   key
	asked time.Time // before upstream decided
	until time.Time // it is used without asking until then
}

// asking is a question that was sent to upstream, with one caller who waits for it and others who
// wait for that caller.
type asking[V any] struct {
	done chan struct{} // closed at the end, after the rest was set
	// left is set if the caller has left before the answer came: somebody else must ask.
	left  bool
	value known[V]
	err   error
}

// memo keeps answers of upstream. A question that is being asked is not asked twice.
type memo[V any] struct {
	// stale is how long an answer is used when upstream cannot be reached, and retry how long it
	// is used before upstream is asked again.
	stale, retry time.Duration
	most         int // answers
	count        func(from source)

	// mu guards the rest.
	mu     sync.Mutex
	found  map[key]*list.Element // of *known[V]
	order  *list.List            // the last used first
	asking map[key]*asking[V]
}

func newMemo[V any](most int, cfg Config, count func(from source)) *memo[V] {
	return &memo[V]{
		stale: cfg.Stale, retry: max(cfg.Allowed, time.Second), most: most, count: count,
		found: map[key]*list.Element{}, order: list.New(), asking: map[key]*asking[V]{},
	}
}

// get returns the answer to a question: the kept one, that which somebody else waits for, or what ask
// returns. If upstream cannot be reached, it is the former answer, or the error of ask; also if it does not answer before the
// deadline of ctx, whose cause is the error then.
func (m *memo[V]) get(ctx context.Context, k key, ask func(context.Context) (answer[V], error)) (known[V], error) {
	for {
		m.mu.Lock()
		former := m.lookLocked(k)
		if former != nil && time.Now().Before(former.until) {
			value := *former
			m.mu.Unlock()
			m.count(fromFresh)
			return value, nil
		}
		other := m.asking[k]
		if other == nil && ctx.Err() == nil {
			mine := &asking[V]{done: make(chan struct{})}
			m.asking[k] = mine
			m.mu.Unlock()
			return m.ask(ctx, mine, k, ask)
		}
		m.mu.Unlock()
		if other == nil {
			return m.unanswered(ctx, k)
		}
		select {
		case <-ctx.Done():
			return m.unanswered(ctx, k)
		case <-other.done:
		}
		if !other.left {
			m.count(fromShared)
			return other.value, other.err
		}
	}
}

// ask asks upstream for this caller and for those who wait for him.
func (m *memo[V]) ask(ctx context.Context, mine *asking[V], k key,
	ask func(context.Context) (answer[V], error),
) (known[V], error) {
	mine.left = true // also after a panic
	defer func() {
		m.mu.Lock()
		delete(m.asking, k)
		m.mu.Unlock()
		close(mine.done)
	}()
	began := time.Now()
	within := AskWithin
	if m.usable(k, began) != nil {
		within = askAgainWithin
	}
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	got, err := ask(limited)
	if kube.Classify(err) == kube.OutcomeDisconnected && limited.Err() == nil {
		got, err = ask(limited) // to ask changes nothing, also if it has arrived
	}
	if err != nil && ctx.Err() != nil {
		return m.unanswered(ctx, k)
	}
	mine.left = false
	switch {
	case err == nil:
		mine.value = m.keep(k, got, began)
	case !isPassing(err):
		m.forget(k)
		mine.err = err
	default:
		former := m.usable(k, time.Now())
		if former == nil {
			mine.err = err
			break
		}
		mine.value = m.useAgain(*former)
		m.count(fromStale)
	}
	return mine.value, mine.err
}

// unanswered returns what a caller gets whose context has ended: the former answer if that was by a deadline, up to which
// upstream has answered nothing, and otherwise the cause.
func (m *memo[V]) unanswered(ctx context.Context, k key) (known[V], error) {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		if former := m.usable(k, time.Now()); former != nil {
			m.count(fromStale)
			return m.useAgain(*former), nil
		}
	}
	return known[V]{}, context.Cause(ctx)
}

// isPassing reports whether an error says that upstream cannot be reached or cannot answer now. Other
// errors are refusals: of the relay, or of the question.
func isPassing(err error) bool {
	switch kube.Classify(err) {
	case kube.OutcomeUnauthorized, kube.OutcomeForbidden, kube.OutcomeNotFound, kube.OutcomeConflict,
		kube.OutcomeInvalid, kube.OutcomeExpired, kube.OutcomeOK:
		return false
	case kube.OutcomeUnknown, kube.OutcomeTooLarge, kube.OutcomeTooManyRequests, kube.OutcomeRefused, kube.OutcomeTimeout,
		kube.OutcomeDisconnected, kube.OutcomeServerError, kube.OutcomeDecode, kube.OutcomeCanceled:
	}
	return true
}

// lookLocked returns a kept answer, as the last used one; nil is none.
func (m *memo[V]) lookLocked(k key) *known[V] {
	element := m.found[k]
	if element == nil {
		return nil
	}
	m.order.MoveToFront(element)
	v, _ := element.Value.(*known[V]) // nothing else is there
	return v
}

// usable returns the former answer if it may be used when upstream cannot be reached; nil is none.
func (m *memo[V]) usable(k key, now time.Time) *known[V] {
	m.mu.Lock()
	defer m.mu.Unlock()
	former := m.lookLocked(k)
	if former == nil || !now.Before(former.last(m.stale)) {
		return nil
	}
	out := *former
	return &out
}

// last is when an answer is used last.
func (v *known[V]) last(stale time.Duration) time.Time {
	last := v.asked.Add(stale)
	if !v.end.IsZero() && v.end.Before(last) {
		return v.end
	}
	return last
}

// keep keeps an answer, in the place of the longest unused one if there are too many.
func (m *memo[V]) keep(k key, got answer[V], asked time.Time) known[V] {
	v := &known[V]{answer: got, key: k, asked: asked, until: asked.Add(got.fresh)}
	if !got.end.IsZero() && got.end.Before(v.until) {
		v.until = got.end
	}
	if got.forget {
		m.forget(k)
		return *v
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if element := m.found[k]; element != nil {
		m.order.Remove(element)
	}
	m.found[k] = m.order.PushFront(v)
	if m.order.Len() > m.most {
		m.dropLocked(m.order.Back())
	}
	return *v
}

// useAgain lets a former answer be used for a while before upstream is asked again.
func (m *memo[V]) useAgain(former known[V]) known[V] {
	former.until = time.Now().Add(m.retry)
	if last := former.last(m.stale); last.Before(former.until) {
		former.until = last
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if current := m.lookLocked(former.key); current != nil {
		current.until = former.until
	}
	return former
}

func (m *memo[V]) forget(k key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if element := m.found[k]; element != nil {
		m.dropLocked(element)
	}
}

func (m *memo[V]) dropLocked(element *list.Element) {
	v, _ := m.order.Remove(element).(*known[V])
	delete(m.found, v.key)
}
