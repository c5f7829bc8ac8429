package transition

import (
	"github.com/gapless-io/gapless/informer/internal/incident"
	"github.com/gapless-io/gapless/kube"
)

// kindOf returns the incident for an outcome that needs no special treatment.
func kindOf(o kube.Outcome) incident.Kind {
	switch o {
	case kube.OutcomeExpired:
		return incident.Gone
	case kube.OutcomeTooLarge:
		return incident.TooLarge
	case kube.OutcomeTooManyRequests:
		return incident.Throttled
	case kube.OutcomeUnauthorized, kube.OutcomeForbidden:
		return incident.Denied
	case kube.OutcomeNotFound:
		return incident.NotServed
	case kube.OutcomeInvalid, kube.OutcomeConflict:
		return incident.Rejected
	case kube.OutcomeRefused:
		return incident.Refused
	case kube.OutcomeTimeout, kube.OutcomeDisconnected, kube.OutcomeCanceled:
		return incident.Disconnected
	case kube.OutcomeDecode:
		return incident.Undecodable
	case kube.OutcomeUnknown, kube.OutcomeOK, kube.OutcomeServerError:
	}
	return incident.ServerError
}
