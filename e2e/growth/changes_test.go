//go:build !race

package growth_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"time"

	catalog "github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/registry/caches"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/watchcache"
)

// batches is a store whose feed gives all changes that there are in one batch, or each in its own.
type batches struct {
	store.Store

	single bool
}

func (b batches) Changes(ctx context.Context, f store.From) (store.Changes, error) {
	changes, err := b.Store.Changes(ctx, f)
	return &batched{Changes: changes, of: b}, err
}

type batched struct {
	store.Changes

	of   batches
	left []store.Change // if each is given on its own
}

func (b *batched) Next(ctx context.Context) (store.Batch, error) {
	var all store.Batch
	if len(b.left) == 0 {
		last, err := b.of.Progress(ctx)
		if err != nil {
			return store.Batch{}, err
		}
		for all.Through == 0 || all.Through < last {
			next, err := b.Changes.Next(ctx)
			if err != nil {
				return store.Batch{}, err
			}
			next.Changes = append(all.Changes, next.Changes...)
			all = next
		}
		if !b.of.single {
			return all, nil
		}
		b.left = all.Changes
	}
	next := b.left[0]
	b.left = b.left[1:]
	return store.Batch{Changes: []store.Change{next}, Through: next.Revision}, nil
}

// nobody follows what publishers do.
type nobody struct{}

func (nobody) Loaded(*caches.Resource)                        {}
func (nobody) Appended(*caches.Resource, []*watchcache.Entry) {}
func (nobody) Defined(created, ended *caches.Resource)        {}

// publish measures what it costs to publish the changes of one resource of which many cannot be read: n creations of
// either kind, and n/2 deletions of values that cannot be.
func publish(t *testing.T, n int, single bool) sample {
	t.Helper()
	log, err := revlog.Open(t.Context(), revlog.Options{Memory: true})
	if err != nil {
		t.Fatalf("open the log: %v", err)
	}
	logged := make(chan error, 1)
	go func() { logged <- log.Run(context.WithoutCancel(t.Context())) }() // ends with Close
	set := caches.NewSet(caches.Config{
		Store: batches{log, single}, Live: catalog.NewLive(builtin.Catalog()),
		Logger: slog.New(slog.DiscardHandler), Shared: true,
	})
	publishers, err := set.Load(t.Context())
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	var last store.Committed
	write := func(txn store.Txn) int64 {
		if last, err = log.Commit(t.Context(), txn); err != nil {
			t.Fatalf("commit: %v", err)
		}
		return last.Revision
	}
	for i := range n {
		name := fmt.Sprintf("c%06d", i)
		key := "configmaps/default/" + name
		lost := write(store.Txn{Key: key + "-lost", Value: []byte("no object")})
		write(store.Txn{Key: key, Value: []byte(
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `","namespace":"default","uid":"1"}}`,
		)})
		if i%2 == 0 {
			write(store.Txn{Key: key + "-lost", ExpectedModRevision: lost, Delete: true})
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	runtime.GC()
	began := processorTime(t)
	go func() { ended <- publishers.Run(ctx, nobody{}) }() // ends with ctx
	r := set.Lookup(catalog.GroupResource{Resource: "configmaps"})
	if err := r.WaitPublished(t.Context(), last.Revision); err != nil {
		t.Fatalf("wait: %v", err)
	}
	cost := processorTime(t) - began
	if got := len(r.Unreadable()); got != n/2 {
		t.Errorf("%d values cannot be read, want %d", got, n/2)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("publish: %v", err)
	}
	if err := publishers.Close(); err != nil {
		t.Errorf("close the feeds: %v", err)
	}
	if err := log.Close(); err != nil {
		t.Errorf("close the log: %v", err)
	}
	if err := <-logged; err != nil {
		t.Errorf("run the log: %v", err)
	}
	return sample{n: n, cost: cost}
}

// TestNoBatchCostsMoreThanItsSizeAroundValuesThatCannotBeRead: nothing is published meanwhile, of any resource.
func TestNoBatchCostsMoreThanItsSizeAroundValuesThatCannotBeRead(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of CPU: batches that grow up to what takes tenths of a second")
	}
	for name, single := range map[string]bool{"one batch": false, "a batch for each": true} {
		t.Run(name, func(t *testing.T) {
			var all []sample
			for try := range 4 { // see TestNoRequestCostsMoreThanItsSize
				var again []sample
				for n := 256; len(again) <= doublings || again[len(again)-1].cost < 120*time.Millisecond<<try; n *= 2 {
					again = append(again, publish(t, n, single))
				}
				all = least(all, again)
				if growth(all) <= mostGrowth {
					break
				}
			}
			t.Logf("growth %.2f:\n%s", growth(all), table(all))
			if by := growth(all); by > mostGrowth {
				t.Errorf("twice as much costs %.2f times as much, want at most %.1f", by, mostGrowth)
			}
		})
	}
}
