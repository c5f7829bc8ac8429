package listwatchtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ErrRefused is the error of a refused connection.
var ErrRefused = errors.New("dial tcp 127.0.0.1:1: connect: connection refused")

// Fault is how the server answers one request. The zero value is a normal answer.
type Fault struct {
	Delay  time.Duration // before the answer
	Refuse bool          // refuse the connection
	Hang   bool          // never answer

	// Status is the HTTP status of an error response; 0 means no error.
	Status     int
	Reason     metav1.StatusReason
	RetryAfter int  // in seconds, also for End "429"
	TooLarge   bool // the error is "Too large resource version"

	// End ends the answer after that many frames or items:
	//
	//	eof      the end of a complete answer
	//	cut      the connection is cut between two frames
	//	half     the connection is cut within a frame
	//	garbage  bytes that are not JSON
	//	silent   the connection stays open and nothing more comes
	//
	// A watch, but not a LIST, can also end with eof or with an ERROR event: "410", "504"
	// (too large resource version), "429", "403", "500", or "odd" (an empty Status).
	End   string
	After int

	Late        bool // a LIST returns the state before the Delay
	AcceptLost  bool // ignore Server.RefuseLost
	RefuseAhead bool // a watch from a resource version not reached yet ends with "504"
	Behind      int  // the answer is that many resource versions old, unless it must be consistent
	Repeat      int  // a watch starts that many resource versions too early
	Twice       bool // repeat events
	SwapTypes   bool // send ADDED for MODIFIED and MODIFIED for ADDED

	NoBookmarks  bool   // send no bookmarks
	OldBookmark  bool   // send bookmarks with old resource versions, and some among the initial events
	NoEnd        bool   // send no bookmark at the end of the initial events
	Plain        bool   // ignore sendInitialEvents
	Live         bool   // send changes before the end of the initial events
	NoRV         bool   // lists have no resource version
	Bad          string // an extra item, or the object of an extra MODIFIED event, after BadAfter others
	BadAfter     int
	Unknown      string // the object of an event of unknown type before the end of the initial events
	Page         int    // items per page; 0 means the limit of the request
	ExpireTokens bool   // answer the second page with a 410
	Endless      string // pages without an end: "circle" alternates two tokens, "barren" has no items

	JSON        bool   // answer a request for protobuf with JSON
	BadProtobuf bool   // send invalid objects in protobuf
	Raw         string // the body of the answer
}

// TooLarge returns the error for a resource version that the server has not reached.
func TooLarge() error {
	return statusError(metav1.Status{
		Status: "Failure", Code: 504, Reason: "Timeout", Message: "Timeout: Too large resource version: 9, current: 1",
		Details: &metav1.StatusDetails{
			Causes: []metav1.StatusCause{{Type: "ResourceVersionTooLarge", Message: "Too large resource version"}},
		},
	})
}

// Refusal returns the error of an error response. retryAfter is in seconds.
func Refusal(code int, reason metav1.StatusReason, retryAfter int) error {
	return statusError(metav1.Status{
		Status: "Failure", Code: int32(code), Reason: reason, Message: "refused", //nolint:gosec // an HTTP status
		Details: &metav1.StatusDetails{RetryAfterSeconds: int32(retryAfter)}, //nolint:gosec // seconds
	})
}

func expired(message string) error {
	return statusError(metav1.Status{Status: "Failure", Code: 410, Reason: metav1.StatusReasonExpired, Message: message})
}

func statusError(s metav1.Status) error {
	s.Kind, s.APIVersion = "Status", "v1"
	return &apierrors.StatusError{ErrStatus: s}
}

// refusal returns the error of the error response; nil means none.
func (f Fault) refusal() error {
	switch {
	case f.Status == 0:
		return nil
	case f.TooLarge:
		return TooLarge()
	}
	return Refusal(f.Status, f.Reason, f.RetryAfter)
}

// begin waits for the delay and returns the error that replaces the answer, if any.
func (f Fault) begin(ctx context.Context) error {
	if f.Delay > 0 {
		timer := time.NewTimer(f.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	switch {
	case f.Hang:
		<-ctx.Done()
		return context.Cause(ctx)
	case f.Refuse:
		return ErrRefused
	}
	return f.refusal()
}

// status returns the Status of the ERROR event that ends a watch; nil means none.
func (f Fault) status() error {
	switch f.End {
	case "410":
		return expired("too old resource version: 1 (2)")
	case "504":
		return TooLarge()
	case "429":
		return Refusal(429, metav1.StatusReasonTooManyRequests, f.RetryAfter)
	case "403":
		return Refusal(403, metav1.StatusReasonForbidden, 0)
	case "500":
		return Refusal(500, metav1.StatusReasonInternalError, 0)
	case "odd":
		return statusError(metav1.Status{})
	}
	return nil
}

// faultOf records a request and returns its fault. rule is the view's; nil means the
// server's.
func (s *Server) faultOf(r Request, rule func(Request) Fault) (f Fault) {
	s.mu.Lock()
	s.requests = append(s.requests, r)
	if rule == nil {
		rule = s.fault
	}
	switch {
	case s.down > 0:
		s.down--
		f, rule = Fault{Refuse: true}, nil
	case s.healed:
		rule = nil
	}
	s.mu.Unlock()
	if rule != nil {
		s.ruleMu.Lock()
		f = rule(r)
		s.ruleMu.Unlock()
	}
	if s.Log != nil {
		s.Log("%v namespace=%q limit=%d continue=%q: %s", r, r.Namespace, r.Limit, r.Continue, f)
	}
	return f
}

// String returns all fields.
func (f Fault) String() string { return fmt.Sprintf("%+v", struct{ F plainFault }{plainFault(f)}) }

type plainFault Fault
