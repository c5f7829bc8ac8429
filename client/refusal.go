package client

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// refusal makes an error of an answer that is not 2xx: the Status of the body, or
// one made up when a proxy or another program answered.
func refusal(resp *http.Response) error {
	// 64 KiB: a Status with its causes is small; of anything else the beginning is enough.
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		body = nil // the status line says enough
	}
	wait := retryAfter(resp.Header, time.Now())
	if status, is := parseStatus(body); is && status.Status != metav1.StatusSuccess {
		return received(status, resp.StatusCode, wait)
	}
	e := apierrors.NewGenericServerResponse(resp.StatusCode, strings.ToLower(resp.Request.Method),
		schema.GroupResource{}, "", printable(body), wait, true)
	return e
}

// printable is what a person can read of an answer.
func printable(body []byte) string {
	return strings.TrimSpace(strings.ToValidUTF8(string(body), "?"))
}

// received completes a Status with what only the headers say.
func received(status metav1.Status, code, wait int) error {
	if status.Code == 0 {
		status.Code = int32(code)
	}
	if wait > 0 {
		if status.Details == nil {
			status.Details = &metav1.StatusDetails{}
		}
		if status.Details.RetryAfterSeconds <= 0 {
			status.Details.RetryAfterSeconds = int32(wait)
		}
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// parseStatus reads a Status, in JSON or in protobuf; not is when body is something
// else.
func parseStatus(body []byte) (status metav1.Status, is bool) {
	if IsProtobuf(body) {
		e, err := OpenEnvelope(body)
		if err != nil || string(e.Kind) != "Status" || status.Unmarshal(e.Raw) != nil {
			return metav1.Status{}, false
		}
		return status, true
	}
	if err := json.Unmarshal(body, &status); err != nil || status.Kind != "Status" {
		return metav1.Status{}, false
	}
	return status, true
}

// retryAfter reads the header in both its forms, as whole seconds; 0 if there is
// none. It is at most a day: more is no advice.
func retryAfter(h http.Header, now time.Time) int {
	const most = 24 * 60 * 60
	text := strings.TrimSpace(h.Get("Retry-After"))
	if text == "" {
		return 0
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return int(min(max(n, 0), most))
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	seconds := int64((at.Sub(now) + time.Second - 1) / time.Second)
	return int(min(max(seconds, 0), most))
}
