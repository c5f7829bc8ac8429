package kube

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Outcome is what an error of a request, or an ERROR frame of a watch, means for
// the client that got it.
type Outcome int

// The outcomes. Two are the protocol's own: OutcomeExpired, after which the client
// reads the state again, and OutcomeTooLarge, after which it waits.
const (
	OutcomeUnknown         Outcome = iota // none of the others; treat as ServerError
	OutcomeOK                             // no error
	OutcomeExpired                        // 410 Expired or Gone, as answer or in the stream
	OutcomeTooLarge                       // 504: the resource version is in the future
	OutcomeTooManyRequests                // 429; see RetryDelay
	OutcomeUnauthorized                   // 401
	OutcomeForbidden                      // 403
	OutcomeNotFound                       // 404: also a type that is not served (yet)
	OutcomeConflict                       // 409
	OutcomeInvalid                        // 400, 405, 406, 413, 415, 422: the server refuses this request
	OutcomeRefused                        // no connection could be made
	OutcomeTimeout                        // 408, 504, or a deadline of the network
	OutcomeDisconnected                   // the connection broke in the middle
	OutcomeServerError                    // 5xx; see RetryDelay
	OutcomeDecode                         // the answer could not be understood
	OutcomeCanceled                       // the client's own context ended
)

// String returns the outcome as one lower-case word, for logs and metrics.
func (o Outcome) String() string {
	switch o {
	case OutcomeOK:
		return "ok"
	case OutcomeExpired:
		return "expired"
	case OutcomeTooLarge:
		return "too_large"
	case OutcomeTooManyRequests:
		return "too_many_requests"
	case OutcomeUnauthorized:
		return "unauthorized"
	case OutcomeForbidden:
		return "forbidden"
	case OutcomeNotFound:
		return "not_found"
	case OutcomeConflict:
		return "conflict"
	case OutcomeInvalid:
		return "invalid"
	case OutcomeRefused:
		return "refused"
	case OutcomeTimeout:
		return "timeout"
	case OutcomeDisconnected:
		return "disconnected"
	case OutcomeServerError:
		return "server_error"
	case OutcomeDecode:
		return "decode"
	case OutcomeCanceled:
		return "canceled"
	case OutcomeUnknown:
	}
	return "unknown"
}

// Classify returns the outcome for err: the inverse of StatusOf, for clients. It knows
// the typed errors of this package, every error that carries a Status, and the
// errors of the network and of decoders. It does not distinguish a caller's own
// deadline (context.DeadlineExceeded) from the network's: both are OutcomeTimeout.
func Classify(err error) Outcome {
	if err == nil {
		return OutcomeOK
	}
	if s, is := statusIn(err); is {
		return classifyStatus(s)
	}
	if _, is := errors.AsType[*DecodeError](err); is {
		return OutcomeDecode
	}
	if errors.Is(err, context.Canceled) {
		return OutcomeCanceled
	}
	return classifyLocal(err)
}

// RetryDelay returns the delay that the server requests in err; not ok if there is
// none.
func RetryDelay(err error) (delay time.Duration, ok bool) {
	s, is := statusIn(err)
	if !is || s.Details == nil || s.Details.RetryAfterSeconds <= 0 {
		return 0, false
	}
	return time.Duration(s.Details.RetryAfterSeconds) * time.Second, true
}

// statusIn finds the Status that err carries or stands for, as received: a frame of a
// foreign server may have no code.
func statusIn(err error) (metav1.Status, bool) {
	var e apierrors.APIStatus
	if errors.As(err, &e) {
		return e.Status(), true
	}
	return metav1.Status{}, false
}

func classifyStatus(s metav1.Status) Outcome {
	if s.Status == metav1.StatusSuccess {
		return OutcomeOK
	}
	if s.Reason == metav1.StatusReasonExpired || s.Reason == metav1.StatusReasonGone {
		return OutcomeExpired
	}
	code := int(s.Code)
	if code == 0 {
		code = codeOf(s.Reason)
	}
	switch code {
	case http.StatusGone:
		return OutcomeExpired
	case http.StatusTooManyRequests:
		return OutcomeTooManyRequests
	case http.StatusUnauthorized:
		return OutcomeUnauthorized
	case http.StatusForbidden:
		return OutcomeForbidden
	case http.StatusNotFound:
		return OutcomeNotFound
	case http.StatusConflict:
		return OutcomeConflict
	case http.StatusGatewayTimeout, http.StatusRequestTimeout:
		if isTooLarge(s) {
			return OutcomeTooLarge
		}
		return OutcomeTimeout
	}
	switch {
	case isDecode(s):
		return OutcomeDecode
	case code >= 500:
		return OutcomeServerError
	case code >= 400:
		return OutcomeInvalid
	}
	return OutcomeUnknown
}

// isTooLarge looks at the text too: servers 1.17 to 1.18.5 send no cause, and
// proxies lose it (client-go reflector.go isTooLargeResourceVersionError).
func isTooLarge(s metav1.Status) bool {
	if strings.Contains(s.Message, tooLarge) {
		return true
	}
	if s.Details == nil {
		return false
	}
	for _, c := range s.Details.Causes {
		if c.Type == metav1.CauseTypeResourceVersionTooLarge || c.Message == tooLarge {
			return true
		}
	}
	return false
}

// isDecode finds what client-go makes of a watch frame that it cannot decode: a
// 500 that no server sent (rest/watch, streamwatcher.go).
func isDecode(s metav1.Status) bool {
	if s.Details == nil {
		return false
	}
	for _, c := range s.Details.Causes {
		if c.Type == "ClientWatchDecoding" {
			return true
		}
	}
	return false
}

// codeOf is the code that belongs to a reason; 0 if there is none.
func codeOf(reason metav1.StatusReason) int {
	return map[metav1.StatusReason]int{
		metav1.StatusReasonBadRequest:            http.StatusBadRequest,
		metav1.StatusReasonUnauthorized:          http.StatusUnauthorized,
		metav1.StatusReasonForbidden:             http.StatusForbidden,
		metav1.StatusReasonNotFound:              http.StatusNotFound,
		metav1.StatusReasonMethodNotAllowed:      http.StatusMethodNotAllowed,
		metav1.StatusReasonNotAcceptable:         http.StatusNotAcceptable,
		metav1.StatusReasonAlreadyExists:         http.StatusConflict,
		metav1.StatusReasonConflict:              http.StatusConflict,
		metav1.StatusReasonRequestEntityTooLarge: http.StatusRequestEntityTooLarge,
		metav1.StatusReasonUnsupportedMediaType:  http.StatusUnsupportedMediaType,
		metav1.StatusReasonInvalid:               http.StatusUnprocessableEntity,
		metav1.StatusReasonTooManyRequests:       http.StatusTooManyRequests,
		metav1.StatusReasonInternalError:         http.StatusInternalServerError,
		metav1.StatusReasonServerTimeout:         http.StatusInternalServerError,
		metav1.StatusReasonStoreReadError:        http.StatusInternalServerError,
		metav1.StatusReasonServiceUnavailable:    http.StatusServiceUnavailable,
		metav1.StatusReasonTimeout:               http.StatusGatewayTimeout,
	}[reason]
}

// classifyLocal is for errors that no server sent.
func classifyLocal(err error) Outcome {
	if op, is := errors.AsType[*net.OpError](err); is && op.Op == "dial" && !op.Timeout() {
		return OutcomeRefused
	}
	if _, is := errors.AsType[*net.DNSError](err); is || errors.Is(err, syscall.ECONNREFUSED) {
		return OutcomeRefused
	}
	if timeout, is := errors.AsType[net.Error](err); is && timeout.Timeout() {
		return OutcomeTimeout
	}
	for _, target := range []error{context.DeadlineExceeded, os.ErrDeadlineExceeded} {
		if errors.Is(err, target) {
			return OutcomeTimeout
		}
	}
	for _, target := range []error{
		io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed,
		syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE,
	} {
		if errors.Is(err, target) {
			return OutcomeDisconnected
		}
	}
	if _, is := errors.AsType[*json.SyntaxError](err); is {
		return OutcomeDecode
	}
	if _, is := errors.AsType[*json.UnmarshalTypeError](err); is {
		return OutcomeDecode
	}
	if _, is := errors.AsType[*jsontext.SyntacticError](err); is {
		return OutcomeDecode
	}
	if op, is := errors.AsType[*net.OpError](err); is && (op.Op == "read" || op.Op == "write") {
		return OutcomeDisconnected
	}
	return classifyText(err.Error())
}

// classifyText is for the errors of net/http that have no type: its HTTP/2 is
// bundled, so that even those which have one cannot be named.
func classifyText(text string) Outcome {
	for _, part := range []string{
		"http2: client connection lost", "http2: server sent GOAWAY", "http2: stream closed",
		"stream error: stream ID", "http: server closed idle connection",
		"connection reset by peer", "use of closed network connection",
		"http2: client connection force closed", "http2: Transport received Server's graceful shutdown",
	} {
		if strings.Contains(text, part) {
			return OutcomeDisconnected
		}
	}
	if strings.Contains(text, "connection refused") {
		return OutcomeRefused
	}
	return OutcomeUnknown
}
