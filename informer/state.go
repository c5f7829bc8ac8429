package informer

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

	minWatchTimeout = 5 * time.Minute // the request's timeoutSeconds is uniform in [5, 10) min
	watchGrace      = 30 * time.Second
	// bookmarkSilence is one and a half of the bookmark period of 60 s (server.md 3.4).
	bookmarkSilence = 90 * time.Second
	openDeadline    = 30 * time.Second // for the head of the answer
	endDeadline     = 30 * time.Second // for the next initial event, or the end bookmark
	listSilence     = 60 * time.Second // between two items; apiserver --request-timeout

	// quickClose: fabric8 #7896 reads a clean close without a message within 2 s as
	// a 410, because GKE answers so (kubernetes#137089). Once can be chance.
	quickClose  = 2 * time.Second
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

// phase is what the reflector is doing.
type phase int

const (
	phaseIdle phase = iota
	phaseListing
	phaseStreaming // a streaming list before its end bookmark
	phaseWatching
	phaseWaiting
	phaseStopped
)

func (p phase) String() string {
	return [...]string{"idle", "listing", "streaming", "watching", "waiting", "stopped"}[p]
}

// state is everything that the reflector remembers. It is a value: next computes
// the one that follows, and nothing else changes it.
type state struct {
	phase phase
	then  phase // what follows phaseWaiting

	// rv is the position: every change up to it is in the cache. "" before the first sync.
	rv string
	// quorum says that the server did not accept rv: ask for the most recent state.
	quorum bool
	// unpaged says that a continue token expired: ask for everything at once.
	unpaged bool
	// noStream remembers that the server does not know streaming lists.
	noStream bool
	// cadence says that the server sends bookmarks, so that silence means something.
	cadence bool

	failures int // since the last sign of health
	quick    int // clean closes at once and without a word, in a row
	cuts     int // streaming lists cut before their end, in a row
	broken   int // unreadable frames at this position
	ahead    int // "too large resource version" at this position
	silent   int // watches given up for silence, in a row
	regains  int // watches that ended with "read the state again" and no health between
}

// synced says that the cache holds a complete state.
func (s state) synced() bool { return s.rv != "" }

// resultKind is how an action ended.
type resultKind int

const (
	resultStart    resultKind = iota // Run began
	resultListed                     // the LIST is complete
	resultStreamed                   // the end bookmark came; the stream is open
	resultClosed                     // the stream ended cleanly
	resultFailed                     // refused, broken, or an ERROR frame: see outcome
	resultNoEnd                      // no end bookmark in time
	resultSilent                     // no sign of life in time
	resultWentBack                   // a bookmark before the position
	resultElapsed                    // the wait is over
	resultStopped                    // the context ended
)

// result is how an action ended, and what it saw until then.
type result struct {
	kind       resultKind
	outcome    kube.Outcome  // of resultFailed
	retryAfter time.Duration // of resultFailed: what the server asked for
	rv         string        // listed, streamed: the state's; watching: the position reached, "" if unchanged
	page       int           // of a LIST that failed: how many pages had come
	frames     int           // events and bookmarks of this watch
	bookmarks  bool          // a bookmark was among them
	lived      time.Duration // of a watch, from the request on
}

// action is what to do next.
type action int

const (
	doList action = iota + 1
	doStream
	doWatch
	doRead // go on with the open stream
	doWait
	doStop
)

func (a action) String() string {
	return [...]string{"", "list", "stream", "watch", "read", "wait", "stop"}[a]
}

// step is what follows from a result.
type step struct {
	do       action
	rv       string        // of list, stream, watch
	limit    int64         // of list
	wait     time.Duration // of wait: at least this
	spread   time.Duration // of wait: and up to this much more
	incident IncidentKind  // 0: none
}

// next is the reflector's whole behaviour: from what it remembers and how the
// last action ended to what it remembers now and does next.
func next(s state, r result) (state, step) {
	if r.kind == resultStopped {
		s = s.seen(r)
		s.phase = phaseStopped
		return s, step{do: doStop}
	}
	switch s.phase {
	case phaseListing:
		return afterList(s, r)
	case phaseStreaming:
		return afterStream(s, r)
	case phaseWatching:
		return afterWatch(s, r)
	case phaseWaiting:
		return enter(s, s.then)
	case phaseIdle, phaseStopped:
	}
	if s.synced() {
		return enter(s, phaseWatching) // a second Run goes on where the first one ended
	}
	return enter(s, acquire(s))
}

// acquire is how the whole state is read.
func acquire(s state) phase {
	if s.noStream || s.cuts >= cutLimit {
		return phaseListing
	}
	return phaseStreaming
}

// enter begins a phase at once. The resource versions are the table of clients.md 1.2.
func enter(s state, p phase) (state, step) {
	s.phase = p
	switch p {
	case phaseListing:
		st := step{do: doList, rv: s.rv, limit: pageSize}
		switch {
		case s.quorum:
			st.rv = ""
		case s.rv == "":
			st.rv = "0"
		default:
			// "Not older than" is answered from the server's cache, whole.
			st.limit = 0
		}
		if s.unpaged {
			st.limit = 0
		}
		return s, st
	case phaseStreaming:
		if s.quorum {
			return s, step{do: doStream}
		}
		return s, step{do: doStream, rv: s.rv}
	case phaseWatching:
		return s, step{do: doWatch, rv: s.rv}
	case phaseIdle, phaseWaiting, phaseStopped:
	}
	panic("informer: phase " + p.String() + " cannot be entered")
}

// retry enters a phase after the backoff, or after what the server asked for if
// that is longer.
func retry(s state, p phase, r result, why IncidentKind) (state, step) {
	d := backoff(s.failures)
	s.failures++
	s.phase, s.then = phaseWaiting, p
	return s, step{do: doWait, wait: max(d, r.retryAfter), spread: d / 2, incident: why}
}

// soon enters a phase almost at once if all was well until now, else like retry.
func soon(s state, p phase, r result, why IncidentKind) (state, step) {
	if s.failures > 0 {
		return retry(s, p, r, why)
	}
	return atOnce(s, p, r, why)
}

// atOnce enters a phase almost at once, whatever failed before: the server has
// just answered.
func atOnce(s state, p phase, r result, why IncidentKind) (state, step) {
	s.failures = max(s.failures, 1)
	s.phase, s.then = phaseWaiting, p
	return s, step{do: doWait, wait: r.retryAfter, spread: herdJitter, incident: why}
}

// regain reads the state again because the watch cannot go on from its position:
// at once the first time, with a growing pause when that alone does not help.
func regain(s state, r result, why IncidentKind) (state, step) {
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

func afterList(s state, r result) (state, step) {
	if r.kind == resultListed {
		return arrived(s, r, doWatch)
	}
	switch r.outcome {
	case kube.OutcomeExpired:
		if r.page > 0 {
			s.unpaged = true
			return atOnce(s, phaseListing, r, Gone)
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
	return retry(s, phaseListing, r, incidentOf(r.outcome))
}

// unaccepted is what follows when a request for the state is refused for its
// resource version: the most recent state, whatever its version.
func unaccepted(s state, r result, why IncidentKind) (state, step) {
	if s.rv == "" || s.quorum {
		return retry(s, acquire(s), r, why)
	}
	s.quorum = true
	r.retryAfter = 0 // it was for the refused version
	return atOnce(s, acquire(s), r, why)
}

// arrived is what follows when the whole state is there.
func arrived(s state, r result, then action) (state, step) {
	st := step{do: then, rv: r.rv}
	if before(r.rv, s.rv) {
		st.incident = WentBack
	}
	s.phase = phaseWatching
	s.rv = r.rv
	s.quorum, s.unpaged = false, false
	s.cuts, s.broken, s.ahead, s.quick = 0, 0, 0, 0
	return s, st
}

func afterStream(s state, r result) (state, step) {
	switch r.kind {
	case resultStreamed:
		return arrived(s, r, doRead)
	case resultNoEnd, resultSilent:
		s.noStream = true
		return atOnce(s, phaseListing, r, NoEndBookmark)
	case resultClosed:
		s.cuts++
		if s.cuts >= cutLimit {
			return atOnce(s, acquire(s), r, NoEndBookmark)
		}
		return retry(s, acquire(s), r, Disconnected)
	case resultStart, resultListed, resultFailed, resultWentBack, resultElapsed, resultStopped:
	}
	switch r.outcome {
	case kube.OutcomeExpired:
		return unaccepted(s, r, Gone)
	case kube.OutcomeTooLarge:
		return unaccepted(s, r, TooLarge)
	case kube.OutcomeInvalid:
		s.noStream = true
		return enterWith(s, phaseListing, NoStreamingList)
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
	return retry(s, phaseStreaming, r, incidentOf(r.outcome))
}

func enterWith(s state, p phase, why IncidentKind) (state, step) {
	s, st := enter(s, p)
	st.incident = why
	return s, st
}

func afterWatch(s state, r result) (state, step) {
	s = s.seen(r)
	switch r.kind {
	case resultClosed:
		return afterClose(s, r)
	case resultSilent:
		s.silent++
		if s.silent >= silentLimit {
			s.cadence = false
		}
		return soon(s, phaseWatching, r, Silent)
	case resultWentBack:
		s.quorum = true
		return regain(s, r, WentBack)
	case resultStart, resultListed, resultStreamed, resultFailed, resultNoEnd, resultElapsed, resultStopped:
	}
	switch r.outcome {
	case kube.OutcomeExpired:
		return regain(s, r, Gone)
	case kube.OutcomeTooLarge:
		s.ahead++
		if s.ahead >= aheadLimit {
			s.quorum, s.ahead = true, 0
			return retry(s, acquire(s), r, TooLarge)
		}
		return retry(s, phaseWatching, r, TooLarge)
	case kube.OutcomeInvalid:
		s.quorum = true
		return retry(s, acquire(s), r, Rejected)
	case kube.OutcomeDecode:
		s.broken++
		if s.broken >= brokenLimit {
			s.broken = 0
			return retry(s, acquire(s), r, Undecodable)
		}
		return retry(s, phaseWatching, r, Undecodable)
	case kube.OutcomeDisconnected, kube.OutcomeTimeout, kube.OutcomeServerError, kube.OutcomeUnknown:
		if s.failures == 0 && r.retryAfter == 0 {
			r.retryAfter = pace(r)
			return soon(s, phaseWatching, r, incidentOf(r.outcome))
		}
	case kube.OutcomeOK, kube.OutcomeTooManyRequests, kube.OutcomeUnauthorized, kube.OutcomeForbidden,
		kube.OutcomeNotFound, kube.OutcomeConflict, kube.OutcomeRefused, kube.OutcomeCanceled:
	}
	return retry(s, phaseWatching, r, incidentOf(r.outcome))
}

// seen takes over what a watch brought before it ended. Only a watch that showed
// life resets the backoff.
func (s state) seen(r result) state {
	if r.rv != "" {
		s.rv = r.rv
	}
	if r.bookmarks {
		s.cadence = true
	}
	if r.frames > 0 || (r.lived >= healthyAfter && r.kind != resultSilent) {
		s.failures, s.quick, s.ahead = 0, 0, 0
	}
	if r.frames > 0 {
		s.broken, s.silent = 0, 0
	}
	lost := r.kind == resultWentBack || r.outcome == kube.OutcomeExpired
	if r.lived >= healthyAfter || (r.frames > 0 && !lost) {
		s.regains = 0
	}
	return s
}

// afterClose: a clean end is how servers end a watch. Watch again, never list.
func afterClose(s state, r result) (state, step) {
	if r.frames == 0 && r.lived < quickClose {
		s.quick++
		if s.quick >= quickLimit {
			s.quick = 0
			return regain(s, r, SilentGone)
		}
		return retry(s, phaseWatching, r, ShortWatch)
	}
	s.quick = 0
	if wait := pace(r); wait > 0 {
		s.phase, s.then = phaseWaiting, phaseWatching
		return s, step{do: doWait, wait: wait, spread: herdJitter}
	}
	return enter(s, phaseWatching)
}

func pace(r result) time.Duration { return max(0, watchPace-r.lived) }

func incidentOf(o kube.Outcome) IncidentKind {
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

// before says that a is older than b; not if one of them is no number (KEP-5504:
// they are, in one server).
func before(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
