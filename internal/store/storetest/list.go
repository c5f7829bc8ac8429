package storetest

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/gapless-io/gapless/internal/store"
)

// List is the simplest store, an Oracle that others can write to, as to etcd: several keys at one
// revision, and while the store is away. It keeps everything. It is for tests of what is over a store.
type List struct {
	// mu guards what follows.
	mu       sync.Mutex
	oracle   Oracle
	revision int64
	away     bool          // the oracle has more than the store has seen
	seen     int64         // the revision up to which the store has seen everything
	moved    chan struct{} // closed when seen or compacted moves
	closed   bool
	feeds    map[*listFeed]bool
}

var _ store.Store = (*List)(nil)

// NewList returns an empty store.
func NewList() *List { return &List{moved: make(chan struct{}), feeds: map[*listFeed]bool{}} }

// Together commits writes of others at one revision. Their conditions are not checked.
func (l *List) Together(txns ...store.Txn) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.addLocked(txns...)
}

// Miss is an outage, during which others write: the store finds what came of it.
func (l *List) Miss(write func()) store.Hole {
	l.mu.Lock()
	h := store.Hole{From: l.revision}
	l.away = true
	l.mu.Unlock()
	write()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.revision++ // of something that the store does not serve
	h.To = l.revision
	l.oracle.Miss(h)
	l.away = false
	l.moveLocked()
	return h
}

func (l *List) addLocked(txns ...store.Txn) int64 {
	l.revision++
	l.oracle.AddTogether(l.revision, txns...)
	if !l.away {
		l.moveLocked()
	}
	return l.revision
}

func (l *List) moveLocked() {
	l.seen = l.revision
	close(l.moved)
	l.moved = make(chan struct{})
}

// beginLocked returns what ends every call.
func (l *List) beginLocked(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case l.closed:
		return store.ErrClosed
	}
	return nil
}

// checkLocked refuses a read at a revision of which there is no state. since is From.Since.
func (l *List) checkLocked(prefix string, revision, since int64) error {
	if floor := l.oracle.floor(prefix); revision < floor {
		return &store.CompactedError{Resource: store.ResourceOf(prefix), Requested: revision, Floor: floor}
	}
	if h := l.oracle.hole(revision); h != nil && (since == 0 || since > h.From) {
		return &store.CompactedError{
			Resource: store.ResourceOf(prefix), Requested: revision, Floor: h.To, Reason: store.ReasonUnseen,
		}
	}
	return nil
}

// Read implements store.Store.
func (l *List) Read(ctx context.Context, q store.Query) (store.Page, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.beginLocked(ctx); err != nil {
		return store.Page{}, err
	}
	page := store.Page{Revision: q.AtRevision}
	if page.Revision == 0 {
		page.Revision = l.seen
	}
	if page.Revision > l.seen {
		return store.Page{}, &store.FutureRevisionError{Requested: page.Revision, Current: l.seen}
	}
	if err := l.checkLocked(q.Start, page.Revision, 0); err != nil {
		return store.Page{}, err
	}
	page.Records = l.oracle.state(page.Revision, q.Start, q.End)
	if n := q.Limit; n > 0 && len(page.Records) > n {
		page.More = true
		if q.Count {
			page.Remaining = int64(len(page.Records) - n)
		}
		page.Records = page.Records[:n]
	}
	for i := range page.Records {
		r := &page.Records[i]
		r.Time = time.Now()
		if q.Want != nil && !q.Want(r.Key, r.ModRevision) {
			r.Value = nil
		}
	}
	return page, nil
}

// Commit implements store.Store.
func (l *List) Commit(ctx context.Context, t store.Txn) (store.Committed, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.beginLocked(ctx); err != nil {
		return store.Committed{}, err
	}
	if l.oracle.Current(t.Key) != t.ExpectedModRevision || t.Delete && t.ExpectedModRevision == 0 {
		conflict := &store.ConflictError{Key: t.Key, Expected: t.ExpectedModRevision}
		if now := l.oracle.state(noLimit, t.Key, ""); len(now) > 0 {
			conflict.Current = &now[0]
		}
		return store.Committed{}, conflict
	}
	return store.Committed{Revision: l.addLocked(t)}, nil
}

// Compact implements store.Store, for Compaction.UpTo.
func (l *List) Compact(ctx context.Context, c store.Compaction) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.beginLocked(ctx); err != nil {
		return 0, err
	}
	switch {
	case c.UpTo <= 0 || c.OlderThan != 0:
		return 0, fmt.Errorf("compact %+v: %w", c, store.ErrInvalid)
	case c.UpTo > l.seen:
		return 0, &store.FutureRevisionError{Requested: c.UpTo, Current: l.seen}
	}
	for f := range l.feeds {
		if f.from.Hold {
			c.UpTo = min(c.UpTo, f.after)
		}
	}
	if c.Every {
		l.oracle.CompactEvery(c.UpTo)
	} else {
		l.oracle.Compact(c.UpTo)
	}
	l.moveLocked()
	return l.oracle.compacted, nil
}

// Progress implements store.Store.
func (l *List) Progress(ctx context.Context) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen, l.beginLocked(ctx)
}

// Close ends every call.
func (l *List) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.moveLocked()
	return nil
}

// listFeed is a stream of a List.
type listFeed struct {
	list      *List
	from      store.From
	prefix    string // of the resource
	after     int64
	compacted int64
}

// Changes implements store.Store.
func (l *List) Changes(ctx context.Context, f store.From) (store.Changes, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.beginLocked(ctx); err != nil {
		return nil, err
	}
	k := &listFeed{list: l, from: f, prefix: f.Prefix + f.Key, after: f.After}
	if err := l.checkLocked(k.prefix, f.After, f.Since); err != nil {
		return nil, err
	}
	if f.UpTo != 0 && f.UpTo <= f.After {
		return &store.NoChanges{}, nil
	}
	l.feeds[k] = true
	return k, nil
}

// Close implements store.Changes.
func (k *listFeed) Close() error {
	k.list.mu.Lock()
	defer k.list.mu.Unlock()
	delete(k.list.feeds, k)
	k.list.moveLocked()
	return nil
}

// Next implements store.Changes.
func (k *listFeed) Next(ctx context.Context) (store.Batch, error) {
	for {
		batch, moved, err := k.next(ctx)
		if moved == nil || err != nil {
			return batch, err
		}
		select {
		case <-moved:
		case <-ctx.Done():
		}
	}
}

// next returns a batch, or what to wait for.
func (k *listFeed) next(ctx context.Context) (batch store.Batch, moved chan struct{}, err error) {
	l := k.list
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.beginLocked(ctx); err != nil {
		return batch, nil, err
	}
	if !l.feeds[k] {
		return batch, nil, store.ErrClosed
	}
	if k.from.UpTo != 0 && k.after >= k.from.UpTo {
		return batch, nil, io.EOF
	}
	if err := l.checkLocked(k.prefix, k.after, max(k.from.Since, min(k.from.After, k.after))); err != nil {
		return batch, nil, err
	}
	through := l.seen
	if k.from.UpTo != 0 {
		through = min(through, k.from.UpTo)
	}
	news := k.from.Hold && l.oracle.compacted > k.compacted
	if through <= k.after && !news {
		return batch, l.moved, nil
	}
	batch = k.takeLocked(max(through, k.after))
	for _, h := range l.oracle.holes {
		if h.From < batch.Through && k.after < h.To {
			batch.Holes = append(batch.Holes, h)
		}
	}
	k.after = batch.Through
	if k.from.Hold {
		k.compacted = min(l.oracle.compacted, batch.Through)
		batch.Compacted = k.compacted
	}
	return batch, nil, nil
}

// takeLocked takes as many of the changes up to a revision as the bounds allow.
func (k *listFeed) takeLocked(through int64) store.Batch {
	f, batch, bytes := k.from, store.Batch{Through: through}, 0
	for _, c := range k.list.oracle.after(f.Prefix, k.after, through) {
		if f.Key != "" && c.Key != f.Key || f.Match != nil && !f.Match(c.Key) {
			continue
		}
		known := false
		if f.Known != nil {
			var size int
			if size, known = f.Known(c.Key, c.Revision); known {
				bytes += size
				c = store.Change{Revision: c.Revision, Key: c.Key}
			}
		}
		bytes += len(c.Value)
		if n := len(batch.Changes); n > 0 && c.Revision > batch.Changes[n-1].Revision &&
			(f.Limit > 0 && n >= f.Limit || f.MaxBytes > 0 && bytes > f.MaxBytes) {
			batch.Through = batch.Changes[n-1].Revision
			return batch
		}
		c.Time = time.Now()
		if f.Want != nil && !known {
			k.want(&c)
		}
		batch.Changes = append(batch.Changes, c)
	}
	return batch
}

// want leaves out the values that the reader does not want.
func (k *listFeed) want(c *store.Change) {
	bare := *c
	bare.Value = nil
	if c.Previous != nil {
		was := *c.Previous
		was.Value = nil
		bare.Previous = &was
	}
	value, previous := k.from.Want(bare)
	if !value {
		c.Value = nil
	}
	if !previous {
		c.Previous = bare.Previous
	}
}
