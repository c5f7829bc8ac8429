// Package course is what a reflector does next, as a pure function of what it
// remembers and of how its last action ended.
//
// It has five nouns. A [State] is everything that a reflector remembers, a
// [Result] how an action ended, a [Step] what to do next, a [Phase] what it is doing,
// a [Trouble] what it has to report. [Next] is the table.
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

	firstBackoff = 800 * time.Millisecond
	maxBackoff   = 30 * time.Second
	// herdJitter spreads what many clients do at the same moment, when a server comes
	// back or forgets history, without making anyone wait noticeably.
	herdJitter = 250 * time.Millisecond

	MinWatchTimeout = 5 * time.Minute // the request's timeoutSeconds is uniform in [5, 10) min
	WatchGrace      = 30 * time.Second
	// BookmarkSilence is one and a half of the bookmark period of 60 s (server.md 3.4).
	BookmarkSilence = 90 * time.Second
	OpenDeadline    = 30 * time.Second // for the head of the answer
	EndDeadline     = 30 * time.Second // for the next initial event, or the end bookmark
	ListSilence     = 60 * time.Second // between two items; apiserver --request-timeout

	// QuickClose: fabric8 #7896 reads a clean close without a message within 2 s as
	// a 410, because GKE answers so (kubernetes#137089). Once can be chance.
	QuickClose  = 2 * time.Second
	quickLimit  = 3
	cutLimit    = 2 // streaming lists that were cut before LIST is tried
	brokenLimit = 3 // unreadable frames at one position before the state is read anew
	aheadLimit  = 3 // "too large" at one position before the server's state is taken
	silentLimit = 2 // silent watches before the bookmark cadence is no longer believed

	healthyAfter = 10 * time.Second
	// watchPace is the least time from one watch's begin to the next: a server that
	// closes after one event is not dialled in a hot loop.
	watchPace = time.Second
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

func (p Phase) String() string {
	return [...]string{"idle", "listing", "streaming", "watching", "waiting", "stopped"}[p]
}

// State is everything that the reflector remembers. It is a value: next computes
// the one that follows, and nothing else changes it.
type State struct {
	Phase Phase
	Then  Phase // what follows Waiting

	// rv is the position: every change up to it is in the cache. "" before the first sync.
	RV string
	// quorum says that the server did not accept rv: ask for the most recent state.
	quorum bool
	// unpaged says that a continue token expired: ask for everything at once.
	unpaged bool
	// noStream remembers that the server does not know streaming lists.
	NoStream bool
	// cadence says that the server sends bookmarks, so that silence means something.
	Cadence bool

	failures int // since the last sign of health
	quick    int // clean closes at once and without a word, in a row
	cuts     int // streaming lists cut before their end, in a row
	broken   int // unreadable frames at this position
	ahead    int // "too large resource version" at this position
	silent   int // watches given up for silence, in a row
	regains  int // watches that ended with "read the state again" and no health between
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
	ResultNoEnd                // no end bookmark in time
	ResultSilent               // no sign of life in time
	ResultWentBack             // a bookmark before the position
	ResultElapsed              // the wait is over
	ResultStopped              // the context ended
)

// Result is how an action ended, and what it saw until then.
type Result struct {
	Kind       Kind
	Outcome    kube.Outcome  // of ResultFailed
	RetryAfter time.Duration // of ResultFailed: what the server asked for
	RV         string        // listed, streamed: the state's; watching: the position reached, "" if unchanged
	Page       int           // of a LIST that failed: how many pages had come
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

func (a Action) String() string {
	return [...]string{"", "list", "stream", "watch", "read", "wait", "stop"}[a]
}

// Step is what follows from a result.
type Step struct {
	Do       Action
	RV       string        // of list, stream, watch
	Limit    int64         // of list
	Wait     time.Duration // of wait: at least this
	Spread   time.Duration // of wait: and up to this much more
	Incident Trouble       // 0: none
}

// Next is the reflector's whole behaviour: from what it remembers and how the
// last action ended to what it remembers now and does next.
func Next(s State, r Result) (State, Step) {
	if r.Kind == ResultStopped {
		s = s.seen(r)
		s.Phase = Stopped
		return s, Step{Do: DoStop}
	}
	switch s.Phase {
	case Listing:
		return afterList(s, r)
	case Streaming:
		return afterStream(s, r)
	case Watching:
		return afterWatch(s, r)
	case Waiting:
		return enter(s, s.Then)
	case Idle, Stopped:
	}
	if s.Synced() {
		return enter(s, Watching) // a second Run goes on where the first one ended
	}
	return enter(s, acquire(s))
}

// acquire is how the whole state is read.
func acquire(s State) Phase {
	if s.NoStream || s.cuts >= cutLimit {
		return Listing
	}
	return Streaming
}

// enter begins a phase at once. The resource versions are the table of clients.md 1.2.
func enter(s State, p Phase) (State, Step) {
	s.Phase = p
	switch p {
	case Listing:
		st := Step{Do: DoList, RV: s.RV, Limit: pageSize}
		switch {
		case s.quorum:
			st.RV = ""
		case s.RV == "":
			st.RV = "0"
		default:
			// "Not older than" is answered from the server's cache, whole.
			st.Limit = 0
		}
		if s.unpaged {
			st.Limit = 0
		}
		return s, st
	case Streaming:
		if s.quorum {
			return s, Step{Do: DoStream}
		}
		return s, Step{Do: DoStream, RV: s.RV}
	case Watching:
		return s, Step{Do: DoWatch, RV: s.RV}
	case Idle, Waiting, Stopped:
	}
	panic("informer: phase " + p.String() + " cannot be entered")
}

// retry enters a phase after the backoff, or after what the server asked for if
// that is longer.
func retry(s State, p Phase, r Result, why Trouble) (State, Step) {
	d := backoff(s.failures)
	s.failures++
	s.Phase, s.Then = Waiting, p
	return s, Step{Do: DoWait, Wait: max(d, r.RetryAfter), Spread: d / 2, Incident: why}
}

// soon enters a phase almost at once if all was well until now, else like retry.
func soon(s State, p Phase, r Result, why Trouble) (State, Step) {
	if s.failures > 0 {
		return retry(s, p, r, why)
	}
	return atOnce(s, p, r, why)
}

// atOnce enters a phase almost at once, whatever failed before: the server has
// just answered.
func atOnce(s State, p Phase, r Result, why Trouble) (State, Step) {
	s.failures = max(s.failures, 1)
	s.Phase, s.Then = Waiting, p
	return s, Step{Do: DoWait, Wait: r.RetryAfter, Spread: herdJitter, Incident: why}
}

// regain reads the state again because the watch cannot go on from its position:
// at once the first time, with a growing pause when that alone does not help.
func regain(s State, r Result, why Trouble) (State, Step) {
	s.regains++
	if s.regains == 1 {
		return atOnce(s, acquire(s), r, why)
	}
	// What the server's cache offers is already too old for its own watch.
	s.quorum = true
	s.failures = max(s.failures, s.regains-2)
	return retry(s, acquire(s), r, why)
}

func backoff(failures int) time.Duration {
	return min(firstBackoff<<min(failures, 10), maxBackoff)
}

func afterList(s State, r Result) (State, Step) {
	if r.Kind == ResultListed {
		return arrived(s, r, DoWatch)
	}
	switch r.Outcome {
	case kube.OutcomeExpired:
		if r.Page > 0 {
			s.unpaged = true
			return atOnce(s, Listing, r, Gone)
		}
		return unaccepted(s, r, Gone)
	case kube.OutcomeTooLarge:
		return unaccepted(s, r, TooLarge)
	case kube.OutcomeInvalid:
		return unaccepted(s, r, Rejected)
	case kube.OutcomeUnknown, kube.OutcomeOK, kube.OutcomeTooManyRequests, kube.OutcomeUnauthorized,
		kube.OutcomeForbidden, kube.OutcomeNotFound, kube.OutcomeConflict, kube.OutcomeRefused,
		kube.OutcomeTimeout, kube.OutcomeDisconnected, kube.OutcomeServerError, kube.OutcomeDecode,
		kube.OutcomeCanceled:
	}
	return retry(s, Listing, r, incidentOf(r.Outcome))
}

// unaccepted is what follows when a request for the state is refused for its
// resource version: the most recent state, whatever its version.
func unaccepted(s State, r Result, why Trouble) (State, Step) {
	if s.RV == "" || s.quorum {
		return retry(s, acquire(s), r, why)
	}
	s.quorum = true
	r.RetryAfter = 0 // it was for the refused version
	return atOnce(s, acquire(s), r, why)
}

// arrived is what follows when the whole state is there.
func arrived(s State, r Result, then Action) (State, Step) {
	st := Step{Do: then, RV: r.RV}
	if Before(r.RV, s.RV) {
		st.Incident = WentBack
	}
	s.Phase = Watching
	s.RV = r.RV
	s.quorum, s.unpaged = false, false
	s.cuts, s.broken, s.ahead, s.quick = 0, 0, 0, 0
	return s, st
}

func afterStream(s State, r Result) (State, Step) {
	switch r.Kind {
	case ResultStreamed:
		return arrived(s, r, DoRead)
	case ResultNoEnd, ResultSilent:
		s.NoStream = true
		return atOnce(s, Listing, r, NoEndBookmark)
	case ResultClosed:
		s.cuts++
		if s.cuts >= cutLimit {
			return atOnce(s, acquire(s), r, NoEndBookmark)
		}
		return retry(s, acquire(s), r, Disconnected)
	case ResultStart, ResultListed, ResultFailed, ResultWentBack, ResultElapsed, ResultStopped:
	}
	switch r.Outcome {
	case kube.OutcomeExpired:
		return unaccepted(s, r, Gone)
	case kube.OutcomeTooLarge:
		return unaccepted(s, r, TooLarge)
	case kube.OutcomeInvalid:
		s.NoStream = true
		return enterWith(s, Listing, NoStreamingList)
	case kube.OutcomeDecode:
		s.broken++
		if s.broken >= brokenLimit {
			s.cuts = cutLimit
		}
		return retry(s, acquire(s), r, Undecodable)
	case kube.OutcomeUnknown, kube.OutcomeOK, kube.OutcomeTooManyRequests, kube.OutcomeUnauthorized,
		kube.OutcomeForbidden, kube.OutcomeNotFound, kube.OutcomeConflict, kube.OutcomeRefused,
		kube.OutcomeTimeout, kube.OutcomeDisconnected, kube.OutcomeServerError, kube.OutcomeCanceled:
	}
	return retry(s, Streaming, r, incidentOf(r.Outcome))
}

func enterWith(s State, p Phase, why Trouble) (State, Step) {
	s, st := enter(s, p)
	st.Incident = why
	return s, st
}

func afterWatch(s State, r Result) (State, Step) {
	s = s.seen(r)
	switch r.Kind {
	case ResultClosed:
		return afterClose(s, r)
	case ResultSilent:
		s.silent++
		if s.silent >= silentLimit {
			s.Cadence = false
		}
		return soon(s, Watching, r, Silent)
	case ResultWentBack:
		s.quorum = true
		return regain(s, r, WentBack)
	case ResultStart, ResultListed, ResultStreamed, ResultFailed, ResultNoEnd, ResultElapsed, ResultStopped:
	}
	switch r.Outcome {
	case kube.OutcomeExpired:
		return regain(s, r, Gone)
	case kube.OutcomeTooLarge:
		s.ahead++
		if s.ahead >= aheadLimit {
			s.quorum, s.ahead = true, 0
			return retry(s, acquire(s), r, TooLarge)
		}
		return retry(s, Watching, r, TooLarge)
	case kube.OutcomeInvalid:
		s.quorum = true
		return retry(s, acquire(s), r, Rejected)
	case kube.OutcomeDecode:
		s.broken++
		if s.broken >= brokenLimit {
			s.broken = 0
			return retry(s, acquire(s), r, Undecodable)
		}
		return retry(s, Watching, r, Undecodable)
	case kube.OutcomeDisconnected, kube.OutcomeTimeout, kube.OutcomeServerError, kube.OutcomeUnknown:
		if s.failures == 0 && r.RetryAfter == 0 {
			r.RetryAfter = pace(r)
			return soon(s, Watching, r, incidentOf(r.Outcome))
		}
	case kube.OutcomeOK, kube.OutcomeTooManyRequests, kube.OutcomeUnauthorized, kube.OutcomeForbidden,
		kube.OutcomeNotFound, kube.OutcomeConflict, kube.OutcomeRefused, kube.OutcomeCanceled:
	}
	return retry(s, Watching, r, incidentOf(r.Outcome))
}

// seen takes over what a watch brought before it ended. Only a watch that showed
// life resets the backoff.
func (s State) seen(r Result) State {
	if r.RV != "" {
		s.RV = r.RV
	}
	if r.Bookmarks {
		s.Cadence = true
	}
	if r.Frames > 0 || (r.Lived >= healthyAfter && r.Kind != ResultSilent) {
		s.failures, s.quick, s.ahead = 0, 0, 0
	}
	if r.Frames > 0 {
		s.broken, s.silent = 0, 0
	}
	lost := r.Kind == ResultWentBack || r.Outcome == kube.OutcomeExpired
	if r.Lived >= healthyAfter || (r.Frames > 0 && !lost) {
		s.regains = 0
	}
	return s
}

// afterClose: a clean end is how servers end a watch. Watch again, never list.
func afterClose(s State, r Result) (State, Step) {
	if r.Frames == 0 && r.Lived < QuickClose {
		s.quick++
		if s.quick >= quickLimit {
			s.quick = 0
			return regain(s, r, SilentGone)
		}
		return retry(s, Watching, r, ShortWatch)
	}
	s.quick = 0
	if wait := pace(r); wait > 0 {
		s.Phase, s.Then = Waiting, Watching
		return s, Step{Do: DoWait, Wait: wait, Spread: herdJitter}
	}
	return enter(s, Watching)
}

func pace(r Result) time.Duration { return max(0, watchPace-r.Lived) }

func incidentOf(o kube.Outcome) Trouble {
	switch o {
	case kube.OutcomeExpired:
		return Gone
	case kube.OutcomeTooLarge:
		return TooLarge
	case kube.OutcomeTooManyRequests:
		return Throttled
	case kube.OutcomeUnauthorized, kube.OutcomeForbidden:
		return Denied
	case kube.OutcomeNotFound:
		return NotServed
	case kube.OutcomeInvalid, kube.OutcomeConflict:
		return Rejected
	case kube.OutcomeRefused:
		return Refused
	case kube.OutcomeTimeout, kube.OutcomeDisconnected, kube.OutcomeCanceled:
		return Disconnected
	case kube.OutcomeDecode:
		return Undecodable
	case kube.OutcomeUnknown, kube.OutcomeOK, kube.OutcomeServerError:
	}
	return ServerError
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
