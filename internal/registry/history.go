package registry

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/kube"
)

// history answers from the store what a kind's cache no longer holds.
type history struct {
	store store.Store
	kind  *kind
}

var _ watchcache.History = (*history)(nil)

// Entries implements watchcache.History.
func (h *history) Entries(ctx context.Context, after, upTo kube.ResourceVersion, limit int) (entries []*watchcache.Entry, through kube.ResourceVersion, err error) {
	feed, err := h.store.Changes(ctx, store.From{Prefix: h.kind.prefix, After: int64(after), UpTo: int64(upTo)})
	if err != nil {
		return nil, after, h.failed(err, after, kube.ExpiredWatch)
	}
	defer func() { _ = feed.Close() }() // it holds no more than its position
	through = after
	for len(entries) < limit {
		batch, err := feed.Next(ctx)
		if errors.Is(err, io.EOF) {
			return entries, upTo, nil
		}
		if err != nil {
			return entries, through, h.failed(err, after, kube.ExpiredWatch)
		}
		for _, change := range batch.Changes {
			if len(entries) == limit {
				return entries, through, nil
			}
			e, err := h.kind.entry(change)
			if err != nil {
				return entries, through, err
			}
			entries = append(entries, e)
			through = e.RV
		}
		through = kube.ResourceVersion(batch.Through)
	}
	return entries, through, nil
}

// ObjectsAt implements watchcache.History.
func (h *history) ObjectsAt(ctx context.Context, rv kube.ResourceVersion) ([]*kube.Object, error) {
	objects, err := h.kind.read(ctx, h.store, int64(rv))
	if err != nil {
		return nil, h.failed(err, rv, kube.ExpiredList)
	}
	return objects, nil
}

func (h *history) failed(err error, rv kube.ResourceVersion, what kube.ExpiredKind) error {
	if e, is := errors.AsType[*store.CompactedError](err); is {
		return expired(e, what)
	}
	return fmt.Errorf("history of %s at %d: %w", h.kind.gr, rv, storeError(err))
}

// entry turns a change of the store into what cursors read.
func (k *kind) entry(c store.Change) (*watchcache.Entry, error) {
	rv := kube.ResourceVersion(c.Revision)
	var previous *kube.Object
	if c.Previous != nil {
		var err error
		if previous, err = k.object(c.Key, c.Previous.Value, c.Previous.ModRevision); err != nil {
			return nil, err
		}
	}
	if c.Deleted {
		if previous == nil {
			return nil, fmt.Errorf("deletion of %q at revision %d has no previous value", c.Key, c.Revision)
		}
		return watchcache.NewDeletion(rv, previous), nil
	}
	o, err := k.object(c.Key, c.Value, c.Revision)
	if err != nil {
		return nil, err
	}
	return watchcache.NewEntry(rv, o, previous), nil
}
