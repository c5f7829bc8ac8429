package lifecycle

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/internal/schema/custom"
	"github.com/gapless-io/gapless/kube"
)

// Definitions orders and checks writes of CustomResourceDefinitions. It is safe for
// concurrent use.
type Definitions struct {
	live *schema.Live
	lock chan struct{} // holds one token: its sender writes a definition
}

// NewDefinitions returns the definitions of the catalog in force.
func NewDefinitions(live *schema.Live) *Definitions {
	return &Definitions{live: live, lock: make(chan struct{}, 1)}
}

// Lock lets one definition be written at a time, since the names that it may have
// depend on the others. The caller calls unlock when the definition is in force. For
// another resource Lock does nothing. It returns ctx's cause when ctx ends first.
func (d *Definitions) Lock(ctx context.Context, resource *schema.Resource) (unlock func(), err error) {
	if !resource.IsDefinition() {
		return func() {}, nil
	}
	select {
	case d.lock <- struct{}{}:
		return func() { <-d.lock }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Check refuses a new definition that would hide a built-in resource.
func (d *Definitions) Check(u *unstructured.Unstructured) field.ErrorList {
	gr := schema.DefinedBy(u.GetName())
	if builtin, found := d.live.Load().Storage(gr); found && !builtin.Custom {
		return field.ErrorList{field.Forbidden(field.NewPath("spec", "names", "plural"), "is a built-in resource of this group")}
	}
	return nil
}

// Establish fills in the status of a definition that is written. Errors: 400.
func (d *Definitions) Establish(u *unstructured.Unstructured) error {
	if err := custom.Establish(u, d.live.Load(), time.Now()); err != nil {
		return kube.BadRequest("%v", err)
	}
	return nil
}
