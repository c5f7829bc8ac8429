package gc

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestWritesArePaced lets all workers write as fast as they may: what was not written
// before is made up for once, and the rest is spread over time, in steps.
func TestWritesArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const writes = 10_000
		var p pace
		began := time.Now()
		var mu sync.Mutex // guards left and at
		left, at := writes, map[time.Time]int{}
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for {
					mu.Lock()
					if left--; left < 0 {
						mu.Unlock()
						return
					}
					mu.Unlock()
					if err := p.wait(t.Context()); err != nil {
						t.Errorf("wait: %v", err)
					}
					mu.Lock()
					at[time.Now()]++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if took, least := time.Since(began), (writes-workers)*writeEvery; took < least || took > least+2*step {
			t.Errorf("%d writes took %v, want %v", writes, took, least)
		}
		if at[began] != workers {
			t.Errorf("%d writes begin at once, want one of each worker, %d", at[began], workers)
		}
		for when, n := range at {
			if when != began && n > int(step/writeEvery) {
				t.Errorf("%d writes begin at %v", n, when.Sub(began))
			}
		}
	})
}

func TestPaceEndsWithItsContext(t *testing.T) {
	var p pace
	for range workers {
		if err := p.wait(t.Context()); err != nil {
			t.Fatalf("wait: %v", err)
		}
	}
	ctx, end := context.WithCancel(t.Context())
	end()
	for p.wait(ctx) == nil { // the clock may have moved by some writes
	}
}
