package course

import "github.com/gapless-io/gapless/kube"

func afterList(s State, r Result) (State, Step) {
	if r.Kind == ResultListed {
		return arrived(s, r, DoWatch)
	}
	switch r.Outcome {
	case kube.OutcomeExpired:
		if r.Page > 0 && !s.unpaged {
			s.unpaged = true
			return atOnce(s, Listing, r, Gone)
		}
		return unaccepted(s, r, Gone)
	case kube.OutcomeTooLarge:
		return unaccepted(s, r, TooLarge)
	case kube.OutcomeInvalid:
		if r.Page > 0 && !s.unpaged {
			s.unpaged = true
			return atOnce(s, Listing, r, Rejected)
		}
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
	// A streaming list without a version is for the most recent state already.
	if s.quorum || s.Phase == Streaming && s.RV == "" {
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
	s.misses, s.broken, s.ahead, s.quick = 0, 0, 0, 0
	return s, st
}

func afterStream(s State, r Result) (State, Step) {
	switch r.Kind {
	case ResultStreamed:
		return arrived(s, r, DoRead)
	case ResultSilent:
		s.NoStream = true
		return atOnce(s, Listing, r, NoEndBookmark)
	case ResultClosed:
		s.misses++
		if s.misses >= missLimit {
			return retry(s, acquire(s), r, NoEndBookmark)
		}
		return retry(s, acquire(s), r, Disconnected)
	case ResultStart, ResultListed, ResultFailed, ResultWentBack, ResultElapsed, ResultStopped:
	}
	switch r.Outcome {
	case kube.OutcomeInvalid:
		s.NoStream = true
		s, st := enter(s, Listing)
		st.Incident = NoStreamingList
		return s, st
	case kube.OutcomeExpired:
		s.misses++
		return unaccepted(s, r, Gone)
	case kube.OutcomeTooLarge:
		s.misses++
		return unaccepted(s, r, TooLarge)
	case kube.OutcomeDecode, kube.OutcomeTimeout, kube.OutcomeDisconnected, kube.OutcomeServerError, kube.OutcomeUnknown:
		// Perhaps it is about streaming lists: a proxy that cuts what takes long, a
		// server that cannot say how recent it is.
		s.misses++
		return retry(s, acquire(s), r, incidentOf(r.Outcome))
	case kube.OutcomeOK, kube.OutcomeTooManyRequests, kube.OutcomeUnauthorized, kube.OutcomeForbidden,
		kube.OutcomeNotFound, kube.OutcomeConflict, kube.OutcomeRefused, kube.OutcomeCanceled:
	}
	return retry(s, Streaming, r, incidentOf(r.Outcome))
}
