package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/gapless-io/gapless/internal/mirror"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// expected are the resourceVersions that deletions must have, by key in the order of the log.
type expected struct {
	// mu guards gone.
	mu   sync.Mutex
	gone map[string][]kube.ResourceVersion
}

func (e *expected) add(key string, rv kube.ResourceVersion) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.gone[key] = append(e.gone[key], rv)
}

func (e *expected) take(key string) kube.ResourceVersion {
	e.mu.Lock()
	defer e.mu.Unlock()
	first := e.gone[key][0]
	e.gone[key] = e.gone[key][1:]
	return first
}

// TestReadersBesideTheWriter reads all that a collection says while it is written, tended and
// compacted. A reader who follows the log sees each deletion under its resourceVersion, also
// before Append has returned, or learns that it was compacted since.
func TestReadersBesideTheWriter(t *testing.T) {
	m, end := open(t, mirror.Options{Memory: true, GroupWrites: 3})
	defer end()
	c, err := m.Collection(t.Context(), "pods.v1")
	if err != nil {
		t.Fatalf("open the collection: %v", err)
	}
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-seed %d", seed)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	want := &expected{gone: map[string][]kube.ResourceVersion{}}
	feed, err := m.Store().Changes(ctx, store.From{Prefix: "pods.v1/", Hold: true, After: m.Stats().Revision})
	if err != nil {
		t.Fatalf("ask for changes: %v", err)
	}
	defer func() { _ = feed.Close() }()
	wg.Go(func() { followDeletions(ctx, t, m, feed, want) })
	for range 2 {
		wg.Go(func() { ask(ctx, t, c) })
	}
	wg.Go(func() {
		for ctx.Err() == nil {
			m.Tend(ctx)
			now := m.Stats().Revision
			if _, err := m.Store().Compact(ctx, store.Compaction{UpTo: max(1, now-10)}); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	writeMuch(t, c, rand.New(rand.NewPCG(seed, 1)), want)
	stop()
	wg.Wait()
}

// followDeletions compares the deletions that a reader of the log sees with those expected.
func followDeletions(ctx context.Context, t *testing.T, m *mirror.Mirror, feed store.Changes, want *expected) {
	known, forgotten := 0, 0
	for {
		batch, err := feed.Next(ctx)
		if err != nil {
			if ctx.Err() == nil {
				t.Error(err)
			}
			if known < 10 || known < forgotten {
				t.Errorf("of %d deletions only %d are known", known+forgotten, known)
			}
			return
		}
		for _, change := range batch.Changes {
			if !change.Deleted {
				continue
			}
			want := want.take(change.Key)
			got, err := m.Deleted(change.Key, change.Revision)
			switch _, compacted := errors.AsType[*store.CompactedError](err); {
			case compacted && change.Revision < m.Stats().Floors["pods.v1"].Revision:
				forgotten++
			case err != nil || got != want:
				t.Errorf("revision %d of %s is a deletion at %d (%v), want %d", change.Revision, change.Key, got, err, want)
			default:
				known++
			}
		}
	}
}

// ask asks a collection everything.
func ask(ctx context.Context, t *testing.T, c *mirror.Collection) {
	for ctx.Err() == nil {
		reached := c.Reached()
		if err := c.Wait(ctx, reached+1); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		at, err := c.Position(reached, kube.ExpiredWatch)
		_, expired := errors.AsType[*kube.ExpiredError](err)
		if err != nil && !expired {
			t.Errorf("Position(%d): %v", reached, err)
		}
		if rv := c.Version(at); rv > c.Reached() {
			t.Errorf("Version(Position(%d)) = %d is ahead", reached, rv)
		}
		if newest := c.Newest(); newest < at {
			t.Errorf("Newest() = %d after %d", newest, at)
		}
		if c.Torn() {
			t.Error("it is torn")
		}
	}
}

// writeMuch appends and replaces.
func writeMuch(t *testing.T, c *mirror.Collection, r *rand.Rand, want *expected) {
	has, rv := map[string]bool{}, kube.ResourceVersion(0)
	for i := range 400 {
		var changes []mirror.Change
		var deleted []wire.Key
		from := rv
		replaces := i == 0 || r.IntN(5) == 0
		for range 1 + r.IntN(12) {
			rv += kube.ResourceVersion(1 + r.IntN(2))
			name := fmt.Sprint("o", r.IntN(6))
			switch {
			case !has[name]:
				has[name] = true
				changes = append(changes, put(name, rv))
			case replaces: // at most one of each name: none was changed before
			default:
				has[name] = false
				changes = append(changes, mirror.Change{Key: wire.Key{Name: name}, RV: rv})
				want.add(c.Key()+"/"+name, rv)
			}
		}
		if !replaces {
			if _, err := c.Append(t.Context(), changes, rv); err != nil {
				t.Errorf("append: %v", err)
				return
			}
			c.Progress(rv + 1)
			rv++
			continue
		}
		rv++
		for name, there := range has {
			if there && r.IntN(3) == 0 && !changesName(changes, name) {
				has[name] = false
				deleted = append(deleted, wire.Key{Name: name})
				want.add(c.Key()+"/"+name, from)
			}
		}
		if _, err := c.Replace(t.Context(), deleted, changes, rv); err != nil {
			t.Errorf("replace: %v", err)
			return
		}
	}
}

func changesName(changes []mirror.Change, name string) bool {
	for _, change := range changes {
		if change.Key.Name == name {
			return true
		}
	}
	return false
}
