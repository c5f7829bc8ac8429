package course

import (
	"time"

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
		s.quorum = true
		return regain(s, r, WentBack)
	case ResultStart, ResultListed, ResultStreamed, ResultFailed, ResultElapsed, ResultStopped:
	}
	switch r.Outcome {
	case kube.OutcomeExpired:
		return regain(s, r, Gone)
	case kube.OutcomeTooLarge:
		s.ahead++
		if s.ahead >= aheadLimit {
			s.quorum, s.ahead = true, 0
			return reread(s, r, TooLarge)
		}
		return retry(s, Watching, r, TooLarge)
	case kube.OutcomeInvalid:
		s.quorum = true
		return reread(s, r, Rejected)
	case kube.OutcomeDecode:
		s.broken++
		if s.broken >= brokenLimit {
			s.broken = 0
			return reread(s, r, Undecodable)
		}
		return retry(s, Watching, r, Undecodable)
	case kube.OutcomeDisconnected, kube.OutcomeTimeout, kube.OutcomeServerError, kube.OutcomeUnknown:
		if s.failures == 0 && r.RetryAfter == 0 {
			r.RetryAfter = pace(r)
			return atOnce(s, Watching, r, incidentOf(r.Outcome))
		}
	case kube.OutcomeOK, kube.OutcomeTooManyRequests, kube.OutcomeUnauthorized, kube.OutcomeForbidden,
		kube.OutcomeNotFound, kube.OutcomeConflict, kube.OutcomeRefused, kube.OutcomeCanceled:
	}
	return retry(s, Watching, r, incidentOf(r.Outcome))
}

// seen takes over what a watch brought before it ended. Only a watch that showed
// life resets the backoff: one that said something, or that lived for a while and did
// not end for its silence. A request that waited long for its refusal did not live.
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
	if d := pace(r); d > 0 {
		return wait(s, Watching, d, herdJitter)
	}
	return enter(s, Watching)
}

// afterSilence: a watch that is given up is replaced at once, because it may be dead
// since its last word, and its silence was pause enough. It is no failure, since the
// server accepted it, and no sign of health either, so the backoff stays as it was.
// The watchdog becomes more patient instead; see State.Deadline.
func afterSilence(s State, r Result) (State, Step) {
	s.silent++
	s, st := wait(s, Watching, pace(r), herdJitter)
	st.Incident = Silent
	return s, st
}

func pace(r Result) time.Duration { return max(0, watchPace-r.Lived) }
