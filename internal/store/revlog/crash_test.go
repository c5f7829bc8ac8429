package revlog_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/revlog/disk/disktest"
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
func small(fs *disktest.Disk) revlog.Options {
	return revlog.Options{FS: fs, SegmentBytes: 4 << 10}
}

// life is a log that was written to, beside the oracle of what was acknowledged.
type life struct {
	oracle *storetest.Oracle
	random *rand.Rand
	// what was in progress when it ended; it may have happened or not
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

// resolve finds out whether the operation in progress took effect.
func (f *life) resolve(t *testing.T, l *revlog.Log) {
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
		revisions = []int64{
			revisions[0], revisions[n-1], revisions[n-2], revisions[f.random.IntN(n)], revisions[f.random.IntN(n)],
		}
	}
	if err := f.oracle.CompareAt(t.Context(), l, revisions); err != nil {
		t.Fatalf("compare the states: %v", err)
	}
	addUp(t, l)
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

// TestFailedCallsNeverLoseOrInventWrites fails every call of a workload once, each in
// a run of its own, and for good.
func TestFailedCallsNeverLoseOrInventWrites(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, kind := range []struct {
		name string
		err  error
		once bool
	}{{"EIO once", syscall.EIO, true}, {"EIO for good", syscall.EIO, false}, {"ENOSPC once", syscall.ENOSPC, true}} {
		t.Run(kind.name, func(t *testing.T) {
			seed := seeded(t).Uint64()
			for failing := 1; ; failing++ {
				random := rand.New(rand.NewPCG(seed, 1))
				fs := disktest.New(random)
				reached := false
				fault := func(op disktest.Op) error {
					if op.Call == failing || op.Call > failing && !kind.once {
						reached = true
						return kind.err
					}
					return nil
				}
				surviveFailure(t, fs, fault, newLife(random))
				if !reached {
					t.Logf("%d calls failed", failing-1)
					return
				}
			}
		})
	}
}

func surviveFailure(t *testing.T, fs *disktest.Disk, fault disktest.Fault, f *life) {
	t.Helper()
	fs.SetFault(fault)
	l, stop, err := start(t, small(fs))
	if err == nil {
		var poisoned *store.PoisonedError
		for range 40 {
			if err := f.write(t.Context(), l); err == nil {
				continue
			} else if p, ok := errors.AsType[*store.PoisonedError](err); ok {
				poisoned = p
				break
			} else if errors.Is(err, store.ErrOutcomeUnknown) {
				break // resolve finds out
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
			fs.SetFault(nil)
			f.compare(t, l) // reads still work
			fs.SetFault(fault)
			f.txn, f.compact = under, compact
		}
		_ = stop() // it says again that the disk failed
	}
	after := fs.Clone()
	l, stop, err = start(t, small(after))
	if err != nil {
		t.Fatalf("open after a failed call: %v", err)
	}
	f.resolve(t, l)
	f.compare(t, l)
	if err := stop(); err != nil {
		t.Fatalf("stop: %v", err)
	}
}

// TestFullDiskRefusesWritesUntilThereIsSpace has no space for new files for a
// while.
func TestFullDiskRefusesWritesUntilThereIsSpace(t *testing.T) {
	fs := disktest.New(seeded(t))
	l := open(t, small(fs))
	oracle := &storetest.Oracle{}
	full := func(op disktest.Op) error {
		if op.Kind == "allocate" || op.Kind == "create" {
			return syscall.ENOSPC
		}
		return nil
	}
	refused := 0
	for i := range 60 {
		switch i {
		case 20:
			fs.SetFault(full)
		case 40:
			fs.SetFault(nil)
		}
		txn := store.Txn{Key: fmt.Sprintf("pods/%d", i), Value: make([]byte, 500)}
		done, err := l.Commit(t.Context(), txn)
		if _, ok := errors.AsType[*store.UnavailableError](err); ok {
			refused++
			continue
		}
		if err != nil {
			t.Fatalf("commit: %v", err)
		}
		oracle.Add(done.Revision, txn)
	}
	if err := oracle.Compare(t.Context(), l); err != nil {
		t.Fatalf("compare with the oracle: %v", err)
	}
	if refused < 10 || refused > 20 {
		t.Errorf("%d writes were refused of the 20 while the disk was full", refused)
	}
}
