package quota

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// Unsettled is how long a charge counts for a write of which nobody knows whether it takes effect: longer than a
// request lasts, and than a store takes to find out.
const Unsettled = time.Minute

// Ledger has, for each quota, what this server has charged for objects that are not stored yet. Who counts the objects
// adds it. It is safe for concurrent use.
//
// The writer of a quota's status holds its turn. A charge is given back only if the ledger has seen each write of the
// quota since: another one, such as kube-controller-manager's, may have counted without the charge.
type Ledger struct {
	// Look is called for a quota that is to be counted again, now or after a time; nil: nobody counts. It must not block.
	Look func(key wire.Key, after time.Duration)

	// mu guards what follows.
	mu      sync.Mutex
	entries map[wire.Key]*entry
	epochs  int64
}

type entry struct {
	turn    chan struct{}
	pending corev1.ResourceList
	unsure  []unsure
	at      kube.ResourceVersion // of the last write that was seen
	epoch   int64                // since which each was seen
}

type unsure struct {
	charge corev1.ResourceList
	until  time.Time
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger { return &Ledger{entries: map[wire.Key]*entry{}} }

func (l *Ledger) entryLocked(key wire.Key) *entry {
	e := l.entries[key]
	if e == nil {
		l.epochs++
		e = &entry{turn: make(chan struct{}, 1), pending: corev1.ResourceList{}, epoch: l.epochs}
		l.entries[key] = e
	}
	return e
}

// Turn blocks until nobody else writes the quota's status, and returns what ends the turn; or ctx's cause.
func (l *Ledger) Turn(ctx context.Context, key wire.Key) (end func(), err error) {
	l.mu.Lock()
	turn := l.entryLocked(key).turn
	l.mu.Unlock()
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Pending returns what is charged for objects that are not stored yet.
func (l *Ledger) Pending(key wire.Key) corev1.ResourceList {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[key]
	if e == nil {
		return nil
	}
	sum, now := Sum(nil, e.pending), time.Now()
	for len(e.unsure) > 0 && now.After(e.unsure[0].until) {
		e.unsure = e.unsure[1:]
	}
	for _, u := range e.unsure {
		Add(sum, u.charge)
	}
	return Nonzero(sum)
}

// Charge adds to what is pending, before it is written.
func (l *Ledger) Charge(key wire.Key, charge corev1.ResourceList) {
	l.mu.Lock()
	defer l.mu.Unlock()
	Add(l.entryLocked(key).pending, charge)
}

// Release ends a charge: its object is stored and visible, or the charge is given back.
func (l *Ledger) Release(key wire.Key, charge corev1.ResourceList) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.entries[key]; e != nil {
		Take(e.pending, charge)
	}
}

// Doubt ends a charge of which nobody knows whether its object will be stored: it counts for Unsettled.
func (l *Ledger) Doubt(key wire.Key, charge corev1.ResourceList) {
	l.mu.Lock()
	if e := l.entries[key]; e != nil {
		Take(e.pending, charge)
		e.unsure = append(e.unsure, unsure{charge, time.Now().Add(Unsettled)})
	}
	l.mu.Unlock()
	l.Recount(key, Unsettled+time.Second)
}

// Recount tells who counts the objects to do so.
func (l *Ledger) Recount(key wire.Key, after time.Duration) {
	if l.Look != nil {
		l.Look(key, after)
	}
}

// Seen reports whether the ledger has seen each write of a quota since an epoch, up to a resourceVersion.
func (l *Ledger) Seen(key wire.Key, epoch int64, at kube.ResourceVersion) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[key]
	return e != nil && e.epoch == epoch && e.at == at
}

// Wrote notes a write of a quota's status, of the turn, and returns its epoch.
func (l *Ledger) Wrote(key wire.Key, from, to kube.ResourceVersion) (epoch int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entryLocked(key)
	if e.at != from {
		l.epochs++
		e.epoch = l.epochs
	}
	e.at = to
	return e.epoch
}

// Forget forgets a quota that is gone.
func (l *Ledger) Forget(key wire.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.entries, key)
}

// At reports whether the last write of a quota that the ledger has seen is this one.
func (l *Ledger) At(key wire.Key, rv kube.ResourceVersion) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[key]
	return e != nil && e.at == rv
}
