package registry

import (
	"context"
	"fmt"

	upstream "k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission"
	"github.com/gapless-io/gapless/internal/admission/match"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry/caches"
	"github.com/gapless-io/gapless/internal/wire"
)

// decided are admission plugins that refuse what they cannot decide, because a webhook configuration or a
// policy that they follow cannot be read, and no earlier state of it is known.
type decided struct {
	admission.Plugin

	caches *caches.Set
	by     []string // the resources whose objects say which writes are refused, as caches.Set.Named knows them
}

// decidedBy returns plugins that refuse what they cannot decide. Followers are what they follow.
func decidedBy(plugins admission.Plugin, set *caches.Set, followers map[kinds.GroupResource][]Follower) decided {
	d := decided{Plugin: plugins, caches: set}
	for gr := range followers {
		if gr.Group == admissionGroup {
			d.by = append(d.by, gr.String())
		}
	}
	return d
}

// admissionGroup has the objects that say which writes are refused.
const admissionGroup = "admissionregistration.k8s.io"

// Handles implements admission.Plugin.
func (d decided) Handles(r *kinds.Resource, subresource string, op upstream.Operation) bool {
	return d.Plugin.Handles(r, subresource, op) || d.check(r.GR()) != nil
}

// Waits implements admission.Plugin.
func (d decided) Waits(r *kinds.Resource, subresource string, op upstream.Operation) bool {
	return d.Plugin.Waits(r, subresource, op)
}

// Admit implements admission.Plugin.
func (d decided) Admit(ctx context.Context, a upstream.Attributes, redo func() error) error {
	if err := d.check(a.GetResource().GroupResource()); err != nil {
		return err
	}
	return d.Plugin.Admit(ctx, a, redo)
}

// Validate implements admission.Plugin.
func (d decided) Validate(ctx context.Context, a upstream.Attributes) error {
	if err := d.check(a.GetResource().GroupResource()); err != nil {
		return err
	}
	return d.Plugin.Validate(ctx, a)
}

// check returns 500 that names what cannot be read; nil if everything that decides about a resource is known, or
// no webhook is asked about it: then what is wrong can be mended.
func (d decided) check(about kinds.GroupResource) error {
	if match.ExemptFromWebhooks(about) {
		return nil
	}
	for _, resource := range d.by { // it is asked at each write
		cached := d.caches.Named(resource)
		if cached == nil {
			continue
		}
		for _, o := range cached.Unreadable() {
			if !o.Known {
				return wire.Internal(fmt.Errorf("it is not known whether this write is allowed: %w", o.Why))
			}
		}
	}
	return nil
}
