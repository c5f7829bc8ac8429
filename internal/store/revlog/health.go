package revlog

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/gapless-io/gapless/internal/store"
)

// A failure is of one of two kinds. If nothing that was written before can be lost,
// writes are unavailable: the log tries again until it succeeds. If a sync failed,
// what was written before may be lost, and a second sync would not say so (the
// kernel marks the pages clean): the log is poisoned until a restart, which reads
// what is there and writes it again.

// setPoison refuses every write from now on.
func (l *Log) setPoison(cause error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.poison == nil {
		l.poison = &store.PoisonedError{Cause: cause}
		l.logger.Error("the disk may have lost data: writes are refused until a restart", slog.Any("error", cause))
	}
	return l.poison
}

// setUnavailable notes that writes are refused for now, and returns their error. It
// does not replace poison. The sequencer calls it.
func (l *Log) setUnavailable(cause error) error {
	if poisoned, ok := errors.AsType[*store.PoisonedError](cause); ok {
		return poisoned
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.poison != nil {
		return l.poison
	}
	if l.unavailable == nil {
		l.logger.Warn("writes are refused until the cause is gone", slog.Any("error", cause))
	}
	l.unavailable, l.retrying = &store.UnavailableError{Cause: cause}, true
	return l.unavailable
}

// setAvailable notes that writes are accepted again. The sequencer calls it.
func (l *Log) setAvailable() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unavailable != nil {
		l.logger.Info("writes are taken again")
	}
	l.unavailable, l.retrying = nil, false
}

// maintenanceFailed notes a failure of maintenance, which will be retried.
func (l *Log) maintenanceFailed(what string, err error) {
	l.mu.Lock()
	l.maintenanceFailures++
	l.mu.Unlock()
	l.logger.Warn("maintenance failed and will be retried", slog.String("work", what), slog.Any("error", err))
}

// Durable returns nil as long as no acknowledged write can be lost, and
// *store.PoisonedError after that: every write is refused until a restart.
func (l *Log) Durable() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.poison
}

// Writable returns nil if a write would be accepted now, otherwise the reason:
// *store.PoisonedError, or *store.UnavailableError while the log retries, or while the disk
// has not answered for some seconds.
func (l *Log) Writable() error {
	l.mu.Lock()
	poison, unavailable, moved := l.poison, l.unavailable, l.moved
	l.mu.Unlock()
	switch {
	case poison != nil:
		return poison
	case unavailable != nil:
		return unavailable
	case moved != nil: // no write has met it yet
		return &store.UnavailableError{Cause: moved}
	}
	if waits := l.stalled(); waits >= stallAfter {
		return &store.UnavailableError{
			Cause: fmt.Errorf("the disk has not answered for %v: writes wait for it", waits.Round(100*time.Millisecond)),
		}
	}
	return nil
}

// stallAfter is how long the disk may take for what the sequencer does at once before the log
// counts as not writable: a write of a few MiB and its sync, or a new segment. kube-apiserver
// reports that etcd hangs after 2 s (storagebackend.DefaultReadinessTimeout).
const stallAfter = 3 * time.Second

// begin notes that the sequencer begins to do something.
func (l *Log) begin() { l.busy.Store(max(1, int64(time.Since(l.opened)))) }

// stalled returns for how long the sequencer, or syncWritten, has been doing what it does now.
func (l *Log) stalled() time.Duration {
	var longest time.Duration
	for _, began := range []int64{l.busy.Load(), l.syncing.Load()} {
		if began != 0 {
			longest = max(longest, time.Since(l.opened)-time.Duration(began))
		}
	}
	return longest
}

// usable returns why no write may be tried: *store.PoisonedError, or that the directory has
// been moved.
func (l *Log) usable() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.poison != nil {
		return l.poison
	}
	return l.moved
}

// checkPlace notes whether the directory is still in its place. Writes to one that is not would
// be lost for whoever starts a server on its path: they are refused while that lasts.
func (l *Log) checkPlace() {
	err := l.lock.Check()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil && l.moved == nil {
		l.logger.Error("writes are refused until the data directory is back in its place", slog.Any("error", err))
	}
	l.moved = err
}

// syncDir syncs the directory. If it fails, it is unknown which of the changes since
// the last sync, of all goroutines, are on disk: that is poison, and it is set
// before another sync can succeed.
func (l *Log) syncDir() error {
	l.dirTurn <- struct{}{}
	defer func() { <-l.dirTurn }()
	if err := l.Durable(); err != nil {
		return err
	}
	if err := l.fs.Dir().Sync(); err != nil {
		return l.setPoison(fmt.Errorf("sync the log's directory: %w", err))
	}
	return nil
}
