package revlog

import (
	"context"
	"log/slog"
	"time"
)

const (
	// minHistory is kept whatever HistoryBytes says, until twice of it is used.
	// 5 min: what kube-apiserver keeps in etcd (its compaction interval).
	minHistory = 5 * time.Minute
	// tendEvery is the longest time between two looks at the history's age.
	tendEvery = time.Minute
)

// keepHistory forgets what is too old or too much, until ctx ends.
func (l *Log) keepHistory(ctx context.Context) {
	if l.opts.History == 0 && l.opts.HistoryBytes == 0 {
		return
	}
	every := tendEvery
	if l.opts.History > 0 {
		every = max(100*time.Millisecond, min(every, l.opts.History/4))
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-l.rolled:
		}
		if err := l.tend(ctx); err != nil && ctx.Err() == nil {
			l.logger.WarnContext(ctx, "forget old history", slog.Any("error", err))
		}
	}
}

// tend forgets once what Options.History and Options.HistoryBytes say.
func (l *Log) tend(ctx context.Context) error {
	release, err := l.takeCompaction(ctx)
	if err != nil {
		return err
	}
	defer release()
	if l.opts.History > 0 {
		l.mu.Lock()
		upTo := l.index.revisionAt(time.Now().Add(-l.opts.History).UnixMilli())
		l.mu.Unlock()
		if _, err := l.forget(upTo, reasonAge); err != nil {
			return err
		}
	}
	for l.opts.HistoryBytes > 0 && ctx.Err() == nil {
		upTo := l.overBudget()
		if upTo == 0 {
			break
		}
		if _, err := l.forget(upTo, reasonBytes); err != nil {
			return err
		}
	}
	return l.merge(ctx)
}

// overBudget returns the last revision of the oldest segment that has history
// left, if more bytes are retained than HistoryBytes; otherwise 0. The segment
// that is written, and the last five minutes unless the budget is exceeded
// twice, are left alone.
func (l *Log) overBudget() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var retained, oldest int64
	for _, s := range l.segments.ordered {
		retained += s.live
		if oldest == 0 && s.sealed && s.last > l.compacted.Revision {
			oldest = s.last
		}
	}
	if retained <= l.opts.HistoryBytes {
		return 0
	}
	if retained <= 2*l.opts.HistoryBytes && oldest > l.index.revisionAt(time.Now().Add(-minHistory).UnixMilli()) {
		return 0
	}
	return oldest
}
