package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// quietFor and quietBytes say when the program is quiet: it allocates no more than
	// so much in that time. A watch that is idle allocates nothing.
	quietFor   = time.Second
	quietBytes = 256 << 10
	// worthBytes is how much it must have allocated since memory was last given back
	// for that to be worth a collection.
	worthBytes = 4 << 20
	// gcPercent is how much the heap may grow between collections under load, unless
	// GOGC says otherwise: since quiet times give back, half of the collections can be
	// saved.
	gcPercent = 200
)

// giveBackMemory returns memory to the system whenever the program has become
// quiet after work, until ctx ends: what a burst of lists needed is not held for
// the two minutes, and the half of the heap, that the runtime would keep it. It
// also lets go of the parts of the program that only the start, or that work, has
// needed.
func giveBackMemory(ctx context.Context) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	allocated := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	tick := time.NewTicker(quietFor)
	defer tick.Stop()
	var before, returned uint64
	for first := true; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		metrics.Read(allocated)
		now := allocated[0].Value.Uint64()
		if now-before <= quietBytes && (first || now-returned > worthBytes) {
			debug.FreeOSMemory()
			forgetProgram()
			first, returned = false, now
		}
		before = now
	}
}
