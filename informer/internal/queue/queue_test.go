package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless/informer/internal/queue"
)

// state is an object: version n of it.
type state struct{ n int }

// TestQueueTellsEachKeysWayInOrder plays changes at random against a handler that
// fails, and compares what the handler handled with the newest states. The seed is
// in the name.
func TestQueueTellsEachKeysWayInOrder(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playQueue(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func playQueue(t *testing.T, rng *rand.Rand) {
	var mu sync.Mutex // guards told, newest and failing
	told, newest, failing := map[queue.Key]*state{}, map[queue.Key]int{}, rng.IntN(5)
	fails := rand.New(rand.NewPCG(rng.Uint64(), 2))
	handle := func(_ context.Context, e queue.Told[*state]) error {
		mu.Lock()
		defer mu.Unlock()
		if e.New != nil {
			if e.New.n < newest[e.Key] {
				t.Errorf("%v: %d after %d", e.Key, e.New.n, newest[e.Key])
			}
			newest[e.Key] = e.New.n
		}
		if e.Kind == queue.Modified && e.Old != told[e.Key] {
			t.Errorf("%v: the way from %v, was told %v", e.Key, e.Old, told[e.Key])
		}
		if fails.IntN(10) < failing {
			return errors.New("no")
		}
		if told[e.Key] = e.New; e.New == nil {
			delete(told, e.Key)
		}
		return nil
	}
	o := queue.Options{Workers: 1 + rng.IntN(3), RetryMin: time.Second, RetryMax: time.Minute, KeysOnly: rng.IntN(3) == 0}
	if !o.KeysOnly && rng.IntN(2) == 0 {
		o.Every, o.WhenFull = 1+rng.IntN(20), queue.Restate
	}
	q := queue.New(handle, queue.Filter[*state]{}, o, func(queue.Trouble) {})
	q.Prime()
	var workers sync.WaitGroup
	q.Start(t.Context(), workers.Go)
	now := map[queue.Key]*state{}
	for n := range 300 {
		k := queue.Key{Name: fmt.Sprint(rng.IntN(10))}
		switch old := now[k]; {
		case rng.IntN(5) == 0:
			q.Ask(k, old, "")
		case old != nil && rng.IntN(3) == 0:
			delete(now, k)
			q.Add([]queue.Change[*state]{{Key: k, Old: old}}, false)
		default:
			now[k] = &state{n}
			q.Add([]queue.Change[*state]{{Key: k, Old: old, New: now[k]}}, false)
		}
		if rng.IntN(4) == 0 {
			<-time.After(time.Duration(rng.IntN(3000)) * time.Millisecond)
		}
	}
	mu.Lock()
	failing = 0
	mu.Unlock()
	<-time.After(10 * time.Minute)
	if q.Keys() != 0 || q.Lag() != 0 {
		t.Errorf("%d keys are left, lag %v", q.Keys(), q.Lag())
	}
	if len(told) != len(now) {
		t.Errorf("%d told, %d there", len(told), len(now))
	}
	for k, s := range now {
		if told[k] != s {
			t.Errorf("%v: told %v, is %v", k, told[k], s)
		}
	}
	q.Stop(errors.New("the end"))
	workers.Wait()
}
