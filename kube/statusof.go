package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The three texts of 410 (server.md 1.2, 1.3, 2).
const (
	listExpired     = "The resourceVersion for the provided list is too old."
	continueExpired = "The provided continue parameter is too old to display a consistent list result. " +
		"You can start a new list without the continue parameter"
	continueAnyway = ", or use the continue token in this response to retrieve the remainder of the results. " +
		"Continuing with the provided token results in an inconsistent list - objects that were created, " +
		"modified, or deleted between the time the first chunk was returned and now may show up in the list."
)

// causeHistoryRemoved marks the cause that says why history is gone. It is ours;
// upstream sends no details with 410.
const causeHistoryRemoved metav1.CauseType = "HistoryRemoved"

// tooLarge is the text by which clients know a resource version of the future.
const tooLarge = "Too large resource version"

// StatusOf is the table from errors to what a client is told. Every error has an
// answer: unknown ones are 500 InternalError, and no error is Success.
func StatusOf(err error) metav1.Status {
	if err == nil {
		return complete(metav1.Status{Status: metav1.StatusSuccess})
	}
	if e, is := errors.AsType[*StatusError](err); is {
		return complete(e.Status)
	}
	if e, is := errors.AsType[*ExpiredError](err); is {
		return expiredStatus(e)
	}
	if e, is := errors.AsType[*TooLargeResourceVersionError](err); is {
		return tooLargeStatus(e)
	}
	var e apierrors.APIStatus // no error by itself, so not for errors.AsType
	if errors.As(err, &e) {
		return complete(e.Status())
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		// The text of apiserver pkg/endpoints/handlers/finisher.
		return made(apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)).Status
	case errors.Is(err, context.Canceled):
		// Nobody may be there to read it. It is no 503 with Retry-After, because
		// what was asked for may have happened.
		return made(apierrors.NewTimeoutError("request was canceled before it completed", 0)).Status
	}
	return Internal(err).Status
}

func expiredStatus(e *ExpiredError) metav1.Status {
	s := metav1.Status{Code: http.StatusGone, Reason: metav1.StatusReasonExpired}
	switch e.Kind {
	case ExpiredList:
		s.Message = listExpired
	case ExpiredContinue:
		s.Message = continueExpired + "."
		if e.Continue != "" {
			s.Message = continueExpired + continueAnyway
			s.Continue = e.Continue
		}
	case ExpiredWatch:
		s.Message = e.Error()
	default:
		s.Message = e.Error()
	}
	s.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{
		Type: causeHistoryRemoved, Message: whyExpired(e), Field: "resourceVersion",
	}}}
	return complete(s)
}

// whyExpired says what upstream does not: how far back history goes, and what
// removed the rest.
func whyExpired(e *ExpiredError) string {
	text := fmt.Sprintf("the oldest resourceVersion that can still be asked for is %d", e.Oldest)
	if e.OldestAge > 0 {
		text += fmt.Sprintf(" (%v old)", e.OldestAge.Round(time.Second))
	}
	switch e.Reason {
	case "":
	case "age":
		text += "; what came before was older than history is kept"
	case "bytes":
		text += "; what came before did not fit into the bytes that history may take"
	case "requested":
		text += "; what came before was removed on request"
	default:
		text += "; what came before was removed: " + e.Reason
	}
	return text
}

func tooLargeStatus(e *TooLargeResourceVersionError) metav1.Status {
	s := made(apierrors.NewTimeoutError(e.Error(), 1)).Status
	s.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: tooLarge}}
	return s
}

// RetryAfter returns the seconds of the Retry-After header that goes with a
// Status; not ok when it has none.
func RetryAfter(s metav1.Status) (seconds int, ok bool) {
	if s.Details == nil || s.Details.RetryAfterSeconds <= 0 {
		return 0, false
	}
	return int(s.Details.RetryAfterSeconds), true
}
