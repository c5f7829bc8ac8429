package wire

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// StatusError is an error that already knows its Status. It is made only by the
// constructors of this file, so that code, reason and text are in one place.
type StatusError struct {
	// ErrStatus is named as in apimachinery's error of this name.
	ErrStatus metav1.Status
	// Cause is the underlying error, for logs; it is never sent.
	Cause error
}

func (e *StatusError) Error() string { return e.ErrStatus.Message }

// Status makes it one of apimachinery's APIStatus, which clients and [kube.Classify] read.
func (e *StatusError) Status() metav1.Status { return complete(e.ErrStatus) }

// Unwrap returns the cause.
func (e *StatusError) Unwrap() error { return e.Cause }

// made turns one of apimachinery's errors, which have upstream's texts, into ours.
func made(e *apierrors.StatusError) *StatusError {
	return &StatusError{ErrStatus: complete(e.ErrStatus)}
}

// complete sets the fields that every Status on the wire has.
func complete(s metav1.Status) metav1.Status {
	s.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	if s.Status == "" {
		s.Status = metav1.StatusFailure
	}
	if s.Code == 0 {
		s.Code = http.StatusInternalServerError
		if s.Status == metav1.StatusSuccess {
			s.Code = http.StatusOK
		}
	}
	return s
}

// failure is a Status without details.
func failure(code int32, reason metav1.StatusReason, message string) *StatusError {
	return &StatusError{ErrStatus: complete(metav1.Status{Code: code, Reason: reason, Message: message})}
}

// seconds is a time to wait as the wire has it: whole seconds, rounded up.
func seconds(d time.Duration) int {
	if d <= 0 {
		return 0
	}
	const most = math.MaxInt32
	return int(min((d-1)/time.Second+1, most))
}

// NotFound is 404 `configmaps "x" not found`.
func NotFound(gr schema.GroupResource, name string) *StatusError {
	return made(apierrors.NewNotFound(gr, name))
}

// NotServed is 404 `the server could not find the requested resource: why`, for a
// path that this server does not serve. name is that of the object in the path.
func NotServed(gr schema.GroupResource, name, why string) *StatusError {
	e := failure(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource: "+why)
	e.ErrStatus.Details = &metav1.StatusDetails{Group: gr.Group, Kind: gr.Resource, Name: name}
	return e
}

// AlreadyExists is 409 `configmaps "x" already exists`.
func AlreadyExists(gr schema.GroupResource, name string) *StatusError {
	return made(apierrors.NewAlreadyExists(gr, name))
}

// Conflict is 409 `Operation cannot be fulfilled on configmaps "x": why`.
func Conflict(gr schema.GroupResource, name, why string) *StatusError {
	return made(apierrors.NewConflict(gr, name, errors.New(why)))
}

// What a Status says of an invalid object at most: how many errors, and how many
// bytes of a text that is wrong. A small body can have an error in every third
// byte, and upstream, which has no such bounds, joins their texts in a time and a
// memory that grow with the square of their number.
const (
	maxFieldErrors = 100
	maxBadText     = 1 << 10
	// maxQuoted is how many bytes of values that are objects or lists an answer has; the last one
	// may go beyond it. A list of names may be quoted for each wrong name.
	maxQuoted = 256 << 10
)

// Invalid is 422 with one cause per field error, for the first hundred.
func Invalid(gk schema.GroupKind, name string, errs field.ErrorList) *StatusError {
	shown := make(field.ErrorList, 0, min(len(errs), maxFieldErrors))
	quoted := 0
	for _, err := range errs[:cap(shown)] {
		shown = append(shown, brief(err, &quoted))
	}
	e := made(apierrors.NewInvalid(gk, name, shown))
	if more := len(errs) - len(shown); more > 0 {
		e.ErrStatus.Message += fmt.Sprintf(" and %d more errors", more)
	}
	return e
}

// brief returns an error with what an answer shows of its value. It counts the bytes of objects and
// lists.
func brief(err *field.Error, quoted *int) *field.Error {
	short := *err
	switch value := err.BadValue.(type) {
	case nil, bool, int32, int64, float32, float64, field.OmitValueType:
		return err
	case string:
		if len(value) <= maxBadText {
			return err
		}
		short.BadValue = value[:maxBadText] + "..."
	default:
		if *quoted <= maxQuoted {
			*quoted += len(err.ErrorBody())
			return err
		}
		short.BadValue = "..."
	}
	return &short
}

// BadRequest is 400.
func BadRequest(format string, args ...any) *StatusError {
	return made(apierrors.NewBadRequest(fmt.Sprintf(format, args...)))
}

// badRequest is 400 with the text of cause.
func badRequest(cause error) *StatusError {
	e := made(apierrors.NewBadRequest(cause.Error()))
	e.Cause = cause
	return e
}

// Forbidden is 403 `configmaps "x" is forbidden: why`.
func Forbidden(gr schema.GroupResource, name, why string) *StatusError {
	return made(apierrors.NewForbidden(gr, name, errors.New(why)))
}

// Unauthorized is 401.
func Unauthorized() *StatusError { return made(apierrors.NewUnauthorized("Unauthorized")) }

// MethodNotAllowed is 405 `patch is not supported on resources of kind "x"`.
func MethodNotAllowed(gr schema.GroupResource, verb string) *StatusError {
	return made(apierrors.NewMethodNotSupported(gr, verb))
}

// NotAcceptable is 406 `only the following media types are accepted: …`.
func NotAcceptable(accepted []string) *StatusError {
	return failure(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
		"only the following media types are accepted: "+strings.Join(accepted, ", "))
}

// UnsupportedMediaType is 415 `the body of the request was in an unknown format - …`.
func UnsupportedMediaType(accepted []string) *StatusError {
	return failure(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
		"the body of the request was in an unknown format - accepted media types include: "+strings.Join(accepted, ", "))
}

// TooLargeBody is 413 with the limit in bytes.
func TooLargeBody(limit int64) *StatusError {
	return made(apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", limit)))
}

// TooLarge is 413 `Request entity too large: why`.
func TooLarge(format string, args ...any) *StatusError {
	return made(apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(format, args...)))
}

// RequestTimeout is a 408: the request itself arrived too slowly.
func RequestTimeout(why string) *StatusError {
	return failure(http.StatusRequestTimeout, metav1.StatusReasonTimeout, why)
}

// TooManyRequests is 429 with Retry-After.
func TooManyRequests(why string, retryAfter time.Duration) *StatusError {
	return made(apierrors.NewTooManyRequests(why, seconds(retryAfter)))
}

// Unavailable is 503 with Retry-After.
func Unavailable(why string, retryAfter time.Duration) *StatusError {
	e := failure(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, why)
	if s := seconds(retryAfter); s > 0 {
		e.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: int32(s)}
	}
	return e
}

// Unknown is 500 with the cause's text and without a reason, as upstream answers an error
// that has no Status, such as a configuration that does not fit its schema.
func Unknown(cause error) *StatusError {
	e := failure(http.StatusInternalServerError, metav1.StatusReasonUnknown, cause.Error())
	e.Cause = cause
	return e
}

// Internal is 500 InternalError `Internal error occurred: …`.
func Internal(cause error) *StatusError {
	e := made(apierrors.NewInternalError(cause))
	e.Cause = cause
	return e
}
