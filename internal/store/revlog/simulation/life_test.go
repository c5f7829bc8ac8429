package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/revlog/disk/disktest"
)

// life is one process over the disk.
type life struct {
	h       *history
	random  *rand.Rand // of the life's own choices
	log     *revlog.Log
	options revlog.Options
	ctx     context.Context //nolint:containedctx // a life is a call: it ends with it
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	pauses   *rand.Rand // of the disk's delays, under pausesMu
	pausesMu sync.Mutex

	poisoned bool  // under h.mu
	harmless bool  // no sync and no rename fails
	reported int64 // compaction mark that the feed with Hold delivered
}

// history is one directory from its first start on.
type history struct {
	seed   uint64
	random *rand.Rand
	disk   *disktest.Disk
	// mu guards what follows.
	mu      sync.Mutex
	model   *model
	ops     int
	crashes int
	values  uint64
	chains  int
}

// keys are few, so that they are written again and again.
var keys = []string{
	"pods/a", "pods/b", "pods/c", "pods/d", "nodes/a", "nodes/b", "secrets/a", "secrets/b", "leases/x",
}

// mirrored are the keys that Append alone writes.
var mirrored = []string{"mirror/a", "mirror/b", "mirror/c", "~mirror/mark", "other/a", "other/b"}

func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low)+1))
}

// wait blocks for a while of the bubble's clock, or until the life ends.
func (l *life) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.ctx.Done():
		return false
	}
}

// op counts an operation, and returns false once the life is over.
func (l *life) op() bool {
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	l.h.ops++
	return l.h.model.problem == nil && l.ctx.Err() == nil
}

// expected says that an error is of the faults that the life suffers, or of its end.
func (l *life) expected(err error) bool {
	if l.ctx.Err() != nil || errors.Is(err, disktest.ErrCrashed) || errors.Is(err, store.ErrClosed) {
		return true
	}
	for _, cause := range injected {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

var injected = []error{syscall.EIO, syscall.ENOSPC, syscall.EMFILE, syscall.EDQUOT}

// with runs f on the model.
func (l *life) with(f func(m *model)) {
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	f(l.h.model)
}

func (l *life) fail(format string, args ...any) {
	l.with(func(m *model) { m.fail(format, args...) })
}

// writer writes one conditional write after the other.
func (l *life) writer(r *rand.Rand, slowest time.Duration) {
	for l.wait(between(r, 1, slowest)) && l.op() {
		l.write(r)
	}
}

func (l *life) write(r *rand.Rand) {
	t := store.Txn{Key: keys[r.IntN(len(keys))]}
	l.with(func(m *model) {
		t.ExpectedModRevision = m.current(t.Key)
		l.h.values++
		if r.IntN(12) == 0 { // a condition that does not hold
			t.ExpectedModRevision = m.base + r.Int64N(m.head()-m.base+1)
		}
		if t.Delete = t.ExpectedModRevision != 0 && r.IntN(4) == 0; !t.Delete {
			// No zeros: a sector of them is one that was not written.
			t.Value = fmt.Appendf(nil, "%0*d.", 8+[]int{0, 40, 300, 900, 5000}[min(r.IntN(9), 4)], l.h.values)
		}
	})
	ctx := l.ctx
	if r.IntN(20) == 0 {
		limited, cancel := context.WithTimeout(l.ctx, between(r, 1, time.Millisecond))
		defer cancel()
		ctx = limited
	}
	var f *flight
	l.with(func(m *model) {
		f = m.begin(t)
		f.late = l.poisoned
	})
	done, err := l.log.Commit(ctx, t)
	l.with(func(*model) { l.outcome(ctx, f, done.Revision, err) })
}

// outcome tells the model what became of a write. The model is guarded.
func (l *life) outcome(ctx context.Context, f *flight, revision int64, err error) {
	m := l.h.model
	conflict, conflicts := errors.AsType[*store.ConflictError](err)
	_, unavailable := errors.AsType[*store.UnavailableError](err)
	_, poison := errors.AsType[*store.PoisonedError](err)
	switch {
	case err == nil:
		if f.late {
			m.fail("revision %d is acknowledged after a failed sync", revision)
		}
		m.acknowledged(f, revision)
	case conflicts:
		m.refused(f)
		if c := conflict.Current; c != nil {
			if c.ModRevision == f.txn.ExpectedModRevision {
				m.fail("%q is refused over the expected revision %d", f.txn.Key, c.ModRevision)
			}
			m.shown(c.ModRevision, c.Key, c.Value, 0)
			m.when(c.ModRevision, func() error { return m.checkRecord(*c) })
		}
	case unavailable:
		m.refused(f)
		if !l.expected(err) {
			m.fail("write of %q: %w", f.txn.Key, err)
		}
	case poison, errors.Is(err, store.ErrOutcomeUnknown):
		l.poisoned = l.poisoned || poison
		if !l.expected(err) {
			m.fail("write of %q: %w", f.txn.Key, err)
		}
	case ctx.Err() != nil:
	case !l.expected(err):
		m.fail("write of %q: %w", f.txn.Key, err)
	}
}

// appender writes to keys of its own, as a mirror does.
func (l *life) appender(r *rand.Rand, slowest time.Duration) {
	for l.wait(between(r, 1, slowest)) && l.op() {
		l.append(r, l.appends(r))
	}
}

// appends returns the writes of one Append.
func (l *life) appends(r *rand.Rand) []revlog.Write {
	writes := make([]revlog.Write, 1+r.IntN([]int{3, 8, 40}[r.IntN(3)]))
	deleted := map[string]bool{} // each key once: nobody can distinguish two of its deletions
	for i := range writes {
		w := &writes[i]
		w.Key = mirrored[r.IntN(len(mirrored))]
		w.WithPrevious = i > 0 && r.IntN(3) == 0
		if w.Delete = r.IntN(4) == 0 && !deleted[w.Key]; w.Delete {
			deleted[w.Key] = true
		} else {
			l.with(func(*model) {
				l.h.values++
				w.Value = fmt.Appendf(nil, "%0*d.", 8+[]int{0, 40, 900}[r.IntN(3)], l.h.values)
			})
		}
	}
	return writes
}

func (l *life) append(r *rand.Rand, writes []revlog.Write) {
	ctx := l.ctx
	if r.IntN(20) == 0 {
		limited, cancel := context.WithTimeout(l.ctx, between(r, 1, time.Millisecond))
		defer cancel()
		ctx = limited
	}
	flights := make([]*flight, len(writes))
	l.with(func(m *model) {
		for i, w := range writes {
			f := m.begin(store.Txn{Key: w.Key, Value: w.Value, Delete: w.Delete})
			if !w.WithPrevious {
				l.h.chains++
			}
			f.late, f.always, f.chain = l.poisoned, true, l.h.chains
			flights[i] = f
		}
		m.calls = append(m.calls, flights)
	})
	revisions, err := l.log.Append(ctx, writes)
	l.with(func(m *model) {
		if (err == nil) != (len(revisions) == len(writes)) {
			m.fail("an Append of %d writes returns %d revisions and %w", len(writes), len(revisions), err)
			return
		}
		for i, f := range flights {
			switch {
			case i >= len(revisions):
				if l.outcome(ctx, f, 0, err); m.flights[f] || f.revision != 0 {
					m.hide(f)
				}
			case revisions[i] == 0:
				if !f.txn.Delete {
					m.fail("a write of %q has no effect", f.txn.Key)
				}
				m.refused(f)
			default:
				l.outcome(ctx, f, revisions[i], nil)
			}
		}
		for i, revision := range revisions {
			if i > 0 && min(revision, revisions[i-1]) > 0 && flights[i].chain == flights[i-1].chain &&
				revision != revisions[i-1]+1 {
				m.fail("revision %d is bound to the one before it, %d", revision, revisions[i-1])
			}
		}
	})
}

// reader reads at the latest and at older revisions, and at moments.
func (l *life) reader(r *rand.Rand, slowest time.Duration) {
	for l.wait(between(r, 1, slowest)) && l.op() {
		q := store.Query{Start: keys[r.IntN(len(keys))]}
		if r.IntN(3) > 0 {
			q.Start = store.ResourceOf(q.Start) + "/"
			q.End = store.PrefixEnd(q.Start)
			q.Limit = r.IntN(4)
		}
		l.with(func(m *model) {
			switch r.IntN(4) {
			case 0:
			case 1:
				q.At = time.Now().Add(-between(r, 0, 20*slowest))
			default:
				q.AtRevision = m.base + r.Int64N(m.head()-m.base+1)
			}
		})
		l.read(q)
	}
}

func (l *life) read(q store.Query) {
	prefix := store.ResourceOf(q.Start) + "/"
	var floor, head int64
	l.with(func(m *model) { floor, head = m.floor(prefix, m.compacted), m.head() })
	page, err := l.log.Read(l.ctx, q)
	l.with(func(m *model) {
		compacted, refused := errors.AsType[*store.CompactedError](err)
		if !q.At.IsZero() && (err == nil || refused) {
			got := answer{prefix: prefix, at: q.At, head: head, revision: page.Revision, refused: compacted}
			m.moments = append(m.moments, got)
		}
		switch {
		case refused:
			m.checkRefusal(prefix, q.AtRevision, compacted)
		case err != nil && !l.expected(err):
			m.fail("read %+v: %w", q, err)
		case err != nil:
		case page.Revision < floor:
			m.fail("read %+v is answered at %d below the floor %d", q, page.Revision, floor)
		default:
			for _, record := range page.Records {
				m.shown(record.ModRevision, record.Key, record.Value, 0)
			}
			m.when(page.Revision, func() error { return m.checkPage(q, page) })
		}
	})
}

// follower is the feed with Hold that a server always has. Now and then it is slow.
func (l *life) follower(r *rand.Rand, feed store.Changes, after int64) {
	for l.op() {
		batch, err := feed.Next(l.ctx)
		if err != nil {
			if !l.expected(err) {
				l.fail("the feed with Hold after %d: %w", after, err)
			}
			if l.ctx.Err() != nil || !l.wait(time.Second) {
				return
			}
			continue // a disk that could not be read; the feed is where it was
		}
		l.with(func(m *model) {
			m.checkBatch("", after, batch)
			m.held(batch)
			l.reported = max(l.reported, batch.Compacted)
		})
		after = batch.Through
		if r.IntN(10) == 0 && !l.wait(between(r, 1, 200*time.Millisecond)) {
			return
		}
	}
}

// lagging opens feeds at older revisions and reads them for a while.
func (l *life) lagging(r *rand.Rand, slowest time.Duration) {
	for l.wait(between(r, 1, slowest)) && l.op() {
		from := store.From{}
		switch key := keys[r.IntN(len(keys))]; r.IntN(4) {
		case 0:
		case 1:
			from.Key = key
		default:
			from.Prefix = store.ResourceOf(key) + "/"
		}
		l.with(func(m *model) {
			from.After = m.base + r.Int64N(m.head()-m.base+1)
			if r.IntN(2) == 0 {
				from.UpTo = from.After + 1 + r.Int64N(m.head()-from.After+1)
			}
		})
		l.follow(r, from)
	}
}

func (l *life) follow(r *rand.Rand, from store.From) {
	var floor int64
	resource, selected := from.Prefix, from.Prefix
	if from.Key != "" { // none is the beginning of another
		resource, selected = store.ResourceOf(from.Key)+"/", from.Key
	}
	l.with(func(m *model) { floor = m.floor(resource, m.compacted) })
	feed, err := l.log.Changes(l.ctx, from)
	if err == nil {
		defer func() { _ = feed.Close() }()
		if from.After < floor {
			l.fail("a feed %+v is opened below the floor %d", from, floor)
		}
	}
	after := from.After
	for range 1 + r.IntN(6) {
		var batch store.Batch
		if err == nil {
			limited, cancel := context.WithTimeout(l.ctx, between(r, 1, 20*time.Millisecond))
			batch, err = feed.Next(limited)
			timeout := limited.Err() != nil
			cancel()
			if timeout && err != nil {
				return
			}
		}
		if err != nil {
			if compacted, ok := errors.AsType[*store.CompactedError](err); ok {
				l.with(func(m *model) { m.checkRefusal(resource, after, compacted) })
			} else if !l.expected(err) && (from.UpTo == 0 || after < from.UpTo) {
				l.fail("a feed %+v at %d: %w", from, after, err)
			}
			return
		}
		l.with(func(m *model) { m.checkBatch(selected, after, batch) })
		after = batch.Through
		if r.IntN(3) == 0 && !l.wait(between(r, 1, 5*time.Millisecond)) {
			return
		}
	}
}

// compactor compacts history on request.
func (l *life) compactor(r *rand.Rand, slowest time.Duration) {
	for l.wait(between(r, 1, slowest)) && l.op() {
		c := store.Compaction{OlderThan: between(r, 1, slowest)}
		if r.IntN(3) > 0 {
			l.with(func(m *model) { c = store.Compaction{UpTo: m.base + 1 + r.Int64N(m.head()-m.base+1)} })
		}
		done, err := l.log.Compact(l.ctx, c)
		if err == nil {
			l.with(func(m *model) { m.compact(done) })
			continue
		}
		_, ahead := errors.AsType[*store.FutureRevisionError](err)
		if !ahead && !l.expected(err) {
			l.fail("compact %+v: %w", c, err)
		}
	}
}

// observer looks at what the log says of itself.
func (l *life) observer(r *rand.Rand, slowest time.Duration) {
	for l.wait(between(r, 1, slowest)) && l.op() {
		l.observe()
	}
}

func (l *life) observe() {
	l.with(func(m *model) {
		s := l.log.Stats()
		if s.Segments == 0 {
			return // closed
		}
		m.ended(s.Revision)
		if s.Compacted > m.observed && l.ctx.Err() == nil {
			l.checkRetention(m, s)
		}
		m.observed = s.Compacted
		m.compact(s.Compacted)
		for _, f := range s.Floors {
			if f.Revision > s.Compacted {
				m.fail("floor %d is ahead of the mark %d", f.Revision, s.Compacted)
			}
		}
	})
}

// checkRetention checks that bytes are given as a reason only where there are too
// many: those of history, without the newest versions of live keys; and that the
// last five minutes are kept unless there are twice too many.
func (l *life) checkRetention(m *model, s revlog.Stats) {
	last := int64(0)
	reason := ""
	for _, f := range s.Floors {
		if f.Revision > last {
			last, reason = f.Revision, f.Reason
		}
	}
	if reason != "bytes" || last <= m.observed || m.entry(s.Revision) == nil {
		return
	}
	history, budget := m.historyBytes(m.observed), l.options.HistoryBytes
	if history <= budget {
		m.fail("history up to %d is compacted because of its bytes, but it has %d of the allowed %d", last, history, budget)
	}
	if e := m.entry(last); history <= 2*budget && !e.time.IsZero() && time.Since(e.time) < 5*time.Minute {
		m.fail("history up to %d, %v old, is compacted because of %d bytes, less than twice %d",
			last, time.Since(e.time), history, budget)
	}
}

// pause delays an operation of the disk.
func (l *life) pause(op disktest.Op) {
	if op.Kind == "read" || op.Kind == "list" || op.Kind == "open" {
		return
	}
	l.pausesMu.Lock()
	d := between(l.pauses, 1, 300*time.Microsecond)
	if l.pauses.IntN(50) == 0 {
		d = between(l.pauses, 1, 20*time.Millisecond)
	}
	l.pausesMu.Unlock()
	<-time.After(d)
}

func (h *history) String() string {
	return fmt.Sprintf("seed %d after %d crashes and %d operations", h.seed, h.crashes, h.ops)
}
