package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	upstream "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"

	"github.com/gapless-io/gapless/internal/tracing"
	"github.com/gapless-io/gapless/internal/wire"
)

// callError says that a webhook could not be asked, or that its answer is not to be believed: the
// failure policy decides (apiserver util/webhook.ErrCallingWebhook).
type callError struct {
	webhook string
	why     error
	code    int32 // for metrics
}

// Error implements error.
func (e *callError) Error() string {
	return fmt.Sprintf("failed calling webhook %q: %v", e.webhook, e.why)
}

// Unwrap implements errors.Unwrap.
func (e *callError) Unwrap() error { return e.why }

// rejection is a webhook's own refusal.
type rejection struct{ *apierrors.StatusError }

// Unwrap implements errors.Unwrap.
func (e rejection) Unwrap() error { return e.StatusError }

// denied returns the refusal of a webhook (webhookerrors.ToStatusErr).
func denied(name string, result *metav1.Status) error {
	if result == nil {
		result = &metav1.Status{}
	}
	if result.Code < http.StatusBadRequest {
		result.Code = http.StatusBadRequest
	}
	if result.Status == "" || result.Status == metav1.StatusSuccess {
		result.Status = metav1.StatusFailure
	}
	by := fmt.Sprintf("admission webhook %q denied the request", name)
	switch {
	case result.Message != "":
		result.Message = by + ": " + result.Message
	case result.Reason != "":
		result.Message = by + ": " + string(result.Reason)
	default:
		result.Message = by + " without explanation"
	}
	return rejection{&apierrors.StatusError{ErrStatus: *result}}
}

// outOfTime is the answer to a request that has ended while webhooks were asked.
func outOfTime() error {
	return apierrors.NewTimeoutError("request did not complete within requested timeout", 0)
}

// call asks a webhook. Errors: *callError, rejection, and others for the client.
func (p *Plugin) call(ctx context.Context, c *call) (_ *answer, err error) {
	ctx, span := tracing.Start(ctx, c.spanName())
	span.Set("webhook", c.Name)
	defer func() { span.End(err) }()
	v := c.view
	failed := func(code int32, why error) (*answer, error) {
		return nil, &callError{webhook: c.Name, why: why, code: code}
	}
	if v.IsDryRun() {
		switch {
		case c.SideEffects == nil:
			return failed(http.StatusBadRequest, errors.New("Webhook SideEffects is nil")) //nolint:staticcheck // upstream's text
		case *c.SideEffects != admissionregistrationv1.SideEffectClassNone &&
			*c.SideEffects != admissionregistrationv1.SideEffectClassNoneOnDryRun:
			return nil, apierrors.NewBadRequest(fmt.Sprintf("admission webhook %q does not support dry run", c.Name))
		}
	}
	version, err := reviewVersion(c.AdmissionReviewVersions)
	if err != nil {
		return failed(http.StatusBadRequest, fmt.Errorf("could not create admission objects: %w", err))
	}
	if c.broken != nil {
		return failed(http.StatusInternalServerError, fmt.Errorf("could not get REST client: %w", c.broken))
	}
	uid := uuid.NewUUID()
	body, err := requestBody(version, uid, c)
	if err != nil {
		return failed(http.StatusBadRequest, fmt.Errorf("could not create admission objects: %w", err))
	}
	if c.TimeoutSeconds != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(*c.TimeoutSeconds)*time.Second)
		defer cancel()
	}
	got, err := p.caller(c.hooked).Post(ctx, body)
	if err != nil {
		return failed(codeOf(err), fmt.Errorf("failed to call webhook: %w", err))
	}
	said, err := readAnswer(p.decoder, got, review{version: version, uid: uid, mutates: c.mutates})
	if _, no := errors.AsType[unreadable](err); no {
		return failed(http.StatusServiceUnavailable, fmt.Errorf("failed to call webhook: %w", err))
	}
	if err != nil {
		return failed(http.StatusServiceUnavailable, fmt.Errorf("received invalid webhook response: %w", err))
	}
	for key, value := range said.annotations {
		p.annotate(ctx, v, c.Name+"/"+key, value)
	}
	for _, text := range said.warnings {
		warning.AddWarning(ctx, "", text)
	}
	if !said.allowed {
		return nil, denied(c.Name, said.result)
	}
	return said, nil
}

// spanName is upstream's name of the span of a call.
func (c *call) spanName() string {
	if c.mutates {
		return "Call mutating webhook"
	}
	return "Call validating webhook"
}

// codeOf is the code of a call without an answer, for metrics.
func codeOf(err error) int32 {
	if e, is := errors.AsType[*apierrors.StatusError](err); is {
		return e.ErrStatus.Code
	}
	return http.StatusServiceUnavailable
}

// annotate adds an annotation to the audit event of a write.
func (p *Plugin) annotate(ctx context.Context, a upstream.Attributes, key, value string) {
	if err := a.AddAnnotation(key, value); err != nil {
		p.logger.WarnContext(ctx, "an audit annotation of a webhook is refused", slog.String("key", key), slog.Any("error", err))
	}
}

// verdict says what a call that has failed does to the write. goOn says that the failure policy
// ignores it.
func (p *Plugin) verdict(ctx context.Context, c *call, a upstream.Attributes, err error) (goOn bool, refusal error) {
	if refused, is := errors.AsType[rejection](err); is {
		return false, refused.StatusError
	}
	failed, is := errors.AsType[*callError](err)
	if !is {
		return false, err
	}
	canceled := errors.Is(err, context.Canceled)
	if !c.ignores() {
		p.logger.WarnContext(ctx, "a webhook could not be called: the write is refused", slog.String("webhook", c.Name),
			slog.Any("error", failed.why))
		return false, wire.Internal(err) // it wraps err: a deletion of many must find who was canceled
	}
	if !canceled {
		p.logger.WarnContext(ctx, "a webhook could not be called: the write goes on without it", slog.String("webhook", c.Name),
			slog.Any("error", failed.why))
		p.metrics.openings.WithLabelValues(p.metrics.name(c.Name), c.step()).Inc()
		p.annotate(ctx, a, failedOpenKey(c, a), c.Name)
	}
	return true, nil
}

// failedOpenKey is the audit annotation for a webhook that could not be called.
func failedOpenKey(c *call, a upstream.Attributes) string {
	if c.mutates {
		return fmt.Sprintf("failed-open.mutation.webhook.admission.k8s.io/round_%d_index_%d", round(a), c.place)
	}
	return fmt.Sprintf("failed-open.validating.webhook.admission.k8s.io/round_0_index_%d", c.place)
}

// round counts how often the mutating webhooks are asked about a write: 0 or 1.
func round(a upstream.Attributes) int {
	if a.GetReinvocationContext().IsReinvoke() {
		return 1
	}
	return 0
}
