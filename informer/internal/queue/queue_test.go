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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/informer/internal/handle"
	"github.com/gapless-io/gapless/informer/internal/incident"
	"github.com/gapless-io/gapless/informer/internal/queue"
	"github.com/gapless-io/gapless/informer/internal/state"
)

// object is version n of an object.
type object struct {
	metav1.ObjectMeta

	n int
}

// TestQueueDeliversTheChangesOfEachKeyInOrder plays changes at random against a handler that
// fails, and compares what the handler handled with the newest states. The seed is
// in the name.
func TestQueueDeliversTheChangesOfEachKeyInOrder(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playQueue(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func playQueue(t *testing.T, rng *rand.Rand) {
	var mu sync.Mutex // guards handled, newest and failing
	handled, newest, failing := map[handle.Key]*object{}, map[handle.Key]int{}, rng.IntN(5)
	fails := rand.New(rand.NewPCG(rng.Uint64(), 2))
	call := func(_ context.Context, e queue.Delivery[*object]) error {
		mu.Lock()
		defer mu.Unlock()
		now := e.New.Get()
		if now != nil {
			if now.n < newest[e.Key] {
				t.Errorf("%v: %d after %d", e.Key, now.n, newest[e.Key])
			}
			newest[e.Key] = now.n
		}
		if e.Kind == queue.Modified && e.Old.Get() != handled[e.Key] {
			t.Errorf("%v: Old is %v, handled last was %v", e.Key, e.Old, handled[e.Key])
		}
		if fails.IntN(10) < failing {
			return errors.New("no")
		}
		if handled[e.Key] = now; now == nil {
			delete(handled, e.Key)
		}
		return nil
	}
	o := queue.Options{Workers: 1 + rng.IntN(3), RetryMin: time.Second, RetryMax: time.Minute, KeysOnly: rng.IntN(3) == 0}
	if !o.KeysOnly && rng.IntN(2) == 0 {
		o.Every, o.WhenFull = 1+rng.IntN(20), queue.Merge
	}
	q := queue.New(call, queue.Filter[*object]{}, o, func(incident.Incident) {})
	q.Prime()
	var workers sync.WaitGroup
	q.Start(t.Context(), workers.Go)
	now := map[handle.Key]*object{}
	for n := range 300 {
		k := handle.Key{Name: fmt.Sprint(rng.IntN(10))}
		switch old := now[k]; {
		case rng.IntN(5) == 0:
			q.Enqueue(k, handle.Of(old), "")
		case old != nil && rng.IntN(3) == 0:
			delete(now, k)
			q.Add([]state.Change[*object]{{Key: k, Old: handle.Of(old)}}, false)
		default:
			now[k] = &object{n: n}
			q.Add([]state.Change[*object]{{Key: k, Old: handle.Of(old), New: handle.Of(now[k])}}, false)
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
	if len(handled) != len(now) {
		t.Errorf("%d handled, %d there", len(handled), len(now))
	}
	for k, s := range now {
		if handled[k] != s {
			t.Errorf("%v: handled %v, is %v", k, handled[k], s)
		}
	}
	q.Stop(errors.New("the end"))
	workers.Wait()
}
