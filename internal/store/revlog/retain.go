package revlog

import (
	"context"
	"slices"
	"time"

	"github.com/gapless-io/gapless/internal/store/revlog/index"
)

const (
	// minHistory is kept whatever HistoryBytes says, until twice of it is used.
	// 5 min: what kube-apiserver keeps in etcd (its compaction interval).
	minHistory = 5 * time.Minute
	// tendEvery is the longest time between two looks at the history's age.
	tendEvery = time.Minute
	// clockTolerance is how far the wall clock may go back before its new time is
	// used: until then the times of writes stand still. A clock is slewed or stepped
	// by less than that in normal operation.
	clockTolerance = 5 * time.Second
)

// keepHistory compacts what is too old or too much, until ctx ends. opened is the
// revision at which Run began.
func (l *Log) keepHistory(ctx context.Context, opened int64) {
	if l.opts.History == 0 && l.opts.HistoryBytes == 0 {
		return
	}
	every := tendEvery
	if l.opts.History > 0 {
		every = max(100*time.Millisecond, min(every, l.opts.History/4))
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	since := newAges(opened, l.opts.History)
	for {
		l.noteGrowth()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-l.rolled:
		}
		// Both rounds do the same: which comes first of two that are due is chance, and
		// a simulated history is to be played again.
		if l.opts.History > 0 { // otherwise nobody asks for ages, and they would only grow
			since.note(l.head())
		}
		if err := l.tend(ctx, since); err != nil && ctx.Err() == nil {
			l.maintenanceFailed("compact old history", err)
		}
	}
}

func (l *Log) noteGrowth() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.growth.note()
}

// head is the latest durable revision.
func (l *Log) head() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.durable
}

// tend compacts once what Options.History and Options.HistoryBytes say.
func (l *Log) tend(ctx context.Context, since *ages) error {
	release, err := l.takeCompaction(ctx)
	if err != nil {
		return err
	}
	defer release()
	if l.opts.History > 0 {
		l.mu.Lock()
		upTo := l.revisionAtLocked(time.Now().Add(-l.opts.History).UnixMilli())
		l.mu.Unlock()
		if _, err := l.compact(target{upTo: min(upTo, since.expired()), reason: reasonAge}); err != nil {
			return err
		}
	}
	for l.opts.HistoryBytes > 0 && ctx.Err() == nil {
		upTo := l.overBudget()
		if upTo == 0 {
			break
		}
		done, err := l.compact(target{upTo: upTo, reason: reasonBytes})
		if err != nil {
			return err
		}
		if done < upTo {
			break // a feed holds the rest
		}
	}
	return l.merge(ctx, usualDead)
}

// historyLocked returns the bytes of the retained versions that are not the newest
// of a live key.
func (l *Log) historyLocked() int64 {
	history := -l.index.LiveBytes
	for _, s := range l.listed {
		history += s.live
	}
	return history
}

// overBudget returns up to where the oldest segments are to be compacted because
// more bytes of history are kept than HistoryBytes; otherwise 0. The segment that
// is written, and the last five minutes unless the budget is exceeded twice, are
// left alone.
func (l *Log) overBudget() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	history := l.historyLocked()
	young := l.revisionAtLocked(time.Now().Add(-minHistory).UnixMilli())
	var upTo int64
	for _, s := range l.listed {
		if history <= l.opts.HistoryBytes || !s.sealed {
			break
		}
		if s.last <= l.compacted.Revision {
			continue
		}
		if s.last > young && history <= 2*l.opts.HistoryBytes {
			break
		}
		upTo = s.last
		history -= s.frees
	}
	return upTo
}

// revisionAtLocked returns the latest retained revision committed at or before
// millis of the wall clock, 0 if there is none that is not compacted. Times do not
// decrease between two setbacks of the clock; what was written after one tells that
// what was written before it is not younger.
func (l *Log) revisionAtLocked(millis int64) int64 {
	last := l.current
	for _, first := range slices.Backward(l.setbacks) {
		if found := l.index.LatestBefore(millis, first, last); found > 0 {
			return found
		}
		last = first - 1
	}
	return l.index.LatestBefore(millis, l.compacted.Revision, last)
}

// committedByLocked returns the latest revision of one resource that was committed at or before a time, or one before
// its first: its state is the same at all between two of its own. Errors: *store.CompactedError.
func (l *Log) committedByLocked(s index.Span, at time.Time) (int64, error) {
	resource := l.index.Resources[s.Single()]
	if resource == nil {
		resource = &index.Resource{Floor: l.index.Rest}
	}
	found, last := int64(0), l.current
	for _, first := range slices.Backward(l.setbacks) {
		if found = l.index.LatestOf(resource, at.UnixMilli(), first, last); found > 0 {
			break
		}
		last = first - 1
	}
	if found == 0 {
		found = l.index.LatestOf(resource, at.UnixMilli(), 0, last)
	}
	switch floor := resource.Floor; {
	case found > 0 && found >= floor.Revision:
		return found, nil
	case floor.Revision > 0 && (floor.Millis == 0 || at.UnixMilli() < floor.Millis):
		return 0, l.index.Check(s, floor.Revision-1)
	case floor.Revision > 0:
		return floor.Revision, nil
	case len(resource.Changes) > 0:
		return max(resource.Changes[0].Revision-1, 1), nil
	}
	return max(l.current, 1), nil
}

// noteTime compares the time of a write with that of the one before it. A setback in what is
// compacted is of no interest: nobody asks when that was written, and a log that was made of
// another store's objects may have one at each of them.
func (l *Log) noteTime(revision, millis int64) {
	if millis < l.lastMillis && revision > l.compacted.Revision {
		l.setbacks = append(l.setbacks, revision)
	}
	l.lastMillis = millis
}

// forgetSetbacksLocked drops those of what is compacted now.
func (l *Log) forgetSetbacksLocked() {
	n, _ := slices.BinarySearch(l.setbacks, l.compacted.Revision+1)
	l.setbacks = slices.Delete(l.setbacks, 0, n)
}
