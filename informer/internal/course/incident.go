package course

import "github.com/gapless-io/gapless/kube"

// incidentOf is what to report of an outcome that has no meaning of its own where it
// came up.
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

// String returns the trouble as one lower-case word, for logs and metrics; "" for none.
func (t Trouble) String() string {
	names := [...]string{
		Gone: "gone", SilentGone: "silent_gone", TooLarge: "too_large", WentBack: "went_back",
		Throttled: "throttled", Refused: "refused", Denied: "denied", NotServed: "not_served",
		Rejected: "rejected", NoStreamingList: "no_streaming_list", NoEndBookmark: "no_end_bookmark",
		ShortWatch: "short_watch", Disconnected: "disconnected", Silent: "silent", ServerError: "server_error",
		Undecodable: "undecodable",
	}
	if t < 0 || int(t) >= len(names) {
		return ""
	}
	return names[t]
}
