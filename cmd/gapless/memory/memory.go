// Package memory gives memory that the program no longer needs back to the operating system, by [GiveBack].
package memory

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
	// dropped is how long after the last work caches have dropped what they keep for seconds after its last use, such as
	// lists. Less than keptBytes of work has left little in them.
	dropped   = 30 * time.Second
	keptBytes = 2 * worthBytes
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

// GiveBack returns memory to the system whenever the program becomes quiet after
// work, and again when caches have dropped what is no longer used, until ctx ends. The
// runtime would keep the memory of a burst of lists for two minutes, and half of the heap
// for longer. It also releases pages of the program's own code. Unless the environment sets
// GOGC it sets that too, by the size of the heap. It starts when ready is closed: a start,
// which allocates more than it keeps, runs with the default. It blocks until ctx ends; one
// call per process.
func GiveBack(ctx context.Context, ready <-chan struct{}) {
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
	var quiet quietness
	for {
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
		if quiet.worth(allocated[0].Value.Uint64(), time.Now()) {
			runtime.GC() // pools and finalizers need a second collection
			debug.FreeOSMemory()
			releaseProgram()
		}
	}
}

// quietness decides when memory is given back. It is used by one goroutine.
type quietness struct {
	before   uint64    // what had been allocated at the last tick
	returned uint64    // when memory was last given back after work
	again    time.Time // when it is to be given back without further work, see dropped; zero: not at all
}

// worth reports, each second, whether memory is to be given back, with what the program has allocated since its start.
func (q *quietness) worth(allocated uint64, now time.Time) bool {
	idle := allocated-q.before <= quietBytes
	q.before = allocated
	switch {
	case !idle:
		return false
	case allocated-q.returned > worthBytes: // also for what a start has allocated
		if allocated-q.returned > keptBytes {
			q.again = now.Add(dropped)
		}
		q.returned = allocated
		return true
	case q.again.IsZero() || now.Before(q.again):
		return false
	}
	q.again = time.Time{}
	return true
}
