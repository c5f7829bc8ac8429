package mirror_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/disk/disktest"
)

// play plays histories until there were enough operations.
func play(t *testing.T, name string, history func(t *testing.T, w *world) error) {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	ops, histories, seen := 0, uint64(0), map[string]int{}
	for ; histories == 0 || ops < *opsFlag; histories++ {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(seed + histories)
			if err := history(t, w); err != nil {
				t.Errorf("%v\nplay it again with: go test ./internal/mirror -run '^%s$' -ops 1 -seed %d",
					err, name, seed+histories)
			}
			ops += w.ops
			for what, n := range w.seen {
				seen[what] += n
			}
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("from seed %d: %d histories, %d operations; %v", seed, histories, ops, seen)
}

// TestTheMirrorHasTheStatesOfItsSource does everything at random, with clean restarts.
func TestTheMirrorHasTheStatesOfItsSource(t *testing.T) {
	play(t, t.Name(), func(t *testing.T, w *world) error {
		for range 1 + w.random.IntN(5) {
			if err := w.begin(t); err != nil {
				return err
			}
			for range 1 + w.random.IntN(60) {
				err := w.step(t.Context())
				for _, o := range w.oracles {
					if err == nil {
						if err = w.check(t.Context(), w.open[o], o); err != nil {
							err = fmt.Errorf("%s: %w", o.name, err)
						}
					}
				}
				if err != nil {
					return errors.Join(err, w.close())
				}
			}
			if err := w.close(); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestTheMirrorHasTheStatesOfItsSourceAfterCrashes crashes the process or the machine at random
// operations of the disk, and lets operations fail before, while history is compacted.
func TestTheMirrorHasTheStatesOfItsSourceAfterCrashes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	play(t, t.Name(), func(t *testing.T, w *world) error {
		lives := 2 + w.random.IntN(8)
		for life := range lives {
			last := life == lives-1
			w.faults = !last
			w.disk.SetFault(nil)
			if !last {
				w.disk.SetFault(w.crash())
			}
			if err := w.live(t); err != nil {
				return err
			}
			w.disk.Crash()
			if w.random.IntN(2) == 0 {
				w.disk = w.disk.ProcessCrash()
			} else {
				w.disk = w.disk.PowerLoss()
			}
		}
		return nil
	})
}

// crash are the faults of one life.
func (w *world) crash() disktest.Fault {
	r := rand.New(rand.NewPCG(w.random.Uint64(), 4))
	at := 1 + r.IntN([]int{30, 100, 300, 1000, 2000}[r.IntN(5)])
	var failing error
	from, to, kind := 0, 0, ""
	if r.IntN(2) == 0 {
		failing = injected[r.IntN(len(injected))]
		from = r.IntN(at + 1)
		to = from + 1 + r.IntN([]int{1, 1, 10, 100}[r.IntN(4)])
		kind = []string{"write", "write", "sync", "allocate", "rename", "syncdir"}[r.IntN(6)]
	}
	return func(op disktest.Op) error {
		switch {
		case op.Call == at:
			return disktest.ErrCrashed
		case failing != nil && op.Call >= from && op.Call < to && op.Kind == kind:
			return failing
		}
		return nil
	}
}

// live plays one life, until the crash.
func (w *world) live(t *testing.T) error {
	pauses := rand.New(rand.NewPCG(w.random.Uint64(), 3))
	var mu sync.Mutex // of pauses
	w.disk.SetWait(func(op disktest.Op) {
		if op.Kind == "write" || op.Kind == "sync" {
			mu.Lock()
			d := time.Duration(1 + pauses.Int64N(int64(300*time.Microsecond)))
			mu.Unlock()
			<-time.After(d)
		}
	})
	if err := w.begin(t); err != nil {
		if w.mayFail(err) {
			return nil
		}
		return err
	}
	done := make(chan struct{})
	compacted := make(chan error, 1)
	own := rand.New(rand.NewPCG(w.random.Uint64(), 5))
	go func() { compacted <- w.compactor(t, own, done) }() // it ends with done
	var err error
	for i := 0; i < 60 && err == nil && !w.disk.Crashed(); i++ {
		if err = w.step(t.Context()); w.mayFail(err) {
			err = nil
			break // a collection could not be opened
		}
		for _, o := range w.oracles {
			if err == nil && !w.disk.Crashed() {
				if err = w.check(t.Context(), w.open[o], o); err != nil {
					err = fmt.Errorf("%s: %w", o.name, err)
				}
			}
		}
		if w.m.Durable() != nil {
			break
		}
	}
	close(done)
	err = errors.Join(err, <-compacted)
	if closing := w.close(); closing != nil && !w.mayFail(closing) {
		err = errors.Join(err, closing)
	}
	return err
}

// compactor compacts history beside everything else.
func (w *world) compactor(t *testing.T, r *rand.Rand, done <-chan struct{}) error {
	for {
		select {
		case <-done:
			return nil
		case <-time.After(time.Duration(1 + r.Int64N(int64(50*time.Millisecond)))):
		}
		upTo := w.m.Stats().Revision - r.Int64N([]int64{1, 10, 100}[r.IntN(3)])
		_, err := w.m.Store().Compact(t.Context(), store.Compaction{UpTo: max(1, upTo), Purge: r.IntN(4) == 0})
		if err != nil && !w.mayFail(err) && !slices.Contains([]error{store.ErrClosed}, err) {
			return fmt.Errorf("compact up to %d: %w", upTo, err)
		}
	}
}
