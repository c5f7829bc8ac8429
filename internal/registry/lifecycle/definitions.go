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

// Definitions orders and checks writes of CustomResourceDefinitions. It is safe for
// concurrent use.
type Definitions struct {
	live *kinds.Live
	lock chan struct{} // holds one token: its sender writes a definition
}

// NewDefinitions returns the definitions of the catalog in force.
func NewDefinitions(live *kinds.Live) *Definitions {
	return &Definitions{live: live, lock: make(chan struct{}, 1)}
}

// Order lets one definition be written at a time, since the names that it may have depend on
// the others. Its methods do nothing where it is nil.
type Order struct {
	definitions *Definitions
	held        bool
}

// Order returns the order of a write; nil for a resource other than definitions. The caller
// calls Leave when the definition is in force, or given up.
func (d *Definitions) Order(resource *kinds.Resource) *Order {
	if !resource.IsDefinition() {
		return nil
	}
	return &Order{definitions: d}
}

// Leave lets others write.
func (o *Order) Leave() {
	if o != nil && o.held {
		o.held = false
		<-o.definitions.lock
	}
}

// Establish waits until no other definition is written, and then fills in the status of u, if
// that is a definition. Errors: 400, and ctx's cause.
func (o *Order) Establish(ctx context.Context, u *unstructured.Unstructured) error {
	if o == nil {
		return nil
	}
	select {
	case o.definitions.lock <- struct{}{}:
		o.held = true
		return o.definitions.Establish(u)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Check refuses a new definition that would hide a built-in resource.
func (d *Definitions) Check(u *unstructured.Unstructured) field.ErrorList {
	gr := kinds.DefinedBy(u.GetName())
	if builtin, found := d.live.Load().Storage(gr); found && !builtin.Custom {
		return field.ErrorList{field.Forbidden(field.NewPath("spec", "names", "plural"), "is a built-in resource of this group")}
	}
	return nil
}

// Establish fills in the status of a definition that is written. Errors: 400.
func (d *Definitions) Establish(u *unstructured.Unstructured) error {
	if err := custom.Establish(u, d.live.Load(), time.Now()); err != nil {
		return wire.BadRequest("%v", err)
	}
	return nil
}
