package wire

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StatusOf is the table from errors to the Status that a client gets. Every error has
// one: unknown ones are 500 InternalError, and no error is Success.
func StatusOf(err error) metav1.Status {
	if err == nil {
		return complete(metav1.Status{Status: metav1.StatusSuccess})
	}
	var e apierrors.APIStatus // no error by itself, so not for errors.AsType
	if errors.As(err, &e) {
		return complete(e.Status())
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		// The text of apiserver pkg/endpoints/handlers/finisher.
		return made(apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)).ErrStatus
	case errors.Is(err, context.Canceled):
		// The client may be gone. It is no 503 with Retry-After, because
		// what was requested may have happened.
		return made(apierrors.NewTimeoutError("request was canceled before it completed", 0)).ErrStatus
	}
	return Internal(err).ErrStatus
}

// RetryAfter returns the seconds of the Retry-After header that goes with a
// Status; not ok when it has none.
func RetryAfter(s metav1.Status) (seconds int, ok bool) {
	if s.Details == nil || s.Details.RetryAfterSeconds <= 0 {
		return 0, false
	}
	return int(s.Details.RetryAfterSeconds), true
}
