package kube_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/kube"
)

func TestEveryReasonOfExpiryHasAText(t *testing.T) {
	seen := map[string]string{}
	for _, reason := range []string{"", "age", "bytes", "requested", kube.ReasonUnseen, kube.ReasonUnreadable, "sunspots"} {
		text := (&kube.ExpiredError{Requested: 1, Oldest: 4, Reason: reason}).Status().Details.Causes[0].Message
		if other, has := seen[text]; has {
			t.Errorf("%q and %q have the same text", reason, other)
		}
		seen[text] = reason
	}
}

// received is what a client has of an error after it came over the wire.
func received(t *testing.T, err apierrors.APIStatus) error {
	t.Helper()
	body, jsonErr := json.Marshal(err.Status())
	if jsonErr != nil {
		t.Fatal(jsonErr)
	}
	var s metav1.Status
	if jsonErr := json.Unmarshal(body, &s); jsonErr != nil {
		t.Fatal(jsonErr)
	}
	return fmt.Errorf("watch pods: %w", apierrors.FromObject(&s))
}

func TestWhyExpiredReadsThex(t *testing.T) {
	at := time.Date(2026, 11, 3, 5, 6, 7, 0, time.UTC)
	for _, reason := range []string{"", "age", "bytes", "requested", kube.ReasonUnseen, kube.ReasonUnreadable, "sunspots"} {
		for _, kind := range []kube.ExpiredKind{kube.ExpiredWatch, kube.ExpiredList, kube.ExpiredContinue} {
			for _, want := range []kube.ExpiredError{
				{Oldest: 1_000_000_004, OldestAge: 25 * time.Hour, Reason: reason, RemovedAt: at},
				{Oldest: 4, Reason: reason},
			} {
				sent := want
				sent.Requested, sent.Kind, sent.Continue = 1, kind, "x"
				if diff := cmp.Diff(&want, kube.WhyExpired(received(t, &sent))); diff != "" {
					t.Errorf("%+v (-want +got):\n%s", sent, diff)
				}
				if got := kube.WhyExpired(fmt.Errorf("x: %w", &sent)); got != &sent {
					t.Errorf("the typed error %+v becomes %+v", sent, got)
				}
			}
		}
	}
}

func TestWhyExpiredIsNilWithoutCauses(t *testing.T) {
	cause := func(oldest string) *metav1.StatusDetails {
		return &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: kube.CauseOldest, Message: oldest}}}
	}
	for name, err := range map[string]error{
		"nil":                nil,
		"no Status":          errors.New("x"),
		"a foreign 410":      apierrors.NewResourceExpired("too old resource version: 1 (4)"),
		"a 410 from a proxy": generic(410),
		"another error":      status(metav1.Status{Code: 404, Details: cause("5")}),
		"no number":          status(metav1.Status{Code: 410, Details: cause("soon")}),
		"zero":               status(metav1.Status{Code: 410, Details: cause("0")}),
	} {
		if got := kube.WhyExpired(err); got != nil {
			t.Errorf("%s: %+v, want nil", name, got)
		}
	}
	if got := kube.WhyExpired(status(metav1.Status{Code: 410, Details: cause("5")})); got == nil || got.Oldest != 5 ||
		got.Reason != "" || got.OldestAge != 0 {
		t.Errorf("only the oldest: %+v", got)
	}
}
