package revlog

import (
	"context"
	"fmt"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
)

// Write is one unconditional write of Append.
type Write struct {
	Key    string
	Value  []byte // ignored by a deletion; not retained after Append returns
	Delete bool
	// WithPrevious commits the write in one group with the one before it: readers see
	// both at once, and after a crash both are there, or neither. All that are bound
	// together have room in one record of the largest size.
	WithPrevious bool
}

// call is one Append. The sequencer alone uses it.
type call struct {
	failed error // of one of its writes: the later ones fail too
}

// Append applies writes in order, whatever their keys hold: it is for a writer that records
// what another store has committed, and is the only one for its keys. It returns the revision
// of each write, after all are durable (see Options.Early): writes that wait together share a
// sync. The deletion of a key that does not exist has no effect and the revision 0. Writes of
// concurrent calls may alternate; those of one call keep their order.
//
// With an error, revisions are those of the first writes, which were applied; no other one is
// visible. After store.ErrOutcomeUnknown and *store.PoisonedError the next start may find some
// more, unless a later write succeeded before. ctx ends the call only before the first write is
// accepted. Errors are those of Commit.
func (l *Log) Append(ctx context.Context, writes []Write) (revisions []int64, err error) {
	if err := checkWrites(writes); err != nil {
		return nil, err
	}
	requests := make([]*request, len(writes))
	var together call
	for i, w := range writes {
		kind, value := format.KindPut, w.Value
		if w.Delete {
			kind, value = format.KindDelete, nil
		}
		requests[i] = &request{
			key: w.Key, always: true, call: &together, remove: w.Delete, valueLen: len(value),
			encoded: l.records.New(kind, w.Key, value), done: make(chan outcome, 1),
		}
		if i > 0 && w.WithPrevious {
			requests[i-1].next = requests[i]
		}
	}
	var refused error
	begun := context.WithoutCancel(ctx) // a part of the writes is of no use to the caller
	for i, r := range requests {
		if i > 0 && writes[i].WithPrevious {
			continue // the sequencer has it with the one before
		}
		waits := begun
		if i == 0 {
			waits = ctx
		}
		if refused = l.enqueue(waits, r); refused != nil {
			requests = requests[:i]
			break
		}
	}
	revisions = make([]int64, 0, len(requests))
	for _, r := range requests {
		out, stopped := l.answer(r)
		if stopped != nil {
			return revisions, stopped
		}
		l.records.Release(r.encoded) // the sequencer has copied it
		if err == nil {
			err = out.err
		}
		if err == nil {
			revisions = append(revisions, out.revision)
		}
	}
	if err == nil {
		err = refused
	}
	return revisions, err
}

// checkWrites checks the form of the writes of one call.
func checkWrites(writes []Write) error {
	bound := 0 // bytes of writes that are bound together
	for i, w := range writes {
		if err := checkTxn(store.Txn{Key: w.Key, Value: w.Value, Delete: w.Delete}); err != nil {
			return fmt.Errorf("write %d of %d: %w", i+1, len(writes), err)
		}
		if !w.WithPrevious {
			bound = 0
		}
		value := w.Value
		if w.Delete {
			value = nil
		}
		bound += format.RecordSize(w.Key, value)
		if bound > format.MaxRecordBytes { // a frame has room for no more
			return &store.TooLargeError{What: "writes that are bound together", Bytes: bound, Limit: format.MaxRecordBytes}
		}
	}
	return nil
}

// enqueue passes a request to the sequencer.
func (l *Log) enqueue(ctx context.Context, r *request) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case <-l.stopped:
		return l.stoppedError()
	default:
	}
	select {
	case l.requests <- r:
		return nil
	case <-l.stopped:
		return l.stoppedError()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// answer waits for the outcome of a request that the sequencer has.
func (l *Log) answer(r *request) (outcome, error) {
	select {
	case out := <-r.done:
		return out, nil
	case <-l.stopped:
	}
	select {
	case out := <-r.done: // answered just before the end
		return out, nil
	default:
		return outcome{}, l.stoppedError()
	}
}
