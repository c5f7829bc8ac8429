package informer_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/informer"
)

var (
	seed  = flag.Uint64("seed", 0, "replay one seed of TestRandomServers (0: all)")
	seeds = flag.Uint64("seeds", 150, "how many seeds TestRandomServers plays")
)

// TestRandomServers plays servers that fail in every way at random, with handlers
// that fail too, and then lets them heal. Afterwards the cache and every handler
// hold the server's state, each handler was told each key's way in order (the
// recorder checks that), and an unchanged state was never told again.
func TestRandomServers(t *testing.T) {
	first, last := uint64(1), *seeds
	if testing.Short() {
		last = min(last, 50)
	}
	if *seed != 0 {
		first, last = *seed, *seed
	}
	for n := first; n <= last; n++ {
		ok := t.Run(fmt.Sprintf("seed=%d", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playSeed(t, rand.New(rand.NewPCG(n, 1)), rand.New(rand.NewPCG(n, 2))) })
		})
		if !ok {
			t.Fatalf("replay with -run TestRandomServers -seed %d", n)
		}
	}
}

// playSeed takes the faults from a source of their own, because requests come from
// the informer's goroutine.
func playSeed(t *testing.T, rng, faulty *rand.Rand) {
	w := newWorld()
	for n := range rng.IntN(30) {
		w.put(fmt.Sprint("o", n), n)
	}
	healed := false
	w.fault = func(request) fault {
		w.mu.Lock()
		defer w.mu.Unlock()
		if healed {
			return fault{}
		}
		return randomFault(faulty)
	}
	var opts []informer.Option
	if rng.IntN(3) == 0 {
		opts = append(opts, informer.NoStreamingLists())
	}
	i := w.informer(opts...)
	var recs []*recorder
	for n := range 1 + rng.IntN(3) {
		recs = append(recs, addRandomHandler(t, i, rng, n))
	}
	twice := rng.IntN(4) == 0
	run(t, i, func() {
		churn(w, rng, 200)
		if !twice {
			settle(t, w, i, recs, func() { healed = true })
		}
	})
	if twice { // stopped in the middle of it, and run again
		churn(w, rng, 20)
		run(t, i, func() {
			recs = append(recs, addRandomHandler(t, i, rng, 0))
			churn(w, rng, 50)
			settle(t, w, i, recs, func() { healed = true })
		})
	}
	for _, rec := range recs {
		rec.stop()
		rec.check(t)
	}
}

// settle heals the server and compares.
func settle(t *testing.T, w *world, i *informer.Informer[*thing], recs []*recorder, heal func()) {
	t.Helper()
	w.mu.Lock()
	heal()
	w.mu.Unlock()
	after(30 * time.Minute)
	want := w.state(t)
	if diff := cmp.Diff(want, cached(i)); diff != "" {
		t.Errorf("cache (-server +cache):\n%s\n%v", diff, kinds(w))
	}
	for _, rec := range recs {
		if diff := rec.missing(t, w); diff != "" {
			t.Errorf("%s (-server +handler):\n%s", rec.name, diff)
		}
	}
}

func churn(w *world, rng *rand.Rand, ops int) {
	for range ops {
		name := fmt.Sprint("o", rng.IntN(40))
		switch d := rng.IntN(20); {
		case d < 12:
			w.put(name, rng.IntN(1000))
		case d < 17:
			w.delete(name)
		case d < 18:
			w.delete(name)
			w.put(name, rng.IntN(1000))
		case d < 19:
			w.tick()
		default:
			w.compact()
		}
		if rng.IntN(3) == 0 {
			after(time.Duration(rng.IntN(10_000)) * time.Millisecond)
		}
		if rng.IntN(50) == 0 {
			after(time.Duration(rng.IntN(10)) * time.Minute)
		}
	}
}

func randomFault(rng *rand.Rand) fault {
	f := fault{}
	if rng.IntN(4) == 0 {
		f.delay = time.Duration(rng.IntN(5000)) * time.Millisecond
	}
	switch rng.IntN(16) {
	case 0:
		f.refuse = true
	case 1:
		f.hang = true
	case 2:
		f.status, f.reason = 410, "Expired"
	case 3:
		f.status, f.reason, f.retryAfter = 429, "TooManyRequests", rng.IntN(20)
	case 4:
		f.status = []int{401, 403, 404, 500, 503, 400, 422}[rng.IntN(7)]
	case 5:
		f.status, f.reason, f.tooLarge = 504, "Timeout", true
	case 6:
		f.stale = rng.IntN(5)
	case 7:
		f.noBookmarks = true
	case 8:
		f.noEnd = true
	default:
		f.end = []string{"eof", "cut", "half", "garbage", "silent", "410", "504", "429", "500"}[rng.IntN(9)]
		f.after = rng.IntN(60)
	}
	if rng.IntN(5) == 0 {
		f.repeat = rng.IntN(10)
	}
	if rng.IntN(8) == 0 {
		f.bad = []string{`null`, `7`, `{"metadata":{}}`, `{"metadata":7}`, `[]`}[rng.IntN(5)]
	}
	return f
}
