package informer_test

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// flaw is what is wrong with one answer.
type flaw struct {
	delay   time.Duration
	refuse  bool
	hang    bool
	err     error // the answer
	after   int   // items or frames before the end
	end     string
	late    bool // a LIST tells what was there when it was asked; a restored server does not say so
	lag     int  // revisions behind
	early   int  // a watch begins that many revisions before
	again   bool // events come again
	confuse bool // ADDED for MODIFIED, and the other way round
	back    bool // a bookmark from before the position
	silent  bool // no bookmarks
	noEnd   bool // no end bookmark
	plain   bool // a streaming list is a watch
	live    bool // changes before the end bookmark
	garbage string
	pages   int // items on a page
	expire  bool
	noRV    bool
}

var (
	ends     = []string{"eof", "cut", "garbage", "silent", "410", "504", "429", "500", "403", "odd"}
	rubbish  = []string{`null`, `7`, `{"metadata":{}}`, `{"metadata":7}`, `[]`, `{"kind":"Status"}`}
	refusals = []int{401, 403, 404, 409, 500, 503, 504, 400, 405, 422, 413}
)

// flawLocked draws what goes wrong with a request.
func (b *backend) flawLocked() flaw {
	f, rng := flaw{pages: 500}, b.rng
	if b.healed {
		return f
	}
	f.late = rng.IntN(2) == 0
	if rng.IntN(8) == 0 {
		f.delay = time.Duration(rng.IntN(5000)) * time.Millisecond
	}
	if rng.IntN(2) == 0 {
		f.pages = 1 + rng.IntN(4)
	}
	if rng.Float64() >= b.wildness {
		return f
	}
	switch rng.IntN(20) {
	case 0:
		f.refuse = true
	case 1:
		f.hang = rng.IntN(2) == 0
		f.delay = time.Duration(rng.IntN(50)) * time.Second
	case 2:
		f.err = refusal(410, "Expired", 0)
	case 3:
		f.err = refusal(429, "TooManyRequests", rng.IntN(20))
	case 4:
		f.err = refusal(refusals[rng.IntN(len(refusals))], "", rng.IntN(3))
	case 5:
		f.err = tooLarge()
	case 6:
		f.lag = 1 + rng.IntN(5)
	case 7:
		f.silent = true
		f.lag = rng.IntN(3)
	case 8:
		f.noEnd, f.silent = true, rng.IntN(2) == 0
	case 9:
		f.plain = true
	case 10:
		f.live, f.again = true, rng.IntN(2) == 0
	case 11:
		f.expire = true
		f.pages = 1 + rng.IntN(2)
	case 12:
		f.noRV = rng.IntN(4) == 0
		f.back = true
	case 13:
		f.garbage = rubbish[rng.IntN(len(rubbish))]
	case 14:
		f.confuse = true
	default:
		f.end = ends[rng.IntN(len(ends))]
		f.after = rng.IntN(12)
	}
	if rng.IntN(4) == 0 {
		f.early = rng.IntN(8)
	}
	if rng.IntN(4) == 0 {
		f.again = true
	}
	return f
}

func refusal(code int, reason metav1.StatusReason, after int) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: "Failure", Code: int32(code), Reason: reason,
		Details: &metav1.StatusDetails{RetryAfterSeconds: int32(after)},
	}}
}

func tooLarge() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: "Failure", Code: 504, Reason: "Timeout", Message: "Timeout: Too large resource version: 9, current: 1",
	}}
}
