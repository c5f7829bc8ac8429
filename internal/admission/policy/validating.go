package policy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"
)

// denial is a decision with the policy and the binding that made it.
type denial struct {
	decision
	policy  *definition
	binding *binding // nil: the policy cannot be evaluated
}

// verdict is what the validating policies say about a request.
type verdict struct {
	plugin   *Plugin
	denied   []denial
	failures []failure // for the audit log
}

// validate evaluates validating policies (apiserver policy/validating Dispatch). Errors: that
// of the first denial, 404 without the request's namespace.
func (p *Plugin) validate(ctx context.Context, r *request, candidates *sifted) error {
	r.ctx = ctx
	v := &verdict{plugin: p}
	for _, i := range p.match.Passing(&candidates.sieve, r) {
		c := &candidates.all[i]
		var notes annotations
		for _, m := range p.invocations(r, c, v.failed) {
			if notes == nil {
				notes = annotations{}
			}
			if err := v.invoke(r, m, notes); err != nil {
				return err
			}
		}
		p.publish(r, c.policy.name, notes)
	}
	p.publishFailures(r, v.failures)
	if len(v.denied) == 0 {
		return nil
	}
	return v.denied[0].refuse(r)
}

// failed is the decision about a policy that could not be evaluated.
func (v *verdict) failed(why problem) {
	if why.policy.failure == admissionregistration.Ignore {
		return
	}
	text := fmt.Sprintf("failed to configure policy: %v", why.err)
	if why.binding != nil {
		text = fmt.Sprintf("failed to configure binding: %v", why.err)
	}
	if why.policy.failure != admissionregistration.Fail {
		text = fmt.Sprintf("unrecognized failure policy: '%v'", why.policy.failure)
	}
	v.denied = append(v.denied, denial{decision{denied: true, message: text}, why.policy, why.binding})
}

// invoke evaluates a policy with one binding, for each of its parameters.
func (v *verdict) invoke(r *request, m matched, notes annotations) error {
	view, err := r.versioned(m.Matched)
	if err != nil {
		v.failed(problem{policy: m.definition, binding: m.binding, err: fmt.Errorf("failed to convert object version: %w", err)})
		return nil
	}
	if err := r.readNamespace(); err != nil {
		return err
	}
	compiled := m.compileCheck()
	for _, with := range m.params {
		result := compiled.evaluate(r, evaluation{matched: m, view: view, params: with.object})
		for i, d := range result.decisions {
			v.act(r, m, i, d)
		}
		for _, note := range result.annotations {
			switch {
			case note.err != "":
				d := decision{denied: true, failed: true, message: note.err, elapsed: note.elapsed}
				v.denied = append(v.denied, denial{d, m.definition, m.binding})
				v.plugin.metrics.checked(m, d, actionDeny)
			case note.value != "":
				notes.add(note.key, note.value)
			}
		}
	}
	return nil
}

// act does what a binding says about a decision: the i-th of its policy.
func (v *verdict) act(r *request, m matched, i int, d decision) {
	if !d.denied {
		if d.failed {
			v.plugin.metrics.checked(m, d, actionAllow)
		}
		return
	}
	for _, action := range m.binding.actions {
		switch action {
		case admissionregistration.Deny:
			v.denied = append(v.denied, denial{d, m.definition, m.binding})
			v.plugin.metrics.checked(m, d, actionDeny)
		case admissionregistration.Audit:
			v.failures = append(v.failures, failure{
				Message: d.message, Policy: m.binding.policy, Binding: m.binding.name, ExpressionIndex: i,
				ValidationActions: m.binding.actions,
			})
			v.plugin.metrics.checked(m, d, actionAudit)
		case admissionregistration.Warn:
			warning.AddWarning(r.ctx, "",
				fmt.Sprintf("Validation failed for ValidatingAdmissionPolicy '%s' with binding '%s': %s",
					m.name, m.binding.name, d.message))
			v.plugin.metrics.checked(m, d, actionWarn)
		}
	}
}

// refuse returns the error of a denied request.
func (d denial) refuse(r *request) error {
	text := fmt.Sprintf("ValidatingAdmissionPolicy '%s' denied request: %s", d.policy.name, d.message)
	if d.binding != nil {
		text = fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s",
			d.policy.name, d.binding.name, d.message)
	}
	err := admission.NewForbidden(r, errors.New(text))
	status, is := errors.AsType[*apierrors.StatusError](err)
	if !is {
		return err // it always is
	}
	status.ErrStatus.Reason = d.reason
	if d.reason == "" {
		status.ErrStatus.Reason = metav1.StatusReasonInvalid
	}
	status.ErrStatus.Code = codeOf(status.ErrStatus.Reason)
	status.ErrStatus.Details.Causes = append(status.ErrStatus.Details.Causes, metav1.StatusCause{Message: text})
	return status
}

// codeOf returns the code of the reasons that a validation may have.
func codeOf(reason metav1.StatusReason) int32 {
	switch reason { //nolint:exhaustive // the others are 422, as upstream
	case metav1.StatusReasonForbidden:
		return http.StatusForbidden
	case metav1.StatusReasonUnauthorized:
		return http.StatusUnauthorized
	case metav1.StatusReasonRequestEntityTooLarge:
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusUnprocessableEntity
}

// note logs what could not be written into the audit log.
func (p *Plugin) note(ctx context.Context, key string, err error) {
	p.logger.LogAttrs(ctx, slog.LevelWarn, "an audit annotation was not set", slog.String("key", key), slog.Any("error", err))
}
