package kube_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/kube"
)

func status(s metav1.Status) error { return &apierrors.StatusError{ErrStatus: s} }

// generic is what client-go makes of an answer whose body is no Status.
func generic(code int) error {
	return apierrors.NewGenericServerResponse(code, "GET", schema.GroupResource{Resource: "pods"}, "", "text", 0, true)
}

func TestAnswersOfServersAndProxiesAreClassified(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want kube.Outcome
	}{
		"nil":                    {nil, kube.OutcomeOK},
		"410 without a reason":   {status(metav1.Status{Code: 410}), kube.OutcomeExpired},
		"410 Gone":               {status(metav1.Status{Code: 410, Reason: metav1.StatusReasonGone}), kube.OutcomeExpired},
		"410 from a proxy":       {generic(410), kube.OutcomeExpired},
		"Expired without a code": {status(metav1.Status{Reason: metav1.StatusReasonExpired}), kube.OutcomeExpired},
		"too large by text": {
			apierrors.NewTimeoutError("Too large resource version: 9, current: 1", 1), kube.OutcomeTooLarge,
		},
		"too large by cause": {
			status(metav1.Status{
				Code:    504,
				Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}},
			}), kube.OutcomeTooLarge,
		},
		"429 for too large": {
			apierrors.NewTooManyRequests("Too large resource version", 1), kube.OutcomeTooManyRequests,
		},
		"401 from a proxy": {generic(401), kube.OutcomeUnauthorized},
		"403 from a proxy": {generic(403), kube.OutcomeForbidden},
		"404 from a proxy": {generic(404), kube.OutcomeNotFound},
		"400 from a proxy": {generic(400), kube.OutcomeInvalid},
		"422":              {generic(422), kube.OutcomeInvalid},
		"409":              {generic(409), kube.OutcomeConflict},
		"429 from a proxy": {generic(429), kube.OutcomeTooManyRequests},
		"500 from a proxy": {generic(500), kube.OutcomeServerError},
		"502 from a proxy": {generic(502), kube.OutcomeServerError},
		"503 from a proxy": {generic(503), kube.OutcomeServerError},
		"504 from a proxy": {generic(504), kube.OutcomeTimeout},
		"418":              {generic(418), kube.OutcomeInvalid},
		"302":              {generic(302), kube.OutcomeUnknown},
		"an empty Status":  {status(metav1.Status{}), kube.OutcomeUnknown},
		"Success":          {status(metav1.Status{Status: metav1.StatusSuccess}), kube.OutcomeOK},
		"client-go cannot decode": {
			status(metav1.Status{
				Code: 500, Reason: metav1.StatusReasonInternalError,
				Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: "ClientWatchDecoding"}}},
			}), kube.OutcomeDecode,
		},
		"typed expired":               {&kube.ExpiredError{}, kube.OutcomeExpired},
		"typed too large":             {&kube.TooLargeResourceVersionError{}, kube.OutcomeTooLarge},
		"typed decode":                {fmt.Errorf("x: %w", &kube.DecodeError{}), kube.OutcomeDecode},
		"an error without any answer": {errors.New("x"), kube.OutcomeUnknown},
	} {
		if got := kube.Classify(tt.err); got != tt.want {
			t.Errorf("%s is %v, want %v", name, got, tt.want)
		}
	}
}

func TestNetworkErrorsAreClassified(t *testing.T) {
	wrap := func(err error) error { return &url.Error{Op: "Get", URL: "https://x", Err: err} }
	for name, tt := range map[string]struct {
		err  error
		want kube.Outcome
	}{
		"refused": {
			wrap(&net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}),
			kube.OutcomeRefused,
		},
		"no route": {
			wrap(&net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}),
			kube.OutcomeRefused,
		},
		"no such host":  {wrap(&net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}), kube.OutcomeRefused},
		"dial timeout":  {wrap(&net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}), kube.OutcomeTimeout},
		"deadline":      {wrap(context.DeadlineExceeded), kube.OutcomeTimeout},
		"read deadline": {os.ErrDeadlineExceeded, kube.OutcomeTimeout},
		"canceled":      {wrap(context.Canceled), kube.OutcomeCanceled},
		"EOF":           {wrap(io.EOF), kube.OutcomeDisconnected},
		"cut":           {io.ErrUnexpectedEOF, kube.OutcomeDisconnected},
		"reset": {
			wrap(&net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}),
			kube.OutcomeDisconnected,
		},
		"read": {
			&net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ENETDOWN)}, kube.OutcomeDisconnected,
		},
		"broken pipe": {syscall.EPIPE, kube.OutcomeDisconnected},
		"closed":      {net.ErrClosed, kube.OutcomeDisconnected},
		"HTTP/2 goaway": {
			wrap(errors.New("http2: server sent GOAWAY and closed the connection; LastStreamID=1")), kube.OutcomeDisconnected,
		},
		"HTTP/2 lost":   {errors.New("http2: client connection lost"), kube.OutcomeDisconnected},
		"HTTP/2 stream": {errors.New("stream error: stream ID 5; INTERNAL_ERROR; received from peer"), kube.OutcomeDisconnected},
		"refused, text": {
			errors.New("proxyconnect tcp: dial tcp 127.0.0.1:1: connect: connection refused"), kube.OutcomeRefused,
		},
		"JSON syntax":    {decodeError(`{"a":}`), kube.OutcomeDecode},
		"JSON shape":     {decodeError(`{"metadata":5}`), kube.OutcomeDecode},
		"jsontext":       {tokenError(`{"a":}`), kube.OutcomeDecode},
		"cut in a frame": {tokenError(`{"a":`), kube.OutcomeDisconnected},
	} {
		if got := kube.Classify(tt.err); got != tt.want {
			t.Errorf("%s (%v) is %v, want %v", name, tt.err, got, tt.want)
		}
	}
}

func decodeError(raw string) error {
	return json.Unmarshal([]byte(raw), &metav1.PartialObjectMetadata{})
}

func tokenError(raw string) error {
	_, err := jsontext.NewDecoder(strings.NewReader(raw)).ReadValue()
	return err
}

// get asks url and reads the whole answer.
func get(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}

func TestErrorsOfRealConnectionsAreClassified(t *testing.T) {
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(proto, func(t *testing.T) {
			// Not the request's context: a server that ends its answer when the
			// client hangs up can still be heard by the client.
			finish := make(chan struct{})
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Proto != proto {
					t.Errorf("spoke %s", r.Proto)
				}
				w.WriteHeader(http.StatusOK)
				if err := http.NewResponseController(w).Flush(); err != nil {
					t.Errorf("flush: %v", err)
				}
				if r.URL.Path == "/abort" {
					panic(http.ErrAbortHandler)
				}
				<-finish
			}))
			server.EnableHTTP2 = proto == "HTTP/2.0"
			server.StartTLS()
			client := server.Client()
			if got := kube.Classify(get(t.Context(), client, server.URL+"/abort")); got != kube.OutcomeDisconnected {
				t.Errorf("a broken answer is %v", got)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if got := kube.Classify(get(ctx, client, server.URL)); got != kube.OutcomeTimeout {
				t.Errorf("a deadline is %v", got)
			}
			ctx, stop := context.WithCancel(t.Context())
			stop()
			if got := kube.Classify(get(ctx, client, server.URL)); got != kube.OutcomeCanceled {
				t.Errorf("a canceled request is %v", got)
			}
			transport, is := client.Transport.(*http.Transport)
			if !is {
				t.Fatalf("the client's transport is a %T", client.Transport)
			}
			close(finish)
			client.CloseIdleConnections()
			server.Close()
			fresh := &http.Client{Transport: transport.Clone()}
			if got := kube.Classify(get(t.Context(), fresh, server.URL)); got != kube.OutcomeRefused {
				t.Errorf("a server that is gone is %v", got)
			}
		})
	}
}

func TestOutcomesHaveUniqueNames(t *testing.T) {
	seen := map[string]kube.Outcome{}
	for o := kube.OutcomeUnknown; o <= kube.OutcomeCanceled; o++ {
		if other, has := seen[o.String()]; has {
			t.Errorf("%d and %d are both %q", o, other, o)
		}
		seen[o.String()] = o
	}
}

func TestOnlyServerErrorsHaveARetryDelay(t *testing.T) {
	if delay, ok := kube.RetryDelay(io.EOF); ok || delay != 0 {
		t.Errorf("EOF: %v %v", delay, ok)
	}
}
