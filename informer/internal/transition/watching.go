package transition

import (
	"time"

	"github.com/gapless-io/gapless/informer/internal/incident"
	"github.com/gapless-io/gapless/kube"
)

func afterWatch(s State, r Result) (State, Step) {
	s = s.seen(r)
	switch r.Kind {
	case ResultClosed:
		return afterClose(s, r)
	case ResultSilent:
		return afterSilence(s, r)
	case ResultWentBack:
		return wentBack(s, r)
	case ResultGap:
		s.gaps++
		s.rested, s.missed, s.Anew = 0, false, true
		return regain(s, r, incident.Gap)
	case ResultStart, ResultListed, ResultStreamed, ResultFailed, ResultElapsed, ResultStopped:
	}
	if r.Outcome == kube.OutcomeExpired {
		return regain(s, r, incident.Gone)
	}
	return afterFailure(s, r)
}

// afterFailure follows a watch that was refused or broke, and whose position is still
// valid.
func afterFailure(s State, r Result) (State, Step) {
	again := r
	if r.Opened {
		again.RetryAfter = max(r.RetryAfter, pace(r))
	}
	switch r.Outcome {
	case kube.OutcomeTooLarge:
		s.ahead++
		if s.ahead >= aheadLimit {
			s.quorum, s.Anew, s.ahead = true, true, 0
			return reread(s, r, incident.TooLarge)
		}
		return retry(s, Watching, again, incident.TooLarge)
	case kube.OutcomeInvalid:
		s.quorum, s.Anew = true, true
		return reread(s, r, incident.Rejected)
	case kube.OutcomeDecode:
		s.broken++
		if s.broken >= brokenLimit {
			s.broken = 0
			return reread(s, r, incident.Undecodable)
		}
		return retry(s, Watching, again, incident.Undecodable)
	case kube.OutcomeDisconnected, kube.OutcomeTimeout, kube.OutcomeServerError, kube.OutcomeUnknown:
		if s.failures == 0 && r.RetryAfter == 0 {
			again.RetryAfter = pace(r)
			return atOnce(s, Watching, again, kindOf(r.Outcome))
		}
	case kube.OutcomeOK, kube.OutcomeExpired, kube.OutcomeTooManyRequests, kube.OutcomeUnauthorized, kube.OutcomeForbidden,
		kube.OutcomeNotFound, kube.OutcomeConflict, kube.OutcomeRefused, kube.OutcomeCanceled:
	}
	return retry(s, Watching, again, kindOf(r.Outcome))
}

// seen records what a watch delivered before it ended. Only a healthy watch resets the
// backoff: one with a frame, or one that was open for a while and did not end because it
// was silent. A request that was refused after a long time was not open.
func (s State) seen(r Result) State {
	moved := r.RV != "" && r.RV != s.RV
	spoke := r.Frames > 0
	lived := r.Opened && r.Lived >= healthyAfter && (spoke || r.Kind != ResultSilent)
	if moved {
		s.RV = r.RV
		s.broken = 0
	}
	if r.Bookmarks {
		s.Cadence = true
	}
	if spoke || lived {
		s.failures, s.quick = 0, 0
	}
	if moved || lived {
		s.ahead = 0
	}
	if spoke {
		s.silent = 0
	}
	if lived {
		s.regains = 0
	}
	return s.doubted(r, spoke)
}

// doubted records whether the server may have another history than the one that the cache
// was read from. After an outage it can be restored from a backup, and API servers answer
// a watch from a version that they do not have with silence.
func (s State) doubted(r Result, spoke bool) State {
	if r.Probed {
		s.ask, s.quiet = 0, 0
	}
	switch {
	case spoke:
		s.quiet = 0
	case r.Opened:
		s.quiet += r.Lived
	}
	if r.Kind == ResultSilent || s.quiet >= MinWatchTimeout {
		s.ask, s.quiet = max(s.ask, 1), 0
	}
	if r.outage() {
		s.ask = pageSize
	}
	s.missed = r.Gap
	if s.gaps > 0 && r.Opened {
		s.rested += r.Lived
	}
	if s.rested >= 2*MinWatchTimeout && !s.missed {
		s.gaps, s.rested = 0, 0
	}
	return s
}

// probe is how many objects the next watch compares.
func (s State) probe() int64 {
	if s.Tuning.NoComparison {
		return 0
	}
	return s.ask
}

// outage reports whether the server was unavailable, or lacked what it should have.
func (r Result) outage() bool {
	if r.Kind != ResultFailed || r.Opened {
		return false
	}
	switch r.Outcome {
	case kube.OutcomeUnknown, kube.OutcomeRefused, kube.OutcomeTimeout, kube.OutcomeDisconnected, kube.OutcomeServerError,
		kube.OutcomeUnauthorized, kube.OutcomeForbidden, kube.OutcomeNotFound:
		return true
	case kube.OutcomeOK, kube.OutcomeExpired, kube.OutcomeTooLarge, kube.OutcomeTooManyRequests,
		kube.OutcomeConflict, kube.OutcomeInvalid, kube.OutcomeDecode, kube.OutcomeCanceled:
	}
	return false
}

// Missed reports whether an event showed a gap and the state was not read since.
func (s State) Missed() bool { return s.missed }

// MayReread reports whether to read the state again for a gap, after a watch of that
// length: at once the first time, and then at most every five minutes, because there are
// servers whose events always show gaps.
func (s State) MayReread(lived time.Duration) bool {
	const least = 30 * time.Second
	return s.gaps == 0 || s.rested+lived >= min(least<<min(s.gaps-1, 10), MinWatchTimeout)
}

// afterClose follows a clean end, which is how servers end a watch: watch again, never
// list.
func afterClose(s State, r Result) (State, Step) {
	if r.Frames == 0 && r.Lived < QuickClose {
		s.quick++
		if s.quick >= quickLimit {
			s.quick = 0
			return regain(s, r, incident.SilentGone)
		}
		if r.Asked > 0 {
			r.RetryAfter = pace(r)
		}
		return retry(s, Watching, r, incident.ShortWatch)
	}
	s.quick = 0
	if d := pace(r); d > 0 {
		return wait(s, Watching, d, herdJitter)
	}
	return enter(s, Watching)
}

// afterSilence follows a watch that the watchdog closed. The next one begins at once,
// because the silence was pause enough. It is neither a failure, since the server accepted
// the watch, nor a sign of health, so the backoff does not change. The watchdog waits
// longer instead; see State.Deadline.
func afterSilence(s State, r Result) (State, Step) {
	s.silent++
	s, st := wait(s, Watching, pace(r), herdJitter)
	st.Incident = incident.Silent
	return s, st
}

// pace returns the least pause before the next watch, so that requests are watchPace apart
// on average: the watch, and the requests that compared objects.
func pace(r Result) time.Duration {
	return max(0, watchPace*time.Duration(1+r.Asked)-r.Lived)
}
