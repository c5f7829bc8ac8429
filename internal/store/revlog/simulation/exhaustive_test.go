package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/revlog/disk/disktest"
)

// script is a short life: enough for segments to be filled, compacted and merged.
func (l *life) script() error {
	write := func(key string, size int, remove bool) error {
		m := l.h.model
		l.h.values++
		t := store.Txn{Key: key, ExpectedModRevision: m.current(key), Delete: remove}
		if !remove {
			t.Value = fmt.Appendf(nil, "%0*d.", size, l.h.values)
		}
		f := m.begin(t)
		done, err := l.log.Commit(l.ctx, t)
		l.outcome(l.ctx, f, done.Revision, err)
		return err
	}
	for i := range 12 {
		if i == 5 {
			l.append(l.random, []revlog.Write{
				{Key: "mirror/a", Value: []byte("first")},
				{Key: "mirror/b", Value: []byte("second")},
				{Key: "mirror/a", Delete: true, WithPrevious: true},
				{Key: "~mirror/mark", Value: []byte("third"), WithPrevious: true},
			})
		}
		if err := write(keys[i%3], 700, i == 7); err != nil {
			return err
		}
		if i%4 != 3 {
			continue
		}
		l.h.model.delivered = l.h.model.head()
		done, err := l.log.Compact(l.ctx, store.Compaction{UpTo: l.h.model.head() - int64(i%3)})
		if err != nil {
			return err
		}
		l.h.model.compact(done)
	}
	return write("nodes/a", 20, false)
}

// scripted plays the script on the disk, which may crash, and closes the log.
func (h *history) scripted(t *testing.T, fault disktest.Fault) {
	t.Helper()
	l := &life{h: h, random: h.random, options: revlog.Options{FS: h.disk, SegmentBytes: 4 << 10}}
	l.ctx, l.cancel = context.WithCancel(t.Context())
	defer l.cancel()
	h.disk.SetFault(fault)
	var err error
	if l.log, err = revlog.Open(l.ctx, l.options); err != nil {
		if !errors.Is(err, disktest.ErrCrashed) {
			h.model.fail("open: %w", err)
		}
		return
	}
	if l.recovered(); h.model.problem != nil {
		_ = l.log.Close()
		return
	}
	ended := make(chan error, 1)
	go func() { ended <- l.log.Run(context.WithoutCancel(l.ctx)) }() // ends with Close
	if err := l.script(); err != nil && !errors.Is(err, disktest.ErrCrashed) {
		h.model.fail("write: %w", err)
	}
	if err := errors.Join(l.log.Close(), <-ended); err != nil && !errors.Is(err, disktest.ErrCrashed) {
		h.model.fail("close: %w", err)
	}
}

// crashAt crashes at a call.
func crashAt(call int) disktest.Fault {
	return func(op disktest.Op) error {
		if op.Call == call {
			return disktest.ErrCrashed
		}
		return nil
	}
}

// TestEveryCrashPoint crashes a short life at each of its operations, and after
// each of these crashes the next life at each operation of its start, by the end of
// the process and by power loss, and again.
func TestEveryCrashPoint(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	lives := 0
	begin := func(seed int) *history {
		return &history{
			random: rand.New(rand.NewPCG(uint64(seed), 1)), model: newModel(),
			disk: disktest.New(rand.New(rand.NewPCG(uint64(seed), 2))),
		}
	}
	// one plays a history that crashes at the calls, and returns how many calls the
	// life after the last crash made.
	one := func(seed int, calls ...int) int {
		h := begin(seed)
		synctest.Test(t, func(t *testing.T) {
			for i, call := range calls {
				lives++
				h.scripted(t, crashAt(call))
				h.disk.Crash()
				if (seed>>i)&1 == 0 {
					h.disk = h.disk.ProcessCrash()
				} else {
					h.disk = h.disk.PowerLoss()
				}
			}
			lives++
			h.scripted(t, nil)
		})
		if h.model.problem != nil {
			t.Fatalf("crashes at %v with seed %d: %v", calls, seed, h.model.problem)
		}
		return h.disk.Calls()
	}
	all := one(0)
	for call := 1; call <= all; call++ {
		for seed := range 4 {
			one(seed, call)
		}
	}
	// How many operations a start makes differs with the crash before: 60 cover it.
	stride := 29
	if *allFlag {
		stride = 1
	}
	for call := 1; call <= all; call += stride {
		for second := 1; second <= 60; second++ {
			for seed := range 4 {
				one(seed, call, second)
			}
		}
	}
	t.Logf("%d operations in the life, %d lives", all, lives)
}
