package informer_test

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// churn changes a world's objects at random.
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

// randomFault draws what goes wrong with a request.
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
