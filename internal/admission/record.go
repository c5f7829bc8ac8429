package admission

import (
	"context"

	upstream "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
)

// recorded asks a plugin in a form that upstream's decorator knows, which adds the annotations of
// the plugin to the audit event of the request.
type recorded struct {
	plugin Plugin
	redo   func() error
}

var (
	_ upstream.MutationInterface   = recorded{}
	_ upstream.ValidationInterface = recorded{}
)

func (r recorded) admit(ctx context.Context, a upstream.Attributes) error {
	if audit.AuditContextFrom(ctx) == nil {
		return r.Admit(ctx, a, nil) // nobody records
	}
	audited, is := upstream.WithAudit(r).(upstream.MutationInterface)
	if !is {
		return r.Admit(ctx, a, nil) // it always is
	}
	return audited.Admit(ctx, a, nil)
}

func (r recorded) validate(ctx context.Context, a upstream.Attributes) error {
	if audit.AuditContextFrom(ctx) == nil {
		return r.Validate(ctx, a, nil)
	}
	audited, is := upstream.WithAudit(r).(upstream.ValidationInterface)
	if !is {
		return r.Validate(ctx, a, nil) // it always is
	}
	return audited.Validate(ctx, a, nil)
}

// Handles implements upstream's interface: ReviewOf has asked.
func (recorded) Handles(upstream.Operation) bool { return true }

// Admit implements upstream.MutationInterface.
func (r recorded) Admit(ctx context.Context, a upstream.Attributes, _ upstream.ObjectInterfaces) error {
	return r.plugin.Admit(ctx, a, r.redo)
}

// Validate implements upstream.ValidationInterface.
func (r recorded) Validate(ctx context.Context, a upstream.Attributes, _ upstream.ObjectInterfaces) error {
	return r.plugin.Validate(ctx, a)
}
