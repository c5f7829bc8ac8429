package etcd

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gapless-io/gapless/internal/store"
)

const (
	// staleAfter is from which age on the replica counts as not connected, and the watch is opened again: five
	// unanswered questions.
	staleAfter = 5 * proveEvery
	// refusedFor is how long a write that was refused for a cause that lasts makes the replica count as not writable,
	// unless one succeeds.
	refusedFor = 30 * time.Second
)

// health is what the replica knows of its connection to etcd.
type health struct {
	mu      sync.Mutex
	proof   time.Time // when the watch was answered last, while the replica had caught up
	failure error     // of the last session; nil while one lasts that has caught up
	target  int64     // etcd's revision when the session began
	fresh   time.Time // what the replica shows is not older; zero: not known yet
	pending sentRead  // the first read since then whose revision is not shown yet
	refused error     // of the last write, if its cause lasts
	since   time.Time // when it was refused
}

// sentRead is a linearizable read of etcd's revision: once the replica shows that, it shows all that was written before
// the read was sent.
type sentRead struct {
	sent time.Time
	rev  int64 // 0: none
}

func (h *health) begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.proof, h.failure = time.Now(), errNotYet
}

var errNotYet = errors.New("the replica has not reached etcd yet")

// reaches notes where a session begins.
func (h *health) reaches(target int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.target, h.failure = target, errCatchingUp
}

var errCatchingUp = errors.New("etcd answers, but what was written while the replica was away is not recorded yet")

// proved notes that etcd has answered a replica that has come up to a revision.
func (h *health) proved(rev int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if rev >= h.target {
		h.proof, h.failure = time.Now(), nil
	}
	if h.pending.rev > 0 && rev >= h.pending.rev {
		h.fresh, h.pending = h.pending.sent, sentRead{}
	}
}

// read notes a read that was answered, while the replica shows a revision.
func (h *health) read(r sentRead, shown int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case shown >= r.rev:
		h.fresh, h.pending = r.sent, sentRead{}
	case h.pending.rev == 0:
		h.pending = r
	}
}

// prove notes that etcd has answered.
func (s *Store) prove() {
	at, _ := s.seen()
	s.health.proved(at.rev)
}

func (h *health) failed(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failure = err
}

// wrote notes what came of a write: why it was refused; nil: it was taken.
func (h *health) wrote(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refused, h.since = err, time.Now()
}

// noteRefused notes for Writable that etcd has refused a write, if the cause lasts.
func (s *Store) noteRefused(cause, refused error) {
	if lasts(cause) {
		s.health.wrote(refused)
	}
}

// Age returns a time within which the replica has shown all that etcd had: what it shows is not older. It is the age of
// a linearizable read, of which there is one every few seconds while the replica has caught up; of Open before the first.
func (s *Store) Age() time.Duration {
	h := &s.health
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fresh.IsZero() {
		return time.Since(h.proof)
	}
	return time.Since(h.fresh)
}

// Connected returns nil while the replica follows etcd, otherwise what keeps it from that. It heals by itself,
// besides *HistoryError.
func (s *Store) Connected() error {
	h := &s.health
	h.mu.Lock()
	defer h.mu.Unlock()
	age := time.Since(h.proof)
	switch {
	case h.failure != nil:
		return fmt.Errorf("the replica does not follow etcd, and shows what there was %v ago: %w",
			age.Round(time.Millisecond), h.failure)
	case age > staleAfter:
		return fmt.Errorf("etcd has not answered the replica for %v", age.Round(time.Millisecond))
	}
	return nil
}

// Writable returns nil if an etcd that answers would take a write as far as is known, otherwise the reason: that of the
// last write, for half a minute, if etcd has refused it for a cause that lasts; or of the replica's log. Whether etcd
// answers is known from Progress and Connected at once: a write without an answer says nothing of the next one.
func (s *Store) Writable() error {
	if err := s.log.Writable(); err != nil {
		return err
	}
	h := &s.health
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refused != nil && time.Since(h.since) < refusedFor {
		return h.refused
	}
	return nil
}

// Durable returns nil as long as the replica's log has lost nothing, otherwise *store.PoisonedError.
func (s *Store) Durable() error { return s.log.Durable() }

// Ready returns nil once there is a state to be read.
func (s *Store) Ready() error {
	if at, _ := s.seen(); at.rev == 0 {
		return &store.UnavailableError{Reading: true, Cause: errNoState}
	}
	return nil
}

var errNoState = errors.New("the replica has not read the state of etcd yet")
