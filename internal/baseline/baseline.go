// Package baseline brings a store back to what it held at an earlier moment, by writes that
// every watch sees. It is for tests that share a server.
//
// A [Baseline] is what a store held.
package baseline

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/gapless-io/gapless/internal/store"
)

const (
	// lastKey is after every key: keys begin with the name of a resource.
	lastKey = "\xff"
	// definitions is how the keys of definitions begin. They are deleted after their objects.
	definitions = "customresourcedefinitions.apiextensions.k8s.io/"
	// writers is how many keys are written at once, so that they share commits of the log.
	writers = 64
	// maxRounds bounds how often Restore looks again whether others wrote meanwhile.
	maxRounds = 20
)

// Baseline is what a store held when it was taken. It is not modified.
type Baseline struct{ held map[string]store.Record }

// Take reads what the store holds.
func Take(ctx context.Context, of store.Store) (*Baseline, error) {
	records, err := read(ctx, of)
	if err != nil {
		return nil, err
	}
	b := &Baseline{held: make(map[string]store.Record, len(records))}
	for _, r := range records {
		b.held[r.Key] = r
	}
	return b, nil
}

func read(ctx context.Context, of store.Store) ([]store.Record, error) {
	page, err := of.Read(ctx, store.Query{End: lastKey})
	if err != nil {
		return nil, fmt.Errorf("read what is stored: %w", err)
	}
	return page.Records, nil
}

// Restore deletes what was not held, and writes what was changed or deleted since. Finalizers
// are not waited for. It goes on until nothing differs, since others, such as controllers, may
// write meanwhile, and returns the revision of its last write; 0 if there was none.
func (b *Baseline) Restore(ctx context.Context, of store.Store) (last int64, err error) {
	for range maxRounds {
		objects, defined, err := b.differences(ctx, of)
		if err != nil || len(objects)+len(defined) == 0 {
			return last, err
		}
		for _, txns := range [][]store.Txn{objects, defined} {
			revision, err := write(ctx, of, txns)
			if err != nil {
				return last, err
			}
			last = max(last, revision)
		}
	}
	return last, errors.New("others write as fast as their objects are removed: stop them first")
}

// differences returns the writes to do, those of definitions apart.
func (b *Baseline) differences(ctx context.Context, of store.Store) (objects, defined []store.Txn, err error) {
	records, err := read(ctx, of)
	if err != nil {
		return nil, nil, err
	}
	add := func(t store.Txn) {
		if strings.HasPrefix(t.Key, definitions) {
			defined = append(defined, t)
		} else {
			objects = append(objects, t)
		}
	}
	now := make(map[string]bool, len(records))
	for _, r := range records {
		now[r.Key] = true
		held, found := b.held[r.Key]
		switch {
		case !found:
			add(store.Txn{Key: r.Key, Delete: true, ExpectedModRevision: r.ModRevision})
		case string(held.Value) != string(r.Value):
			add(store.Txn{Key: r.Key, Value: held.Value, ExpectedModRevision: r.ModRevision})
		}
	}
	for key, r := range b.held {
		if !now[key] {
			add(store.Txn{Key: key, Value: r.Value})
		}
	}
	return objects, defined, nil
}

// write commits writes and returns their highest revision. Those that meet another write are
// left to the next round.
func write(ctx context.Context, to store.Store, txns []store.Txn) (int64, error) {
	revisions := make([]int64, len(txns))
	g, running := errgroup.WithContext(ctx)
	g.SetLimit(writers)
	for i, t := range txns {
		g.Go(func() error {
			done, err := to.Commit(running, t)
			if _, met := errors.AsType[*store.ConflictError](err); met {
				return nil
			}
			revisions[i] = done.Revision
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return 0, fmt.Errorf("write what was stored: %w", err)
	}
	last := int64(0)
	for _, r := range revisions {
		last = max(last, r)
	}
	return last, nil
}
