package transition

import (
	"github.com/gapless-io/gapless/informer/internal/incident"
	"github.com/gapless-io/gapless/kube"
)

func afterList(s State, r Result) (State, Step) {
	if r.Kind == ResultListed {
		return arrived(s, r, DoWatch)
	}
	if r.Kind == ResultWentBack {
		return lost(s, r)
	}
	switch r.Outcome {
	case kube.OutcomeExpired:
		if r.Page > 0 && !s.unpaged {
			s.unpaged = true
			return atOnce(s, Listing, r, incident.Gone)
		}
		return unaccepted(s, r, incident.Gone)
	case kube.OutcomeTooLarge:
		return unaccepted(s, r, incident.TooLarge)
	case kube.OutcomeInvalid:
		if r.Page > 0 && !s.unpaged {
			s.unpaged = true
			return atOnce(s, Listing, r, incident.Rejected)
		}
		return unaccepted(s, r, incident.Rejected)
	case kube.OutcomeUnknown, kube.OutcomeOK, kube.OutcomeTooManyRequests, kube.OutcomeUnauthorized,
		kube.OutcomeForbidden, kube.OutcomeNotFound, kube.OutcomeConflict, kube.OutcomeRefused,
		kube.OutcomeTimeout, kube.OutcomeDisconnected, kube.OutcomeServerError, kube.OutcomeDecode,
		kube.OutcomeCanceled:
	}
	return retry(s, Listing, r, kindOf(r.Outcome))
}

// unaccepted follows when a request for the state is refused for its resource version:
// the most recent state is requested, whatever its version.
func unaccepted(s State, r Result, why incident.Kind) (State, Step) {
	// A streaming list without a version is for the most recent state already.
	if s.quorum || s.Phase == Streaming && s.RV == "" {
		return retry(s, acquire(s), r, why)
	}
	s.quorum = true
	r.RetryAfter = 0 // it was for the refused version
	return atOnce(s, acquire(s), r, why)
}

// lost follows when a request for the state shows that the server's history went back:
// the most recent state is requested, and no object of the cache counts as unchanged.
func lost(s State, r Result) (State, Step) {
	again := s.Back || s.regains > regainLimit
	s.quorum, s.Back, s.Anew = true, true, true
	if again {
		return retry(s, acquire(s), r, incident.WentBack)
	}
	return atOnce(s, acquire(s), r, incident.WentBack)
}

// arrived follows when the whole state was read.
func arrived(s State, r Result, then Action) (State, Step) {
	st := Step{Do: then, RV: r.RV}
	if kube.OlderRV(r.RV, s.RV) && !s.Back {
		st.Incident = incident.WentBack
	}
	s.Phase = Watching
	s.RV = r.RV
	s.quorum, s.unpaged, s.Back, s.Anew = false, false, false, false
	s.ask, s.quiet, s.missed = 0, 0, false
	s.misses, s.broken, s.ahead, s.quick = 0, 0, 0, 0
	return s, st
}

func afterStream(s State, r Result) (State, Step) {
	switch r.Kind {
	case ResultStreamed:
		return arrived(s, r, DoRead)
	case ResultSilent:
		s.NoStream = true
		return atOnce(s, Listing, r, incident.NoEndBookmark)
	case ResultClosed:
		s.misses++
		if s.misses >= missLimit {
			return retry(s, acquire(s), r, incident.NoEndBookmark)
		}
		return retry(s, acquire(s), r, incident.Disconnected)
	case ResultWentBack:
		return lost(s, r)
	case ResultStart, ResultListed, ResultFailed, ResultGap, ResultElapsed, ResultStopped:
	}
	if r.ListNow {
		s, st := enter(s, Listing)
		st.Incident = incident.NoStreamingList
		return s, st
	}
	switch r.Outcome {
	case kube.OutcomeInvalid:
		s.NoStream = true
		s, st := enter(s, Listing)
		st.Incident = incident.NoStreamingList
		return s, st
	case kube.OutcomeExpired:
		s.misses++
		return unaccepted(s, r, incident.Gone)
	case kube.OutcomeTooLarge:
		s.misses++
		return unaccepted(s, r, incident.TooLarge)
	case kube.OutcomeDecode, kube.OutcomeTimeout, kube.OutcomeDisconnected, kube.OutcomeServerError, kube.OutcomeUnknown:
		// The cause can be the streaming list: a proxy that cuts long responses, or a server
		// that cannot say how recent it is.
		s.misses++
		return retry(s, acquire(s), r, kindOf(r.Outcome))
	case kube.OutcomeOK, kube.OutcomeTooManyRequests, kube.OutcomeUnauthorized, kube.OutcomeForbidden,
		kube.OutcomeNotFound, kube.OutcomeConflict, kube.OutcomeRefused, kube.OutcomeCanceled:
	}
	return retry(s, Streaming, r, kindOf(r.Outcome))
}
