package webhook

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	upstream "k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission/match"
)

// Validate implements admission.Plugin: it asks the validating webhooks, at the same time, and
// waits for all of them. Of several refusals the first one counts, in the order of the webhooks.
func (p *Plugin) Validate(ctx context.Context, a upstream.Attributes) error {
	found := p.find(match.QuestionOf(a))
	if found == nil || len(found.validating) == 0 {
		return nil
	}
	about := p.asked(a)
	var all []*call
	for _, hook := range found.validating {
		c, err := p.applies(ctx, hook, about)
		if err != nil {
			return err
		}
		if c == nil {
			continue
		}
		if c.view, err = about.views.Of(ctx, c.by); err != nil {
			return apierrors.NewInternalError(err)
		}
		c.place = len(all) // upstream counts those that are asked
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil
	}
	if ctx.Err() != nil {
		return outOfTime()
	}
	// The goroutines are this call's; each ends with the time of its webhook.
	var wg sync.WaitGroup
	refusals := make([]error, len(all))
	for i, c := range all {
		wg.Go(func() { refusals[i] = p.validate(ctx, c) })
	}
	wg.Wait()
	for _, refusal := range refusals {
		if refusal != nil {
			return refusal
		}
	}
	return nil
}

// validate asks one webhook, and returns the refusal of the write.
func (p *Plugin) validate(ctx context.Context, c *call) (err error) {
	defer func() {
		// In a handler's own goroutine net/http would end the request, and not the server.
		if r := recover(); r != nil {
			err = apierrors.NewInternalError(fmt.Errorf("ValidatingAdmissionWebhook/%v has panicked: %v", c.Name, r))
		}
	}()
	began := time.Now()
	_, err = p.call(ctx, c)
	p.metrics.called(c, c.view, began, err)
	if err == nil {
		return nil
	}
	_, err = p.verdict(ctx, c, c.view, err)
	return err
}
