// Package expiry deletes Events some time after their last write. It does in the embedded log
// what etcd does for kube-apiserver, which attaches a lease to each Event it writes (kubernetes
// pkg/registry/core/event/storage; the leases are those of apiserver pkg/storage/etcd3).
//
// An [Expirer] looks through the Events from time to time, for those that have expired by their
// ages. It holds no timer and no memory for an Event: the store says when each was written.
//
// As upstream the deletions are those of the store, not of the API: nobody is asked, there is no
// audit event, and finalizers do not count. Watches see DELETED with the last content. Each
// deletion has a condition, so that an Event that is written meanwhile stays.
//
// Unlike upstream each deletion has a revision of its own, and an Event expires also when its last
// write was a deletion that a finalizer holds: upstream that write has no lease (generic registry,
// updateForGracefulDeletionAndFinalizers), so that such an Event stays for ever.
package expiry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/kube"
)

// prefix is how the keys of Events begin. Those of events.k8s.io are the same objects.
const prefix = "events/"

// Every batchEvery at most batch deletions begin, which share a sync of the store. That is 2 000
// a second: more than Events are written for long, as there would be 7 million of an hour. Clients
// keep their share when there are many to delete: their writes wait behind one batch at most.
const (
	batch      = 16
	batchEvery = 8 * time.Millisecond
)

// pageSize is how many Events are read at once. Their values are not read.
const pageSize = 1024

// The least and the most time to the next attempt after an error: each doubles it.
const (
	minRetry = time.Second
	maxRetry = time.Minute
)

// Config configures an Expirer. All members are required.
type Config struct {
	Store store.Store
	// WaitPublished blocks until every reader sees everything up to a resourceVersion, or returns
	// ctx's cause.
	WaitPublished func(ctx context.Context, rv kube.ResourceVersion) error
	// TTL is how long an Event stays after its last write.
	TTL    time.Duration
	Logger *slog.Logger
}

// Expirer deletes Events that have expired.
type Expirer struct {
	cfg  Config
	tick time.Duration // between two marks of the ages, and at least between two looks

	// Of the goroutine of Run.
	ages   ages
	marked time.Time // when the last mark was made
	begun  time.Time // when the last batch of deletions began

	deleted, failed atomic.Int64
}

// New returns an Expirer; it starts nothing.
func New(cfg Config) *Expirer {
	return &Expirer{
		cfg: cfg, ages: ages{ttl: cfg.TTL},
		tick: max(cfg.TTL/360, 100*time.Millisecond), // 10 s for an hour
	}
}

// Run deletes Events until ctx ends, which is no error. It is called once, when the store takes
// writes. Of several servers over one store one runs it.
func (e *Expirer) Run(ctx context.Context) error {
	ticker := time.NewTicker(e.tick)
	defer ticker.Stop()
	retry := minRetry
	var next time.Time
	for {
		err := e.mark(ctx)
		if err == nil && !time.Now().Before(next) {
			if next, err = e.look(ctx); err == nil {
				retry = minRetry
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			e.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "delete expired Events",
				slog.Int64("retry_ms", retry.Milliseconds()), slog.Any("err", err))
			next = time.Now().Add(retry)
			retry = min(2*retry, maxRetry)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// mark lets the ages know the latest revision of this moment, if the last mark was made about a
// tick ago.
func (e *Expirer) mark(ctx context.Context) error {
	if time.Since(e.marked) < e.tick/2 {
		return nil
	}
	revision, err := e.cfg.Store.Progress(ctx)
	if err != nil {
		return fmt.Errorf("ask for the latest revision: %w", err)
	}
	e.ages.mark(revision)
	e.marked = time.Now()
	return nil
}

// look deletes what has expired, and returns when to look again. An Event that cannot be deleted
// holds up no other; the error says how many there are.
func (e *Expirer) look(ctx context.Context) (next time.Time, err error) {
	q := store.Query{
		Start: prefix, End: store.PrefixEnd(prefix), Limit: pageSize,
		Want: func(string, int64) bool { return false },
	}
	next = time.Now().Add(e.cfg.TTL) // when the first of those that stay expires
	live := 0
	var expired []store.Record
	var failed failures
	for more := true; more; {
		page, err := e.cfg.Store.Read(ctx, q)
		if err != nil {
			return time.Time{}, fmt.Errorf("read when Events were written: %w", err)
		}
		for _, r := range page.Records {
			due := e.ages.due(r)
			if time.Until(due) > 0 {
				live++
				if due.Before(next) {
					next = due
				}
				continue
			}
			if expired = append(expired, r); len(expired) == batch {
				if err := e.deleteBatch(ctx, expired, &failed); err != nil {
					return time.Time{}, err
				}
				expired = expired[:0]
			}
		}
		if more = page.More; more {
			q.Start = page.Records[len(page.Records)-1].Key + "\x00"
		}
	}
	if err := e.deleteBatch(ctx, expired, &failed); err != nil {
		return time.Time{}, err
	}
	if earliest := time.Now().Add(e.rest(live)); next.Before(earliest) {
		next = earliest
	}
	return next, failed.err()
}

// rest is how long nobody looks after a look that found live Events. A look takes about 0.2 us for
// each (BenchmarkLook), so that looks take less than a thousandth of a processor up to 160 000 Events,
// and 0.2 % with 500 000. With the default TTL the deletion of an Event begins at most 75 s late: looks
// are 60 s apart, since they are at ticks, and marks 15 s, since one that is made during deletions
// delays the next. It is less than a minute with up to 110 000 Events. Upstream it is up to a minute:
// Events that are written within a minute, or a twentieth of their TTL, share a lease.
func (e *Expirer) rest(live int) time.Duration {
	const each, most = 300 * time.Microsecond, 50 * time.Second
	return max(e.tick, min(time.Duration(live)*each, e.cfg.TTL/20, most))
}

// deleteBatch deletes Events as they were read, all at once, waits until readers see it, and notes
// what fails. It returns an error when there is no use in going on: ctx has ended, or the store
// refuses every write.
func (e *Expirer) deleteBatch(ctx context.Context, expired []store.Record, failed *failures) error {
	if len(expired) == 0 {
		return nil
	}
	if pause := time.Until(e.begun.Add(batchEvery)); pause > 0 {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	e.begun = time.Now()
	if err := e.mark(ctx); err != nil { // many batches may take long
		return err
	}
	revisions, errs := make([]int64, len(expired)), make([]error, len(expired))
	var wg sync.WaitGroup
	for i, r := range expired {
		wg.Go(func() { revisions[i], errs[i] = e.delete(ctx, r) })
	}
	wg.Wait()
	for _, err := range errs {
		if err == nil {
			continue
		}
		failed.add(err)
		if refusesAll(err) || ctx.Err() != nil {
			return err
		}
	}
	// As for every other writer: readers do not fall behind.
	return e.cfg.WaitPublished(ctx, kube.ResourceVersion(slices.Max(revisions)))
}

// delete deletes an Event, unless it has been written or deleted since it was read: then the
// revision is 0.
func (e *Expirer) delete(ctx context.Context, r store.Record) (revision int64, err error) {
	done, err := e.cfg.Store.Commit(ctx, store.Txn{Key: r.Key, Delete: true, ExpectedModRevision: r.ModRevision})
	if _, changed := errors.AsType[*store.ConflictError](err); changed {
		return 0, nil
	}
	if err != nil {
		if ctx.Err() == nil {
			e.failed.Add(1)
		}
		return 0, fmt.Errorf("delete %q: %w", r.Key, err)
	}
	e.deleted.Add(1)
	return done.Revision, nil
}

// refusesAll reports whether an error of a write is not about this write.
func refusesAll(err error) bool {
	_, now := errors.AsType[*store.UnavailableError](err)
	_, always := errors.AsType[*store.PoisonedError](err)
	return now || always
}

// failures are the deletions of a look that have failed. The zero value is none.
type failures struct {
	n     int
	first error
}

func (f *failures) add(err error) {
	if f.n++; f.first == nil {
		f.first = err
	}
}

// err returns all of them as one error; nil if there are none.
func (f *failures) err() error {
	switch f.n {
	case 0:
		return nil
	case 1:
		return f.first
	}
	return fmt.Errorf("%d of the deletions failed, the first: %w", f.n, f.first)
}

// Stats are the figures of an Expirer since it was made.
type Stats struct {
	Deleted int64 // Events that were deleted
	Failed  int64 // deletions that failed; they are tried again
}

// Stats returns the present figures.
func (e *Expirer) Stats() Stats { return Stats{Deleted: e.deleted.Load(), Failed: e.failed.Load()} }
