package revlog_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/storetest"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random tests, 0 for a new one")

// seeded returns a source of randomness that -seed repeats.
func seeded(tb testing.TB) *rand.Rand {
	tb.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	tb.Logf("repeat with -seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// small makes segments of a few dozen records, so that everything happens often.
func small(fs *crashFS) revlog.Options {
	return revlog.Options{FS: fs, SegmentBytes: 4 << 10}
}

// life is a log that was written to, beside the oracle of what was acknowledged.
type life struct {
	oracle *storetest.Oracle
	random *rand.Rand
	// what was under way when it ended; it may have happened or not
	txn     store.Txn
	compact int64
}

func newLife(random *rand.Rand) *life {
	return &life{oracle: &storetest.Oracle{}, random: random}
}

// write does one random thing. An error means that its outcome is unknown.
func (f *life) write(ctx context.Context, l *revlog.Log) error {
	if revisions := f.oracle.Revisions(); f.random.IntN(25) == 0 && len(revisions) > 0 {
		f.compact = revisions[f.random.IntN(len(revisions))]
		if _, err := l.Compact(ctx, store.Compaction{UpTo: f.compact}); err != nil {
			return err
		}
		f.oracle.Compact(f.compact)
		f.compact = 0
		return nil
	}
	resource := []string{"pods", "pods", "pods", "nodes"}[f.random.IntN(4)]
	f.txn = store.Txn{Key: fmt.Sprintf("%s/%d", resource, f.random.IntN(6))}
	f.txn.ExpectedModRevision = f.oracle.Current(f.txn.Key)
	if f.txn.Delete = f.txn.ExpectedModRevision != 0 && f.random.IntN(4) == 0; !f.txn.Delete {
		f.txn.Value = make([]byte, f.random.IntN(700))
		for i := range f.txn.Value {
			f.txn.Value[i] = byte(1 + f.random.IntN(255))
		}
	}
	done, err := l.Commit(ctx, f.txn)
	if err != nil {
		return err
	}
	f.oracle.Add(done.Revision, f.txn)
	f.txn = store.Txn{}
	return nil
}

// settle finds out whether what was under way has happened.
func (f *life) settle(t *testing.T, l *revlog.Log) {
	t.Helper()
	stats := l.Stats()
	revisions := f.oracle.Revisions()
	last := int64(revlog.DefaultBaseRevision)
	if len(revisions) > 0 {
		last = revisions[len(revisions)-1]
	}
	if f.txn.Key != "" && stats.Revision == last+1 {
		f.oracle.Add(stats.Revision, f.txn)
	}
	if f.compact != 0 && stats.Compacted == f.compact {
		f.oracle.Compact(f.compact)
	}
	f.txn, f.compact = store.Txn{}, 0
}

// compare compares at a few revisions and at the last.
func (f *life) compare(t *testing.T, l *revlog.Log) {
	t.Helper()
	revisions := f.oracle.Revisions()
	if n := len(revisions); n > 6 {
		revisions = []int64{revisions[0], revisions[n-1], revisions[n-2], revisions[f.random.IntN(n)], revisions[f.random.IntN(n)]}
	}
	if err := f.oracle.CompareAt(t.Context(), l, revisions); err != nil {
		t.Fatal(err)
	}
}

// start opens a log and runs it; stop ends it whatever state it is in.
func start(t *testing.T, o revlog.Options) (l *revlog.Log, stop func() error, err error) {
	t.Helper()
	if l, err = revlog.Open(t.Context(), o); err != nil {
		return nil, nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- l.Run(context.WithoutCancel(t.Context())) }() // ends with Close
	return l, func() error { return errors.Join(l.Close(), <-ended) }, nil
}

// TestCrashLosesNothingAcknowledged crashes at random calls, also while a log
// recovers from the crash before.
func TestCrashLosesNothingAcknowledged(t *testing.T) {
	random := seeded(t)
	crashes, revisions := 0, 0
	for range 40 {
		fs := newCrashFS(random)
		f := newLife(random)
		for range 1 + random.IntN(8) {
			fs.crashAt = fs.calls + 1 + random.IntN([]int{60, 250}[random.IntN(2)])
			l, stop, err := start(t, small(fs))
			if err == nil {
				f.settle(t, l)
				f.compare(t, l)
				for err == nil {
					err = f.write(t.Context(), l)
				}
				_ = stop() // it cannot write what it wants to
			}
			if !errors.Is(err, errCrashed) {
				t.Fatalf("after %d crashes: %v", crashes, err)
			}
			fs = fs.image
			crashes++
		}
		l, stop, err := start(t, small(fs))
		if err != nil {
			t.Fatalf("after %d crashes: %v", crashes, err)
		}
		f.settle(t, l)
		f.compare(t, l)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		revisions += len(f.oracle.Revisions())
	}
	t.Logf("%d crashes, %d revisions, none lost", crashes, revisions)
}

// TestCrashAmongManyWritersLeavesNoGap crashes while groups are committed.
func TestCrashAmongManyWritersLeavesNoGap(t *testing.T) {
	random := seeded(t)
	const rounds, writers = 60, 8
	total := 0
	for range rounds {
		fs := newCrashFS(random)
		fs.crashAt = 30 + random.IntN(120)
		l, stop, err := start(t, small(fs))
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		acknowledged := map[int64]string{}
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for i := 0; ; i++ {
					key := fmt.Sprintf("pods/%d-%d", w, i)
					done, err := l.Commit(t.Context(), store.Txn{Key: key, Value: []byte(key)})
					if err != nil {
						return
					}
					mu.Lock()
					acknowledged[done.Revision] = key
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		_ = stop() // it has crashed
		l, stop, err = start(t, small(fs.image))
		if err != nil {
			t.Fatal(err)
		}
		changes, err := storetest.Collect(t.Context(), l, store.From{UpTo: max(1, l.Stats().Revision)})
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range changes {
			if c.Revision != revlog.DefaultBaseRevision+int64(i)+1 || string(c.Value) != c.Key {
				t.Fatalf("change %d has revision %d and value %q", i, c.Revision, c.Value)
			}
			if key, ok := acknowledged[c.Revision]; ok && key != c.Key {
				t.Fatalf("revision %d was acknowledged for %s, now it is %s", c.Revision, key, c.Key)
			}
			delete(acknowledged, c.Revision)
		}
		if len(acknowledged) > 0 {
			t.Fatalf("lost after a crash: %v", acknowledged)
		}
		total += len(changes)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d crashes, %d revisions", rounds, total)
}

// TestFailedCallsNeverLoseOrInvent fails every call of a workload once, each in
// a run of its own, and for good.
func TestFailedCallsNeverLoseOrInvent(t *testing.T) {
	for _, kind := range []struct {
		name string
		err  error
		once bool
	}{{"EIO once", syscall.EIO, true}, {"EIO for good", syscall.EIO, false}, {"ENOSPC once", syscall.ENOSPC, true}} {
		t.Run(kind.name, func(t *testing.T) {
			seed := seeded(t).Uint64()
			for failing := 1; ; failing++ {
				random := rand.New(rand.NewPCG(seed, 1))
				fs := newCrashFS(random)
				reached := false
				fs.hook = func(call int, _ string) error {
					if call == failing || call > failing && !kind.once {
						reached = true
						return kind.err
					}
					return nil
				}
				surviveFailure(t, fs, newLife(random))
				if !reached {
					t.Logf("%d calls failed", failing-1)
					return
				}
			}
		})
	}
}

func surviveFailure(t *testing.T, fs *crashFS, f *life) {
	t.Helper()
	l, stop, err := start(t, small(fs))
	if err == nil {
		var poisoned *store.PoisonedError
		for range 40 {
			if err := f.write(t.Context(), l); err == nil {
				continue
			} else if p, ok := errors.AsType[*store.PoisonedError](err); ok {
				poisoned = p
				break
			} else if !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("write: %v", err)
			}
			// Refused and nothing else: the log is as it was before, except that
			// a compaction may be done although the merge after it failed.
			if f.compact != 0 && l.Stats().Compacted >= f.compact {
				f.oracle.Compact(f.compact)
			}
			f.txn, f.compact = store.Txn{}, 0
		}
		if poisoned != nil {
			under, compact := f.txn, f.compact
			if compact != 0 && l.Stats().Compacted >= compact {
				f.oracle.Compact(compact) // done, but the merge after it failed
			}
			if _, err := l.Commit(t.Context(), store.Txn{Key: "pods/later"}); !errors.Is(err, poisoned) {
				t.Fatalf("a write after the disk failed gives %v", err)
			}
			hook := fs.hook
			fs.mu.Lock()
			fs.hook = nil
			fs.mu.Unlock()
			f.compare(t, l) // reads go on
			fs.mu.Lock()
			fs.hook = hook
			fs.mu.Unlock()
			f.txn, f.compact = under, compact
		}
		_ = stop() // it says again that the disk failed
	}
	after := fs.clone()
	l, stop, err = start(t, small(after))
	if err != nil {
		t.Fatalf("open after a failed call: %v", err)
	}
	f.settle(t, l)
	f.compare(t, l)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// TestFullDiskRefusesWritesUntilThereIsSpace has no space for new files for a
// while.
func TestFullDiskRefusesWritesUntilThereIsSpace(t *testing.T) {
	fs := newCrashFS(seeded(t))
	l := open(t, small(fs))
	oracle := &storetest.Oracle{}
	full := false
	fs.hook = func(_ int, op string) error {
		if full && (op == "allocate" || op == "create") {
			return syscall.ENOSPC
		}
		return nil
	}
	refused := 0
	for i := range 60 {
		fs.mu.Lock()
		full = i >= 20 && i < 40
		fs.mu.Unlock()
		txn := store.Txn{Key: fmt.Sprintf("pods/%d", i), Value: make([]byte, 500)}
		done, err := l.Commit(t.Context(), txn)
		if _, ok := errors.AsType[*store.NoSpaceError](err); ok {
			refused++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		oracle.Add(done.Revision, txn)
	}
	if err := oracle.Compare(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	if refused < 10 || refused > 20 {
		t.Errorf("%d writes were refused of the 20 while the disk was full", refused)
	}
}
