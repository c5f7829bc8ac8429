package informer

import (
	"time"

	"github.com/gapless-io/gapless/informer/internal/transition"
)

// begin returns the first state of a stream.
func (o *options) begin() transition.State {
	return transition.State{NoStream: o.noStream, Tuning: o.tuning, Seed: o.seed()}
}

// Backoff sets the pause after a failure: least at first, then doubled after each
// failure, up to most, plus a random part of up to half of it. A longer Retry-After of the
// server is respected, up to 10 minutes. The pause returns to least after a watch that
// delivered something or lasted 10 s. The default is 800 ms to 30 s, as in client-go,
// which is 2 310 requests in a day of outage. Run returns an error if one of them is not
// positive, or most is less than least.
func Backoff(least, most time.Duration) Option {
	return func(o *options) { o.tuning.BackoffLeast, o.tuning.BackoffMost = least, most }
}

// SyncDeadline is the longest wait for the next object of a streaming list, or for the
// bookmark that marks its end. Some servers and proxies send the objects but never that
// bookmark (k9s #4044, kubernetes#135895): after the deadline the informer reports
// NoEndBookmark and uses LIST from then on. The default is 30 s. Run returns an error if
// it is not positive.
func SyncDeadline(d time.Duration) Option {
	return func(o *options) { o.tuning.SyncDeadline = d }
}

// Watchdog is how long a watch may be silent, without even a bookmark, before the
// informer closes it and opens another, with a Silent incident. No change is lost. It
// applies to servers that have sent a bookmark; other watches may be silent until their
// timeout, 5 to 10 minutes. The time is doubled after each watch that was silent from its
// beginning. The default is 90 s, one and a half times the period of Kubernetes'
// bookmarks; a shorter time closes idle watches. Run returns an error if it is not
// positive.
func Watchdog(silence time.Duration) Option {
	return func(o *options) { o.tuning.Silence = silence }
}

// Stop4xx makes Run return the error (see kube.Classify) if the server refuses the first
// list with a 401, 403 or 404, or refuses every form of it with another 4xx: for programs
// that should fail at the start. Without it, and always after the first list, the informer
// retries forever. 429 and 410 do not count.
func Stop4xx() Option {
	return func(o *options) { o.tuning.Stop4xx = true }
}

// NoComparison turns off the comparison of the cache with the server's objects after an
// outage or a long silence, which needs a LIST. A server whose history went back
// (WentBack) is then detected only by its resourceVersions. It is for servers or backends
// whose lists are limited or expensive.
func NoComparison() Option {
	return func(o *options) { o.tuning.NoComparison = true }
}
