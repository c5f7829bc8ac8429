package listwatchtest

import (
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Random draws faults of every kind; its method Next is a rule for [Server.Fail]. Rate is
// the fraction of requests that fail, from 0 to 1. The others get random valid answers: a
// delay, another page size.
type Random struct {
	Rand *rand.Rand
	Rate float64

	endless  string
	requests int // how many more requests endless applies to
}

// Next draws the fault of a request.
func (d *Random) Next(r Request) Fault {
	rng := d.Rand
	f := Fault{}
	if d.endless != "" {
		f.Endless = d.endless
		if d.requests--; d.requests == 0 {
			d.endless = ""
		}
	}
	late := rng.IntN(2) == 0
	f.Late, f.AcceptLost = late, late
	if rng.IntN(8) == 0 {
		f.Delay = time.Duration(rng.IntN(5000)) * time.Millisecond
	}
	if rng.IntN(2) == 0 {
		f.Page = []int{1, 2, 3, 4, 500}[rng.IntN(5)]
	}
	if rng.Float64() >= d.Rate {
		return f
	}
	d.draw(&f, r)
	if rng.IntN(4) == 0 {
		f.Repeat = rng.IntN(8)
		f.RefuseAhead = f.Repeat%2 == 1
	}
	if rng.IntN(4) == 0 {
		f.Twice = true
	}
	return f
}

func (d *Random) draw(f *Fault, r Request) {
	rng := d.Rand
	switch rng.IntN(21) {
	case 0:
		f.Refuse = true
	case 1:
		f.Hang = rng.IntN(2) == 0
		f.Delay = time.Duration(rng.IntN(50)) * time.Second
	case 2:
		f.Status, f.Reason = 410, metav1.StatusReasonExpired
	case 3:
		f.Status, f.Reason, f.RetryAfter = 429, metav1.StatusReasonTooManyRequests, rng.IntN(20)
	case 4:
		f.Status = pick(rng, 401, 403, 404, 409, 500, 503, 504, 400, 405, 422, 413)
		f.RetryAfter = rng.IntN(3)
	case 5:
		f.Status, f.TooLarge = 504, true
	case 6:
		f.Behind = 1 + rng.IntN(5)
	case 7:
		f.NoBookmarks, f.Behind = true, rng.IntN(3)
	case 8:
		f.NoEnd, f.NoBookmarks = true, rng.IntN(2) == 0
	case 9:
		f.Plain = true
	case 10:
		f.Live, f.Twice = true, rng.IntN(2) == 0
	case 11:
		f.ExpireTokens, f.Page = true, 1+rng.IntN(2)
	case 12:
		f.NoRV, f.OldBookmark = rng.IntN(4) == 0, true
	case 13:
		bad := pick(rng, `null`, `7`, `{"metadata":{}}`, `{"metadata":7}`, `[]`, `{"kind":"Status"}`)
		f.Bad, f.BadAfter, f.Unknown = bad, rng.IntN(4), bad
	case 14:
		f.SwapTypes = true
	case 20:
		d.endless, d.requests = pick(rng, "circle", "barren"), 1+rng.IntN(100)
	default:
		f.After, f.RetryAfter = rng.IntN(12), 3
		f.End = pick(rng, "eof", "cut", "half", "garbage", "silent", "410", "504", "429", "500", "403", "odd")
		if !r.Watch {
			f.End = pick(rng, "cut", "half", "garbage", "silent")
		}
	}
}

func pick[V any](rng *rand.Rand, of ...V) V { return of[rng.IntN(len(of))] }
