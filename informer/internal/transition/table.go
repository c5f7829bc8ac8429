package transition

import (
	"time"

	"github.com/gapless-io/gapless/informer/internal/incident"
	"github.com/gapless-io/gapless/kube"
)

// Next is the reflector's whole behaviour: from its state and the result of the last
// action it computes the next state and the next step.
func Next(s State, r Result) (State, Step) {
	s, st := follows(s, r)
	switch st.Do {
	case DoWait:
		s, st.Extra = s.roll(st.Spread)
	case DoStream, DoWatch:
		s, st.Timeout = s.roll(MinWatchTimeout)
		st.Timeout += MinWatchTimeout
	case DoList, DoRead, DoStop:
	}
	return s, st
}

func follows(s State, r Result) (State, Step) {
	r.RetryAfter = min(max(r.RetryAfter, 0), maxRetryAfter)
	if r.Kind == ResultStopped {
		s = s.seen(r)
		s.Phase = Stopped
		return s, Step{Do: DoStop}
	}
	if (r.Kind == ResultListed || r.Kind == ResultStreamed) && r.RV == "" {
		r.Kind, r.Outcome = ResultFailed, kube.OutcomeDecode // a watch cannot continue from it
	}
	if s.hopeless(r) {
		s.Phase = Stopped
		return s, Step{Do: DoStop, GiveUp: true, Incident: kindOf(r.Outcome)}
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
	if s.Synced() && !s.quorum && !s.Anew {
		s.ask = max(s.ask, 1)     // the server was not watched meanwhile
		return enter(s, Watching) // a second Run goes on where the first one ended
	}
	return enter(s, acquire(s))
}

// hopeless reports whether the user wants to give up after this result (Stop4xx).
func (s State) hopeless(r Result) bool {
	if !s.Tuning.Stop4xx || s.Synced() || r.Kind != ResultFailed || r.ListNow || s.Phase != Listing && s.Phase != Streaming {
		return false
	}
	switch r.Outcome {
	case kube.OutcomeUnauthorized, kube.OutcomeForbidden, kube.OutcomeNotFound:
		return true
	case kube.OutcomeInvalid:
		return s.Phase == Listing && s.quorum // all else was tried
	case kube.OutcomeUnknown, kube.OutcomeOK, kube.OutcomeExpired, kube.OutcomeTooLarge,
		kube.OutcomeTooManyRequests, kube.OutcomeConflict, kube.OutcomeRefused, kube.OutcomeTimeout,
		kube.OutcomeDisconnected, kube.OutcomeServerError, kube.OutcomeDecode, kube.OutcomeCanceled:
	}
	return false
}

// acquire returns the phase that reads the whole state.
func acquire(s State) Phase {
	if s.NoStream || s.misses >= missLimit {
		return Listing
	}
	return Streaming
}

// enter begins a phase at once. testdata/table.md shows the resource versions of all requests.
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
		return s, Step{Do: DoWatch, RV: s.RV, Probe: s.probe()}
	case Idle, Waiting, Stopped:
	}
	panic("informer: phase " + p.String() + " cannot be entered")
}

// wait enters a phase later: after at least d and less than spread more.
func wait(s State, p Phase, d, spread time.Duration) (State, Step) {
	s.Phase, s.Then = Waiting, p
	return s, Step{Do: DoWait, Wait: d, Spread: spread}
}

// retry enters a phase after the backoff, or after what the server asked for if
// that is longer.
func retry(s State, p Phase, r Result, why incident.Kind) (State, Step) {
	d := s.backoff(s.failures)
	s.failures++
	s, st := wait(s, p, max(d, r.RetryAfter), d/2)
	st.Incident = why
	return s, st
}

// atOnce enters a phase almost at once, whatever failed before: the server has
// just answered. The caller makes sure that it cannot happen again and again.
func atOnce(s State, p Phase, r Result, why incident.Kind) (State, Step) {
	s.failures = max(s.failures, 1)
	s, st := wait(s, p, r.RetryAfter, herdJitter)
	st.Incident = why
	return s, st
}

// regain reads the state again because the watch cannot go on from its position:
// at once the first times, then with a growing pause.
func regain(s State, r Result, why incident.Kind) (State, Step) {
	// After the first time, what the server's cache offers may be too old for its own watch.
	s.quorum = s.quorum || s.regains > 0
	if s.regains >= regainLimit {
		return reread(s, r, why)
	}
	s.regains++
	return atOnce(s, acquire(s), r, why)
}

// wentBack reads the state again because the server's history is not the one that the
// cache was read from: its versions and objects cannot be compared any more.
func wentBack(s State, r Result) (State, Step) {
	s.quorum, s.Back, s.Anew = true, true, true
	return regain(s, r, incident.WentBack)
}

// reread reads the state again after a pause that grows until a watch lasts, although the
// lists in between succeed.
func reread(s State, r Result, why incident.Kind) (State, Step) {
	s.failures = max(s.failures, s.regains-regainLimit)
	s.regains++
	return retry(s, acquire(s), r, why)
}
