// Package course is what a reflector does next, as a pure function of what it
// remembers and of how its last action ended.
//
// It has six nouns. A [State] is everything that a reflector remembers, a [Tuning]
// the numbers in it that users may set, a [Result] how an action ended, a [Step] what
// to do next, a [Phase] what it is doing, a [Trouble] what it has to report. [Next] is
// the table; testdata/table.md is all of it, written by a test.
//
// What the table promises, and its tests check by search and by random walks:
//
//   - It is total: each state knows what follows from each result, and a stop ends
//     each of them at once.
//   - It is never stuck: a server that is well is watched after at most one wait.
//   - It never hammers: while nothing is well (no frame, no watch of 10 s), at most
//     three requests per Tuning.BackoffMost in the long run, and whatever a server
//     does, at most one in 800 ms. A state that was read is read again at once only if
//     a watch lived for 10 s between.
//   - An outage of 24 hours costs 2 310 requests by default (client-go 0.37: 4 526).
package course

import (
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/gapless-io/gapless/kube"
)

// The numbers of the reflector. Where client-go has one, it is the same
// (client-go 0.37 tools/cache/reflector.go), so that servers see known behaviour.
const (
	pageSize = 500 // client-go tools/pager

	// herdJitter spreads what many clients do at the same moment, when a server comes
	// back or forgets history, without making anyone wait noticeably.
	herdJitter = 250 * time.Millisecond

	MinWatchTimeout = 5 * time.Minute // the request's timeoutSeconds is uniform in [5, 10) min
	WatchGrace      = 30 * time.Second
	OpenDeadline    = 30 * time.Second // for the head of the answer
	ListSilence     = 60 * time.Second // between two items; apiserver --request-timeout

	// QuickClose: fabric8 #7896 reads a clean close without a message within 2 s as
	// a 410, because GKE answers so (kubernetes#137089). Once can be chance.
	QuickClose  = 2 * time.Second
	quickLimit  = 3
	missLimit   = 3 // streaming lists that failed before LIST is tried
	brokenLimit = 3 // unreadable frames at one position before the state is read anew
	aheadLimit  = 3 // "too large" at one position before the server's state is taken

	healthyAfter = 10 * time.Second
	// watchPace is the least time from one watch's begin to the next: a server that
	// closes after one event is not dialled in a hot loop.
	watchPace = time.Second
	// maxRetryAfter is how long a server may ask to wait. API servers ask for seconds
	// (server.md 4); a year, said by a broken proxy, would be as good as a stop.
	maxRetryAfter = 10 * time.Minute
)

// Phase is what the reflector is doing.
type Phase int

// The phases.
const (
	Idle Phase = iota
	Listing
	Streaming // a streaming list before its end bookmark
	Watching
	Waiting
	Stopped
)

// String returns the phase as one lower-case word.
func (p Phase) String() string {
	return [...]string{"idle", "listing", "streaming", "watching", "waiting", "stopped"}[p]
}

// State is everything that the reflector remembers. It is a value: Next computes
// the one that follows, and nothing else changes it.
type State struct {
	Phase Phase
	Then  Phase // what follows Waiting

	// Tuning is what the user set; the zero value is Defaults.
	Tuning Tuning
	// Seed is where the random parts of the steps come from, so that a course can be
	// taken again. Reflectors begin with different ones, or they all act at once.
	Seed uint64

	// RV is the position: every change up to it is in the cache. "" before the first sync.
	RV string
	// quorum says that the server did not accept RV: ask for the most recent state.
	quorum bool
	// unpaged says that a continue token was not accepted: ask for everything at once.
	unpaged bool
	// NoStream remembers that the server does not know streaming lists.
	NoStream bool
	// Cadence says that the server sends bookmarks, so that silence means something.
	Cadence bool

	failures int // since the last sign of health
	quick    int // clean closes at once and without a word, in a row
	misses   int // streaming lists that failed, in a row
	broken   int // unreadable frames at this position
	ahead    int // "too large resource version" at this position
	silent   int // watches given up without a word from them, in a row
	regains  int // times the state was read again without a watch of healthyAfter between
}

// Synced says that the cache holds a complete state.
func (s State) Synced() bool { return s.RV != "" }

// Kind is how an action ended.
type Kind int

// The ends of actions.
const (
	ResultStart    Kind = iota // Run began
	ResultListed               // the LIST is complete
	ResultStreamed             // the end bookmark came; the stream is open
	ResultClosed               // the stream ended cleanly
	ResultFailed               // refused, broken, or an ERROR frame: see outcome
	ResultSilent               // no sign of life in time; of a streaming list: no next object, and no end
	ResultWentBack             // a bookmark before the position
	ResultElapsed              // the wait is over
	ResultStopped              // the context ended
)

// String returns the end as one lower-case word.
func (k Kind) String() string {
	return [...]string{"start", "listed", "streamed", "closed", "failed", "silent", "went back", "elapsed", "stopped"}[k]
}

// Result is how an action ended, and what it saw until then.
type Result struct {
	Kind       Kind
	Outcome    kube.Outcome  // of ResultFailed
	RetryAfter time.Duration // of ResultFailed: what the server asked for
	RV         string        // listed, streamed: the state's; watching: the position reached, "" if unchanged
	Page       int           // of a LIST that failed: how many pages had come
	Opened     bool          // the server had accepted the watch
	Frames     int           // events and bookmarks of this watch
	Bookmarks  bool          // a bookmark was among them
	Lived      time.Duration // of a watch, from the request on
}

// Action is what to do next.
type Action int

// The actions.
const (
	DoList Action = iota + 1
	DoStream
	DoWatch
	DoRead // go on with the open stream
	DoWait
	DoStop
)

// String returns the action as one lower-case word.
func (a Action) String() string {
	return [...]string{"", "list", "stream", "watch", "read", "wait", "stop"}[a]
}

// Step is what follows from a result.
type Step struct {
	Do       Action
	RV       string        // of list, stream, watch
	Limit    int64         // of list
	Timeout  time.Duration // of stream, watch: when the server is asked to end it
	Wait     time.Duration // of wait: at least this
	Spread   time.Duration // of wait: and less than this more
	Extra    time.Duration // of wait: how much more it is, which Seed decided
	Incident Trouble       // 0: none
	// GiveUp, of stop: Run ends with the error of the result (Tuning.Stop4xx).
	GiveUp bool
}

// Before says that a is older than b; not if one of them is no number (KEP-5504:
// they are, in one server).
func Before(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// Describe says what a step does, for people.
func (s State) Describe(st Step) string {
	if st.Do != DoWait {
		return st.Do.String()
	}
	return "wait " + st.Wait.String() + " to " + (st.Wait + st.Spread).String() + ", then be " + s.Then.String()
}
