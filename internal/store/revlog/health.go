package revlog

import (
	"errors"
	"fmt"
	"log/slog"

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
// *store.PoisonedError, or *store.UnavailableError while the log retries.
func (l *Log) Writable() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.poison != nil {
		return l.poison
	}
	return l.unavailable
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
