package wire_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// statusRow is one row of the table from errors to Status: the body and what a
// client makes of it.
type statusRow struct {
	err     error
	body    string
	outcome kube.Outcome
	retry   time.Duration
}

// failureBody is the frame that every failure's JSON has.
func failureBody(rest string) string {
	return `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` + rest + `}`
}

// deployments and foos are resources for the texts.
func deployments() schema.GroupResource {
	return schema.GroupResource{Group: "apps", Resource: "deployments"}
}

func statusRows() map[string]statusRow {
	cms := schema.GroupResource{Resource: "configmaps"}
	const oldest = `"details":{"causes":[{"reason":"HistoryRemoved","message":"the oldest resourceVersion that can ` +
		`still be asked for is 4`
	const cause = `","field":"resourceVersion"},{"reason":`
	const by = cause + `"OldestResourceVersion","message":"4` + cause
	const removedBy = `"RemovedBy","message":"`
	const at = `","field":"resourceVersion"}]},"code":410`
	const continueText = "The provided continue parameter is too old to display a consistent list result. You can start a new " +
		"list without the continue parameter"
	return map[string]statusRow{
		"not found": {
			wire.NotFound(deployments(), "x"),
			failureBody(
				`"message":"deployments.apps \"x\" not found","reason":"NotFound","details":{"name":"x","group":"apps",` +
					`"kind":"deployments"},"code":404`), kube.OutcomeNotFound, 0,
		},
		"exists": {
			wire.AlreadyExists(cms, "x"),
			failureBody(
				`"message":"configmaps \"x\" already exists","reason":"AlreadyExists","details":{"name":"x",` +
					`"kind":"configmaps"},"code":409`), kube.OutcomeConflict, 0,
		},
		"conflict": {
			wire.Conflict(cms, "x",
				"the object has been modified; please apply your changes to the latest version and try again"),
			failureBody(
				`"message":"Operation cannot be fulfilled on configmaps \"x\": the object has been modified; please apply your ` +
					`changes to the latest version and try again","reason":"Conflict","details":{"name":"x",` +
					`"kind":"configmaps"},"code":409`), kube.OutcomeConflict, 0,
		},
		"invalid": {
			wire.Invalid(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "x", field.ErrorList{
				field.Required(field.NewPath("metadata", "name"), "name or generateName is required"),
			}),
			failureBody(
				`"message":"Deployment.apps \"x\" is invalid: metadata.name: Required value: name or generateName is required",` +
					`"reason":"Invalid","details":{"name":"x","group":"apps","kind":"Deployment",` +
					`"causes":[{"reason":"FieldValueRequired","message":"Required value: name or generateName is required",` +
					`"field":"metadata.name"}]},"code":422`), kube.OutcomeInvalid, 0,
		},
		"bad request": {
			wire.BadRequest("no %d%%", 5), failureBody(`"message":"no 5%","reason":"BadRequest","code":400`), kube.OutcomeInvalid,
			0,
		},
		"forbidden": {
			wire.Forbidden(cms, "x", "why"),
			failureBody(
				`"message":"configmaps \"x\" is forbidden: why","reason":"Forbidden","details":{"name":"x",` +
					`"kind":"configmaps"},"code":403`), kube.OutcomeForbidden, 0,
		},
		"unauthorized": {
			wire.Unauthorized(), failureBody(`"message":"Unauthorized","reason":"Unauthorized","code":401`),
			kube.OutcomeUnauthorized, 0,
		},
		"method": {
			wire.MethodNotAllowed(deployments(), "patch"),
			failureBody(
				`"message":"patch is not supported on resources of kind \"deployments.apps\"","reason":"MethodNotAllowed",` +
					`"details":{"group":"apps","kind":"deployments"},"code":405`), kube.OutcomeInvalid, 0,
		},
		"accept": {
			wire.NotAcceptable([]string{"application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"}),
			failureBody(
				`"message":"only the following media types are accepted: application/json;stream=watch, ` +
					`application/vnd.kubernetes.protobuf;stream=watch","reason":"NotAcceptable","code":406`), kube.OutcomeInvalid,
			0,
		},
		"media type": {
			wire.UnsupportedMediaType([]string{"application/json"}),
			failureBody(
				`"message":"the body of the request was in an unknown format - accepted media types include: application/json",` +
					`"reason":"UnsupportedMediaType","code":415`), kube.OutcomeInvalid, 0,
		},
		"body": {
			wire.TooLargeBody(3145728),
			failureBody(`"message":"Request entity too large: limit is 3145728","reason":"RequestEntityTooLarge","code":413`),
			kube.OutcomeInvalid, 0,
		},
		"too many": {
			wire.TooManyRequests("slow down", 1500*time.Millisecond),
			failureBody(`"message":"slow down","reason":"TooManyRequests","details":{"retryAfterSeconds":2},"code":429`),
			kube.OutcomeTooManyRequests, 2 * time.Second,
		},
		"unavailable": {
			wire.Unavailable("apiserver is shutting down", time.Second),
			failureBody(
				`"message":"apiserver is shutting down","reason":"ServiceUnavailable",` +
					`"details":{"retryAfterSeconds":1},"code":503`), kube.OutcomeServerError, time.Second,
		},
		"internal": {
			wire.Internal(errors.New("disk full")),
			failureBody(
				`"message":"Internal error occurred: disk full","reason":"InternalError","details":{"causes":[{"message":"disk ` +
					`full"}]},"code":500`), kube.OutcomeServerError, 0,
		},
		"expired watch": {
			&kube.ExpiredError{
				Requested: 1, Oldest: 4, Kind: kube.ExpiredWatch, OldestAge: 90 * time.Second, Reason: "age",
				RemovedAt: time.Date(2026, 11, 3, 5, 6, 7, 8, time.FixedZone("", 3600)),
			},
			failureBody(
				`"message":"too old resource version: 1 (4)","reason":"Expired",` + oldest +
					` (1m30s old); what came before was older than history is kept, at 2026-11-03T04:06:07Z` + by +
					`"OldestAgeSeconds","message":"90` + cause + removedBy + `HistoryAge` + cause +
					`"RemovedAt","message":"2026-11-03T04:06:07Z` + at), kube.OutcomeExpired, 0,
		},
		"expired list": {
			&kube.ExpiredError{Requested: 1, Oldest: 4, Kind: kube.ExpiredList, Reason: "bytes"},
			failureBody(
				`"message":"The resourceVersion for the provided list is too old.","reason":"Expired",` + oldest +
					`; what came before did not fit into the bytes that history may take` + by + removedBy + `HistoryBytes` + at),
			kube.OutcomeExpired, 0,
		},
		"expired continue": {
			&kube.ExpiredError{Requested: 1, Oldest: 4, Kind: kube.ExpiredContinue, Continue: "eyJ2", Reason: "requested"},
			`{"kind":"Status","apiVersion":"v1","metadata":{"continue":"eyJ2"},"status":"Failure","message":"` + continueText +
				`, or use the continue token in this response to retrieve the remainder of the results. Continuing with the ` +
				`provided token results in an inconsistent list - objects that were created, modified, or deleted between the ` +
				`time the first chunk was returned and now may show up in the list.","reason":"Expired",` +
				oldest + `; what came before was removed on request` + by + removedBy + `Request` + at + `}`, kube.OutcomeExpired,
			0,
		},
		"expired continue, no token": {
			&kube.ExpiredError{Requested: 1, Oldest: 4, Kind: kube.ExpiredContinue},
			failureBody(
				`"message":"` + continueText + `.","reason":"Expired",` + oldest +
					`; what removed the history before it is not known` + by + removedBy + `Unknown` + at), kube.OutcomeExpired,
			0,
		},
		"too large": {
			&kube.TooLargeResourceVersionError{Requested: 999999, Current: 7},
			failureBody(
				`"message":"Timeout: Too large resource version: 999999, current: 7","reason":"Timeout",` +
					`"details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],` +
					`"retryAfterSeconds":1},"code":504`), kube.OutcomeTooLarge, time.Second,
		},
		"deadline": {
			context.DeadlineExceeded,
			failureBody(
				`"message":"Timeout: request did not complete within the allotted timeout","reason":"Timeout",` +
					`"details":{},"code":504`), kube.OutcomeTimeout, 0,
		},
		"canceled": {
			context.Canceled,
			failureBody(
				`"message":"Timeout: request was canceled before it completed","reason":"Timeout","details":{},"code":504`),
			kube.OutcomeTimeout, 0,
		},
		"apimachinery": {
			apierrors.NewGenerateNameConflict(cms, "x", 1),
			failureBody(
				`"message":"configmaps \"x\" already exists, the server was not able to generate a unique name for the object",` +
					`"reason":"AlreadyExists","details":{"name":"x","kind":"configmaps","retryAfterSeconds":1},"code":409`),
			kube.OutcomeConflict, time.Second,
		},
		"decode": {
			&kube.DecodeError{Offset: 3, Why: "no JSON value"},
			failureBody(
				`"message":"Internal error occurred: decode object: no JSON value at byte 3","reason":"InternalError",` +
					`"details":{"causes":[{"message":"decode object: no JSON value at byte 3"}]},"code":500`),
			kube.OutcomeServerError, 0,
		},
		"unknown": {
			errors.New("oops"),
			failureBody(
				`"message":"Internal error occurred: oops","reason":"InternalError",` +
					`"details":{"causes":[{"message":"oops"}]},"code":500`), kube.OutcomeServerError, 0,
		},
	}
}

func TestEveryErrorHasItsStatus(t *testing.T) {
	for name, row := range statusRows() {
		t.Run(name, func(t *testing.T) {
			for _, err := range []error{row.err, fmt.Errorf("list pods: %w", row.err)} {
				if name == "unknown" || name == "decode" {
					err = row.err // their text is that of the whole chain
				}
				got, jsonErr := json.Marshal(wire.StatusOf(err))
				if jsonErr != nil {
					t.Fatal(jsonErr)
				}
				if diff := cmp.Diff(row.body, string(got)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestClientsUnderstandEveryStatus(t *testing.T) {
	for name, row := range statusRows() {
		t.Run(name, func(t *testing.T) {
			body, err := json.Marshal(wire.StatusOf(row.err))
			if err != nil {
				t.Fatalf("encode as JSON: %v", err)
			}
			var received metav1.Status
			if err := json.Unmarshal(body, &received); err != nil {
				t.Fatalf("decode JSON: %v", err)
			}
			for kind, err := range map[string]error{
				"client-go's error": apierrors.FromObject(&received),
				"our error":         &wire.StatusError{ErrStatus: received},
				"a wrapped error":   fmt.Errorf("watch pods: %w", apierrors.FromObject(&received)),
			} {
				if got := kube.Classify(err); got != row.outcome {
					t.Errorf("%s is %v, want %v", kind, got, row.outcome)
				}
				if delay, ok := kube.RetryDelay(err); delay != row.retry || ok != (row.retry > 0) {
					t.Errorf("%s says to wait %v (%v), want %v", kind, delay, ok, row.retry)
				}
			}
			// Without a code (a frame of a server that sends none) the reason must do.
			received.Code = 0
			if got := kube.Classify(&apierrors.StatusError{ErrStatus: received}); got != row.outcome {
				t.Errorf("without a code it is %v, want %v", got, row.outcome)
			}
		})
	}
}

func TestNoErrorIsSuccess(t *testing.T) {
	if s := wire.StatusOf(nil); s.Status != metav1.StatusSuccess || s.Code != 200 {
		t.Errorf("%+v", s)
	}
}

func TestStatusWithoutCodeIsCompleted(t *testing.T) {
	s := wire.StatusOf(&wire.StatusError{ErrStatus: metav1.Status{Message: "m"}})
	if s.Kind != "Status" || s.APIVersion != "v1" || s.Status != metav1.StatusFailure || s.Code != 500 {
		t.Errorf("%+v", s)
	}
}

func TestCauseIsForLogsOnly(t *testing.T) {
	cause := errors.New("secret")
	err := wire.BadRequest("public")
	err.Cause = cause
	if !errors.Is(err, cause) || err.Error() != "public" {
		t.Errorf("%v", err)
	}
	if _, parseErr := wire.ParseListOptions(query(t, "limit=x"), false); errors.Unwrap(parseErr) == nil {
		t.Error("the cause of a bad limit is lost")
	}
}

func TestRetryAfterIsWholeSecondsRoundedUp(t *testing.T) {
	for wait, want := range map[time.Duration]int{
		0: 0, -time.Second: 0, 1: 1, time.Second: 1, time.Second + 1: 2, math.MaxInt64: math.MaxInt32,
	} {
		for _, err := range []error{wire.TooManyRequests("x", wait), wire.Unavailable("x", wait)} {
			if got, ok := wire.RetryAfter(wire.StatusOf(err)); got != want || ok != (want > 0) {
				t.Errorf("%v: %d (%v), want %d", wait, got, ok, want)
			}
		}
	}
}
