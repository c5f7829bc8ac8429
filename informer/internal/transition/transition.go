// Package transition says what a reflector does next, as a pure function of what it
// remembers and of how its last action ended.
//
// A [State] is everything that a reflector remembers, a [Tuning] the numbers in it that users
// may set, a [Result] how an action ended, a [Step] what to do next, a [Phase] what the
// reflector is doing. [Next] is the transition table; testdata/table.md is all of it, written
// by a test.
//
// What the table guarantees, and its tests check by search and by random walks:
//
//   - It is total: each state has a transition for each result, and a stop ends each
//     state at once.
//   - It never gets stuck: a healthy server is watched after at most one wait.
//   - It does not overload the server: while the server is not healthy (no frame, no watch
//     of 10 s), it sends at most four requests per Tuning.BackoffMost in the long run
//     (the pages of one list count as one, a comparison as two), and otherwise at most
//     one in 800 ms. The state is read again at once at most three times until a watch
//     lasts 10 s. With Result.ListNow there is one more request: LIST follows at once
//     after each streaming list that failed.
//   - An outage of 24 hours causes 2 310 requests by default (client-go 0.37: 4 526).
package transition

import (
	"time"

	"github.com/gapless-io/gapless/informer/internal/incident"
	"github.com/gapless-io/gapless/kube"
)

// The numbers of the reflector. Where client-go has one, it is the same
// (client-go 0.37 tools/cache/reflector.go), so that servers see known behaviour.
const (
	pageSize = 500 // client-go tools/pager
	// BarrenLimit is how many pages in a row may have no new object: servers that filter
	// after reading send pages without items.
	BarrenLimit = 5

	// herdJitter spreads the requests of many clients when a server restarts or compacts,
	// without a noticeable delay.
	herdJitter = 250 * time.Millisecond

	MinWatchTimeout = 5 * time.Minute // the request's timeoutSeconds is uniform in [5, 10) min
	WatchGrace      = 30 * time.Second
	OpenDeadline    = 30 * time.Second // for the head of the answer
	ListSilence     = 60 * time.Second // between two items; apiserver --request-timeout

	// QuickClose: fabric8 #7896 treats a clean close without an event within 2 s as a 410,
	// because GKE answers so (kubernetes#137089). Once can be coincidence.
	QuickClose  = 2 * time.Second
	quickLimit  = 3
	missLimit   = 3 // streaming lists that failed before LIST is tried
	brokenLimit = 3 // unreadable frames at one position before the state is read anew
	aheadLimit  = 3 // "too large" at one position before the server's state is taken
	regainLimit = 3 // states read again at once, until a watch lives for healthyAfter

	healthyAfter = 10 * time.Second
	// watchPace is the least time from the begin of one watch to the next, for servers that
	// close watches after one event.
	watchPace = time.Second
	// maxRetryAfter is how long a server may ask to wait. API servers ask for seconds;
	// a broken proxy could ask for a year.
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
	// Seed determines the random parts of the steps, so that they can be replayed.
	// Reflectors must begin with different seeds, or they all act at once.
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
	// Back says that the server's history went back, and that no state was read since.
	Back bool
	// Anew says that objects with equal UID and resource version can differ: the next whole
	// state is compared with the cache by content.
	Anew bool

	failures int // since the last sign of health
	quick    int // watches closed cleanly, at once and without an event, in a row
	misses   int // streaming lists that failed, in a row
	broken   int // unreadable frames at this position
	ahead    int // "too large resource version" at this position
	silent   int // watches closed by the watchdog without an event, in a row
	regains  int // times the state was read again without a watch of healthyAfter between

	// ask is how many of the server's objects to compare when the next watch begins,
	// because the server may have another history by now; 0: none.
	ask   int64
	quiet time.Duration // for how long watches have said nothing
	// missed says that an event proved a gap, and that the state was not read since.
	missed bool
	gaps   int           // times the state was read again for that, until none was found for long
	rested time.Duration // for how long it was watched since
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
	ResultWentBack             // the position is none of the server's history
	ResultGap                  // an event that does not follow from what the cache holds
	ResultElapsed              // the wait is over
	ResultStopped              // the context ended
)

// String returns the end as one lower-case word.
func (k Kind) String() string {
	return [...]string{"start", "listed", "streamed", "closed", "failed", "silent", "went back", "gap", "elapsed", "stopped"}[k]
}

// Result is how an action ended, and what it observed until then.
type Result struct {
	Kind       Kind
	Outcome    kube.Outcome  // of ResultFailed
	RetryAfter time.Duration // of ResultFailed: what the server asked for
	RV         string        // listed, streamed: the state's; watching: the position reached, "" if unchanged
	Page       int           // of a LIST that failed: how many pages had come
	ListNow    bool          // of a streaming list that failed: its source wants LIST to be tried at once
	Opened     bool          // the server had accepted the watch
	Frames     int           // events and bookmarks of this watch
	Bookmarks  bool          // a bookmark was among them
	Gap        bool          // an event did not follow from what the cache holds
	Probed     bool          // Step.Probe was answered
	Asked      int           // requests that this took
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
	Do      Action
	RV      string        // of list, stream, watch
	Limit   int64         // of list
	Timeout time.Duration // of stream, watch: when the server is asked to end it
	// Probe, of watch: compare so many of the server's objects, and how recent it is, when
	// the watch is open; 0: do not.
	Probe    int64
	Wait     time.Duration // of wait: at least this
	Spread   time.Duration // of wait: and less than this more
	Extra    time.Duration // of wait: how much more it is, which Seed decided
	Incident incident.Kind // 0: none
	// GiveUp, of stop: Run ends with the error of the result (Tuning.Stop4xx).
	GiveUp bool
}

// Describe returns a step in words, for logs.
func (s State) Describe(st Step) string {
	if st.Do != DoWait {
		return st.Do.String()
	}
	return "wait " + st.Wait.String() + " to " + (st.Wait + st.Spread).String() + ", then be " + s.Then.String()
}
