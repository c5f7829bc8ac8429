package members

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

var (
	// errGone is why work ends whose leader's key was deleted, or is another's.
	errGone = errors.New("the leader's key in etcd is not this replica's any more")
	// errUnproved is why work ends that may soon not be the leader's any more.
	errUnproved = errors.New("etcd has not answered in time that this replica still leads")
	errSilent   = errors.New("the leader is silent")
)

// Lead runs work whenever this replica is the leader, until ctx ends, which is no error, or work
// returns before its own context ends: then it returns what work returned.
//
// The leader writes its key in etcd every fifth of the TTL. Another replica takes the key only when it
// has seen the same version of it for a whole TTL, by its own clock, and only in that version. So
// nobody can take it before a TTL has passed since a write was sent that etcd has acknowledged, and
// the context of work ends a fifth of the TTL before that: a margin for clocks of different speed, and
// for work to notice. The key has no lease of etcd: its leader may change, and one that comes back
// after a pause has ended leases that its successor had renewed.
//
// Work that does not stop in that margin, or whose process was paused and goes on before it notices,
// runs beside the new leader for a moment; and whoever deletes the key by hand lets two lead for a
// period. That does no harm as long as each write of work is conditional on the version that it has
// read: of two that collect the same garbage, one gets a conflict. Leadership saves work; it protects
// nothing.
//
// Another replica follows at once when ctx ends, when work has returned; and within a TTL when the
// process or its machine dies, or two if etcd changes its own leader meanwhile. Without quorum, and
// while etcd refuses writes for want of space, nobody leads.
func (m *Members) Lead(ctx context.Context, work func(ctx context.Context) error) error {
	value, err := json.Marshal(claim{ID: m.o.Replica.ID, TTL: m.o.TTL, Nonce: rand.Text()})
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		t := &term{m: m, value: string(value)}
		if err := t.begin(ctx); err != nil {
			m.logger.DebugContext(ctx, "the election failed", errAttr(err))
			if !errors.Is(err, errGone) { // then another one leads
				m.pause(ctx)
			}
			continue
		}
		done, err := t.work(ctx, work)
		t.resign(ctx)
		if done {
			return err
		}
	}
	return nil
}

// claim is the value of the leader's key.
type claim struct {
	ID    string        `json:"id"`
	TTL   time.Duration `json:"ttlNanoseconds"` // whoever has not seen another version for so long may take it
	Nonce string        `json:"nonce"`          // of one call of Lead
}

// term is the time from an election to the end of the leadership.
type term struct {
	m     *Members
	value string // of the key while it is ours

	// mu guards what follows.
	mu sync.Mutex
	// until is the time until which nobody else can take the key, less the margin.
	until time.Time
}

// proved records that etcd has acknowledged a write of the key that was sent at that time.
func (t *term) proved(sent time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until = sent.Add(t.m.o.TTL - t.m.period())
}

// left returns for how long nobody else can lead.
func (t *term) left() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Until(t.until)
}

// begin waits until the key can be taken, and takes it. It fails also where another was faster.
func (t *term) begin(ctx context.Context) error {
	held, err := t.awaitVacancy(ctx)
	if err != nil {
		return err
	}
	err = t.write(ctx, clientv3.Compare(clientv3.ModRevision(t.m.leaderKey()), "=", held))
	if err != nil && !errors.Is(err, errGone) {
		t.resign(ctx) // etcd may have written it
	}
	return err
}

// write writes the key on a condition; it proves the leadership.
func (t *term) write(ctx context.Context, condition clientv3.Cmp) error {
	ctx, cancel := context.WithTimeout(ctx, t.m.period())
	defer cancel()
	sent := time.Now()
	resp, err := t.m.client.Txn(ctx).If(condition).Then(clientv3.OpPut(t.m.leaderKey(), t.value)).Commit()
	switch {
	case err != nil:
		return fmt.Errorf("write the leader's key: %w", err)
	case !resp.Succeeded:
		return errGone
	}
	t.proved(sent)
	return nil
}

// sighting is a version of the key.
type sighting struct {
	revision int64     // 0: there is none
	at       time.Time // when it was seen here: not before it was written
	ttl      time.Duration
}

func (t *term) sight(kv *mvccpb.KeyValue) sighting {
	s := sighting{revision: kv.ModRevision, at: time.Now(), ttl: t.m.o.TTL}
	var c claim
	switch err := json.Unmarshal(kv.Value, &c); {
	case string(kv.Value) == t.value:
		s.ttl = 0 // our own: the answer to an earlier attempt was lost
	case err == nil && c.TTL > 0:
		s.ttl = c.TTL
	}
	return s
}

// awaitVacancy waits until nobody has the key, or who has it is silent for its TTL. It returns the
// version that may be replaced; 0: there is none.
func (t *term) awaitVacancy(ctx context.Context) (int64, error) {
	now, err := t.m.read(ctx, t.m.leaderKey())
	if err != nil || len(now.Kvs) == 0 {
		return 0, err
	}
	last := t.sight(now.Kvs[0])
	watch, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(last.ttl, func() { cancel(errSilent) })
	defer timer.Stop()
	err = t.m.follow(watch, t.m.leaderKey(), now.Header.Revision, func(event *clientv3.Event) bool {
		if event.Type == clientv3.EventTypeDelete {
			return false
		}
		last = t.sight(event.Kv)
		timer.Reset(last.ttl)
		return true
	})
	switch {
	case err == nil:
		return 0, nil // it was deleted
	case time.Since(last.at) >= last.ttl: // not so when a version came just as the timer fired
		return last.revision, nil
	default:
		return 0, err
	}
}

// work runs work during the term. done means that it has ended by itself.
func (t *term) work(ctx context.Context, work func(ctx context.Context) error) (done bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	// They are this function's, and end with ctx.
	wg.Go(func() { cancel(t.keep(ctx)) })
	wg.Go(func() { cancel(t.expire(ctx)) })
	t.m.logger.InfoContext(ctx, "this replica leads")
	err = work(ctx)
	cause := context.Cause(ctx)
	cancel(nil)
	wg.Wait()
	if cause == nil {
		return true, err
	}
	t.m.logger.InfoContext(ctx, "this replica does not lead any more", errAttr(cause))
	if err != nil && !errors.Is(err, cause) && !errors.Is(err, context.Canceled) {
		t.m.logger.WarnContext(ctx, "the work of the leader ended with an error", errAttr(err))
	}
	return false, nil
}

// keep writes the key again and again, until ctx ends or the key is not ours any more.
func (t *term) keep(ctx context.Context) error {
	for t.m.pause(ctx) {
		err := t.write(ctx, clientv3.Compare(clientv3.Value(t.m.leaderKey()), "=", t.value))
		if errors.Is(err, errGone) {
			return err
		}
		if err != nil {
			t.m.logger.DebugContext(ctx, "the leadership was not renewed", errAttr(err))
		}
	}
	return context.Cause(ctx)
}

// expire waits until another replica might soon lead, or ctx ends.
func (t *term) expire(ctx context.Context) error {
	for left := t.left(); left > 0; left = t.left() {
		if !wait(ctx, left) {
			return context.Cause(ctx)
		}
	}
	return errUnproved
}

// resign deletes the key if it is ours, so that another replica follows at once.
func (t *term) resign(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.m.period())
	defer cancel()
	key := t.m.leaderKey()
	_, err := t.m.client.Txn(ctx).
		If(clientv3.Compare(clientv3.Value(key), "=", t.value)).
		Then(clientv3.OpDelete(key)).
		Commit()
	if err != nil {
		t.m.logger.DebugContext(ctx, "the leader's key was not deleted", errAttr(err))
	}
}
