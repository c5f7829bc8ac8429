package informer

import (
	"time"

	"github.com/gapless-io/gapless/informer/internal/course"
)

// begin is how a reflector begins.
func (o *options) begin() course.State {
	return course.State{NoStream: o.noStream, Tuning: o.tuning, Seed: o.seed()}
}

// Backoff is how long the informer waits after a failure: least at first, then twice
// as long each time, at most most, and up to half of it longer by chance. What the
// server asks for (Retry-After) is waited if that is more, up to 10 minutes. Only
// health makes it begin anew: a watch that said something or lived for 10 s. Without
// it: 800 ms to 30 s, as in client-go, which comes to 2 310 requests in a day of
// outage. Run returns an error if one of them is not positive, or most less than least.
func Backoff(least, most time.Duration) Option {
	return func(o *options) { o.tuning.BackoffLeast, o.tuning.BackoffMost = least, most }
}

// SyncDeadline is how long a streaming list may let wait for its next object, or for
// the bookmark that marks its end. Some servers and proxies stream objects and never
// that bookmark (k9s #4044, kubernetes#135895): after the deadline the state is read
// by LIST, then and in future, with a NoEndBookmark incident. Without it: 30 s. Run
// returns an error if it is not positive.
func SyncDeadline(d time.Duration) Option {
	return func(o *options) { o.tuning.SyncDeadline = d }
}

// Watchdog is how long a watch may say nothing, not even a bookmark, until it is taken
// for dead and opened again, with a Silent incident: nothing is lost but time. It holds
// for servers that have sent a bookmark; those of others have until the end of their
// time, 5 to 10 minutes. A server that breaks the habit is given twice the time after
// each watch that said nothing at all. Without it: 90 s, one and a half of what
// Kubernetes leaves between two bookmarks; less than that makes idle watches look dead.
// Run returns an error if it is not positive.
func Watchdog(silence time.Duration) Option {
	return func(o *options) { o.tuning.Silence = silence }
}

// Stop4xx lets Run give up and return the error, for kube.Classify, when the first
// state is refused with a 401, 403 or 404, or with another 4xx in every way there is to
// ask for it: for programs that should fail at the start rather than wait for somebody
// to mend it. Without it, and for every refusal after the first state, the informer
// tries again for ever. A 429 and a 410 are no such refusals.
func Stop4xx() Option {
	return func(o *options) { o.tuning.Stop4xx = true }
}
