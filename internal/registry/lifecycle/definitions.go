package lifecycle

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/custom"
	"github.com/gapless-io/gapless/internal/wire"
)

// Definitions are what writes of CustomResourceDefinitions do besides what all writes do: one
// is written at a time, and none hides a built-in resource. It is safe for concurrent use.
type Definitions struct {
	live *kinds.Live
	lock chan struct{} // holds one token: its sender writes a definition
}

// NewDefinitions returns the definitions of the catalog in force.
func NewDefinitions(live *kinds.Live) *Definitions {
	return &Definitions{live: live, lock: make(chan struct{}, 1)}
}

// Settle waits until no other definition is written, since the names that one may have depend on
// the others, and then fills in the status of u, a definition. The caller calls done when u is in
// force, or given up: others are written then. Errors: 400, and ctx's cause.
func (d *Definitions) Settle(ctx context.Context, u *unstructured.Unstructured) (done func(), err error) {
	select {
	case d.lock <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if err := d.Establish(u); err != nil {
		<-d.lock
		return nil, err
	}
	return func() { <-d.lock }, nil
}

// Check refuses a new definition that would hide a built-in resource.
func (d *Definitions) Check(u *unstructured.Unstructured) field.ErrorList {
	gr := kinds.DefinedBy(u.GetName())
	if builtin, found := d.live.Load().Storage(gr); found && !builtin.Custom {
		return field.ErrorList{field.Forbidden(field.NewPath("spec", "names", "plural"), "is a built-in resource of this group")}
	}
	return nil
}

// Establish fills in the status of a definition as the others are now. Errors: 400.
func (d *Definitions) Establish(u *unstructured.Unstructured) error {
	if err := custom.Establish(u, d.live.Load(), time.Now()); err != nil {
		return wire.BadRequest("%v", err)
	}
	return nil
}
