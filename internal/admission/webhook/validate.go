package webhook

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	upstream "k8s.io/apiserver/pkg/admission"
)

// Validate implements admission.Plugin: it asks the validating webhooks, at the same time, and
// waits for all of them. Of several refusals the first one counts, in the order of the webhooks.
func (p *Plugin) Validate(ctx context.Context, a upstream.Attributes) error {
	found, a := p.candidatesFor(a)
	if len(found.validating) == 0 {
		return nil
	}
	type asking struct {
		candidate
		v   *upstream.VersionedAttributes
		err error
	}
	versions := &versions{cluster: p.cluster, a: a, from: found.resource}
	var all []*asking
	for _, c := range found.validating {
		is, err := p.applies(ctx, c, a, versions)
		if err != nil {
			return err
		}
		if !is {
			continue
		}
		v, err := versions.of(ctx, c)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		c.place = len(all) // upstream counts those that are asked
		all = append(all, &asking{candidate: c, v: v})
	}
	if len(all) == 0 {
		return nil
	}
	if ctx.Err() != nil {
		return outOfTime()
	}
	// The goroutines are this call's; each ends with the time of its webhook.
	var wg sync.WaitGroup
	for _, one := range all {
		wg.Go(func() { one.err = p.validate(ctx, one.candidate, one.v) })
	}
	wg.Wait()
	for _, one := range all {
		if one.err != nil {
			return one.err
		}
	}
	return nil
}

// validate asks one webhook, and returns the refusal of the write.
func (p *Plugin) validate(ctx context.Context, c candidate, v *upstream.VersionedAttributes) (err error) {
	defer func() {
		// In a handler's own goroutine net/http would end the request, and not the server.
		if r := recover(); r != nil {
			err = apierrors.NewInternalError(fmt.Errorf("ValidatingAdmissionWebhook/%v has panicked: %v", c.Name, r))
		}
	}()
	began := time.Now()
	_, err = p.call(ctx, c, v)
	p.metrics.called(c, v, began, err)
	if err == nil {
		return nil
	}
	_, err = p.verdict(ctx, c, v, err)
	return err
}
