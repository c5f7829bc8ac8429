package revlog

import (
	"context"
	"fmt"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
	"github.com/gapless-io/gapless/internal/store/revlog/index"
)

// request is one Commit on its way through the sequencer.
type request struct {
	key      string
	expected int64
	always   bool // without a condition; a deletion of nothing is a conflict all the same
	remove   bool
	valueLen int
	encoded  []byte       // the record, to be stamped by the sequencer
	done     chan outcome // holds one; the sequencer sends exactly once
	next     *request     // is committed in the same group; nil: none
	call     *call        // of Append; nil: of Commit
}

// outcome answers a request: a revision, an error, or a condition that failed.
type outcome struct {
	revision int64
	err      error
	conflict bool
	found    index.Version // what the condition met; zero if nothing
}

// Commit implements store.Store. While more than 1024 writes wait, it waits
// for a place among them; before Run it waits for Run. A deletion that expects
// the key not to exist is always a conflict.
func (l *Log) Commit(ctx context.Context, t store.Txn) (store.Committed, error) {
	if err := checkTxn(t); err != nil {
		return store.Committed{}, err
	}
	kind, value := format.KindPut, t.Value
	if t.Delete {
		kind, value = format.KindDelete, nil
	}
	for {
		encoded := l.records.New(kind, t.Key, value)
		out, err := l.submit(ctx, &request{
			key: t.Key, expected: t.ExpectedModRevision, remove: t.Delete, valueLen: len(value),
			encoded: encoded, done: make(chan outcome, 1),
		})
		if err != nil {
			return store.Committed{}, err
		}
		l.records.Release(encoded) // the sequencer has copied it
		if !out.conflict {
			return store.Committed{Revision: out.revision}, out.err
		}
		conflict := &store.ConflictError{Key: t.Key, Expected: t.ExpectedModRevision}
		if out.found.Revision == 0 {
			return store.Committed{}, conflict
		}
		conflict.Current, err = l.recordOf(ctx, t.Key, out.found)
		if err != nil {
			return store.Committed{}, err
		}
		if conflict.Current != nil {
			return store.Committed{}, conflict
		}
		// What the condition met was replaced and compacted since: ask again.
	}
}

func checkTxn(t store.Txn) error {
	switch {
	case !format.ValidKey(t.Key):
		return fmt.Errorf("key %.100q is not of the form resource/rest: %w", t.Key, store.ErrInvalid)
	case len(t.Key) > MaxKeyBytes:
		return &store.TooLargeError{What: "key", Bytes: len(t.Key), Limit: MaxKeyBytes}
	case len(t.Value) > MaxValueBytes && !t.Delete:
		return &store.TooLargeError{What: "value", Bytes: len(t.Value), Limit: MaxValueBytes}
	}
	return nil
}

func (l *Log) submit(ctx context.Context, r *request) (outcome, error) {
	if err := l.enqueue(ctx, r); err != nil {
		return outcome{}, err
	}
	select {
	case out := <-r.done:
		return out, nil
	case <-ctx.Done():
		return outcome{}, context.Cause(ctx)
	case <-l.stopped:
	}
	return l.answer(r)
}

// stoppedError is why no write is taken: the disk failed, or the end.
func (l *Log) stoppedError() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.poison != nil && !l.closed {
		return l.poison
	}
	return store.ErrClosed
}

// recordOf returns version v of key with its value, nil if it was compacted.
func (l *Log) recordOf(ctx context.Context, key string, v index.Version) (*store.Record, error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, store.ErrClosed
	}
	v, ok := l.index.Version(index.Change{Revision: v.Revision, Key: key}) // it may have moved
	value := l.values.Get(v.Revision)
	set := l.segments.hold()
	l.mu.Unlock()
	defer set.release(l)
	if !ok {
		return nil, nil
	}
	if value == nil {
		w := wanted{key: key, version: v}
		if err := l.loader(set).read(ctx, []*wanted{&w}); err != nil {
			return nil, err
		}
		value = w.value
	}
	r := v.Record(key, value)
	return &r, nil
}
