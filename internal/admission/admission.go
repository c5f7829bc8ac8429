// Package admission asks plugins about a write before it is done: they may change it, or
// refuse it.
//
// A [Plugin] is one of those that are asked; upstream's k8s.io/apiserver/pkg/admission has the
// attributes that it gets. A [Chain] is several plugins, which are asked in order. A [Review]
// asks them about one write.
package admission

import (
	"context"
	"slices"

	"k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/kinds"
)

// Plugin changes writes, or refuses them. It is safe for concurrent use.
//
// The objects of the attributes are *unstructured.Unstructured, in the version of the request.
// An object under creation has no UID and no times yet when Admit is called. The objects of
// deletions are old ones. Errors are answered as they are; those without a status are 500.
// Warnings for the client go to k8s.io/apiserver/pkg/warning. Nothing may go on when a method has
// returned.
type Plugin interface {
	// Handles reports whether the plugin may have something to say about operations on a
	// resource. It is called for each write, and answers from memory.
	Handles(r *kinds.Resource, subresource string, op admission.Operation) bool
	// Waits reports whether the plugin, where it handles something, may wait for others, or looks at managedFields. Where
	// no plugin does, a write keeps its turn while they are asked, and they see no managedFields.
	Waits(r *kinds.Resource, subresource string, op admission.Operation) bool
	// Admit may change the object, in place. It is called before validation, and again when
	// the write begins again after a conflict. After each change it calls redo, which brings
	// the object into the form that its kind has: known fields and defaults. It need not for what is in that form
	// and what a client could change at this endpoint too.
	Admit(ctx context.Context, a admission.Attributes, redo func() error) error
	// Validate looks at the object as it will be stored, and does not change it.
	Validate(ctx context.Context, a admission.Attributes) error
}

// Chain is plugins in the order in which they are asked. All of them change the object before
// the first one validates it.
type Chain []Plugin

var _ Plugin = Chain(nil)

// Handles implements Plugin.
func (c Chain) Handles(r *kinds.Resource, subresource string, op admission.Operation) bool {
	return slices.ContainsFunc(c, func(p Plugin) bool { return p.Handles(r, subresource, op) })
}

// Waits implements Plugin.
func (c Chain) Waits(r *kinds.Resource, subresource string, op admission.Operation) bool {
	return slices.ContainsFunc(c, func(p Plugin) bool {
		return p.Handles(r, subresource, op) && p.Waits(r, subresource, op)
	})
}

// Admit implements Plugin. It asks each plugin, also those that do not handle the operation:
// they say nothing. When one of them wants it, because it has changed the object, all are asked
// again, as upstream does (pkg/kubeapiserver/admission, reinvocationHandler); what a plugin
// repeats is up to its configuration.
func (c Chain) Admit(ctx context.Context, a admission.Attributes, redo func() error) error {
	if err := c.admit(ctx, a, redo); err != nil {
		return err
	}
	pass := a.GetReinvocationContext()
	if !pass.ShouldReinvoke() {
		return nil
	}
	pass.SetIsReinvoke()
	return c.admit(ctx, a, redo)
}

func (c Chain) admit(ctx context.Context, a admission.Attributes, redo func() error) error {
	for _, p := range c {
		if err := p.Admit(ctx, a, redo); err != nil {
			return err
		}
	}
	return nil
}

// Validate implements Plugin; see Admit.
func (c Chain) Validate(ctx context.Context, a admission.Attributes) error {
	for _, p := range c {
		if err := p.Validate(ctx, a); err != nil {
			return err
		}
	}
	return nil
}
