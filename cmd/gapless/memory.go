package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// The program is quiet when it allocates at most quietBytes in quietFor. An idle
	// watch allocates nothing.
	quietFor   = time.Second
	quietBytes = 256 << 10
	// worthBytes is how much it must have allocated since memory was last given back to
	// make a collection worthwhile.
	worthBytes = 4 << 20
	// mostGrowth is how far the heap may grow beyond what is in use, unless that is more.
	mostGrowth = 128 << 20
)

// gcPercent returns GOGC under load for a heap of which so many bytes are in use.
// Memory is given back in quiet times, so that a small heap may grow to three times of
// what is in use, which saves half of the collections. A large one gets Go's default:
// the bodies of an attacker must not be multiplied by three.
func gcPercent(live uint64) int {
	return int(min(max(mostGrowth*100/max(live, 1), 100), 200)) //nolint:gosec // at most 200
}

// collection is an object that nobody refers to: it lives until the next collection.
type collection struct{ _ *collection }

// afterCollection sends to ended when the next collection has ended.
func afterCollection(ended chan<- struct{}) {
	runtime.AddCleanup(&collection{}, func(ended chan<- struct{}) {
		select {
		case ended <- struct{}{}:
		default: // one is on its way
		}
	}, ended)
}

// giveBackMemory returns memory to the system whenever the program becomes quiet after
// work, until ctx ends. The runtime would keep the memory of a burst of lists for two
// minutes, and half of the heap for longer. It also releases pages of the program's own
// code. Unless the environment sets GOGC it sets that too, by the size of the heap. It
// starts when ready is closed: a start, which allocates more than it keeps, runs with the
// default.
func giveBackMemory(ctx context.Context, ready <-chan struct{}) {
	select {
	case <-ctx.Done():
		return
	case <-ready:
	}
	collected, percent := make(chan struct{}, 1), 0
	if os.Getenv("GOGC") == "" {
		collected <- struct{}{}
	}
	allocated, live := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}, []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	tick := time.NewTicker(quietFor)
	defer tick.Stop()
	var before, returned uint64
	for first := true; ; {
		select {
		case <-ctx.Done():
			return
		case <-collected:
			metrics.Read(live)
			if p := gcPercent(live[0].Value.Uint64()); p != percent {
				percent = p
				debug.SetGCPercent(percent)
			}
			afterCollection(collected)
			continue
		case <-tick.C:
		}
		metrics.Read(allocated)
		now := allocated[0].Value.Uint64()
		if now-before <= quietBytes && (first || now-returned > worthBytes) {
			runtime.GC() // pools and finalizers need a second collection
			debug.FreeOSMemory()
			releaseProgram()
			first, returned = false, now
		}
		before = now
	}
}
