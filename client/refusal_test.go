package client_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/kube"
)

func TestEachEndOfAWatchIsClassified(t *testing.T) {
	for _, c := range []struct {
		name string
		body string
		cut  bool
		want kube.Outcome
	}{
		{"410 in the stream", added + "\n" + gone + "\n", false, kube.OutcomeExpired},
		{"a broken frame", added + `{"type":}`, false, kube.OutcomeDecode},
		{"half a frame, clean end", added + added[:40], false, kube.OutcomeDisconnected},
		{"half a frame, cut", added + added[:40], true, kube.OutcomeDisconnected},
		{"cut between frames", added + "\n", true, kube.OutcomeDisconnected},
		{"an ERROR that is no Status", added + `{"type":"ERROR","object":{"oh":1}}`, false, kube.OutcomeServerError},
		{"an ERROR without an object", added + `{"type":"ERROR"}`, false, kube.OutcomeServerError},
	} {
		for _, secure := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s secure=%v", c.name, secure), func(t *testing.T) {
				cl := serve(t, func(rw http.ResponseWriter, r *http.Request) {
					jsonAnswer(c.body)(rw, r)
					_ = http.NewResponseController(rw).Flush()
					if c.cut {
						panic(http.ErrAbortHandler)
					}
				}, secure)
				w, err := cl.Watch(t.Context(), pods(""), metav1.ListOptions{})
				if err != nil {
					t.Fatalf("watch: %v", err)
				}
				defer closing(t, w)
				types, err := read(w)
				if got := kube.Classify(err); got != c.want || errors.Is(err, io.EOF) || len(types) != 1 {
					t.Errorf("%v after %v (%v), want %v", got, types, err, c.want)
				}
				if _, again := w.Next(); again == nil || again.Error() != err.Error() {
					t.Errorf("then %v", again)
				}
			})
		}
	}
}

func TestRefusalsCarryStatusAndRetryAfter(t *testing.T) {
	for _, c := range []struct {
		name, body, retry string
		code              int
		want              kube.Outcome
		wait              time.Duration
	}{
		{"410", `{"kind":"Status","status":"Failure","reason":"Expired","code":410}`, "", 410, kube.OutcomeExpired, 0},
		{"410 from a proxy", `gone`, "", 410, kube.OutcomeExpired, 0},
		{
			"429", `{"kind":"Status","status":"Failure","reason":"TooManyRequests","code":429}`, "7", 429,
			kube.OutcomeTooManyRequests, 7 * time.Second,
		},
		{"429 in plain text", `slow down`, "7", 429, kube.OutcomeTooManyRequests, 7 * time.Second},
		{
			"429 with its own wait", `{"kind":"Status","status":"Failure","code":429,"details":{"retryAfterSeconds":3}}`, "7",
			429, kube.OutcomeTooManyRequests, 3 * time.Second,
		},
		{"503 from a proxy", `<html>`, "2", 503, kube.OutcomeServerError, 2 * time.Second},
		{"a wait that is none", `oh`, "soon", 503, kube.OutcomeServerError, 0},
		{"a wait without bounds", `oh`, "999999999999", 503, kube.OutcomeServerError, 24 * time.Hour},
		{"403", `{"kind":"Status","status":"Failure","reason":"Forbidden","code":403}`, "", 403, kube.OutcomeForbidden, 0},
		{"401 empty", ``, "", 401, kube.OutcomeUnauthorized, 0},
		{"404", `404 page not found`, "", 404, kube.OutcomeNotFound, 0},
		{"422", `{"kind":"Status","status":"Failure","reason":"Invalid","code":422}`, "", 422, kube.OutcomeInvalid, 0},
		{
			"too large",
			`{"kind":"Status","status":"Failure","reason":"Timeout","code":504,` +
				`"details":{"causes":[{"reason":"ResourceVersionTooLarge"}]}}`, "1", 504, kube.OutcomeTooLarge, time.Second,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			cl := serve(t, func(rw http.ResponseWriter, _ *http.Request) {
				if c.retry != "" {
					rw.Header().Set("Retry-After", c.retry)
				}
				rw.WriteHeader(c.code)
				_, _ = io.WriteString(rw, c.body)
			}, false)
			_, listErr := cl.List(t.Context(), pods(""), metav1.ListOptions{}, collect(new([]string)))
			_, watchErr := cl.Watch(t.Context(), pods(""), metav1.ListOptions{})
			for _, err := range []error{listErr, watchErr} {
				wait, _ := kube.RetryDelay(err)
				if got := kube.Classify(err); got != c.want || wait != c.wait {
					t.Errorf("%v, wait %v (%v), want %v, %v", got, wait, err, c.want, c.wait)
				}
			}
		})
	}
}

func TestAnswersOfAnotherTypeAreRefused(t *testing.T) {
	c := serve(t, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(rw, "<html>log in</html>")
	}, false)
	_, err := c.Watch(t.Context(), pods(""), metav1.ListOptions{})
	if kube.Classify(err) != kube.OutcomeDecode || !strings.Contains(err.Error(), "text/html") {
		t.Error(err)
	}
}
