package registry

import (
	"context"

	"k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/kube"
)

// Show returns a stored object, which Find has found, in the version of a resource. Errors:
// those of a conversion webhook.
func (r *Registry) Show(ctx context.Context, to *schema.Resource, o *kube.Object) (*kube.Object, error) {
	return r.show(ctx, to, o)
}

// Types returns how the fields of a resource's objects merge.
func (r *Registry) Types(resource *schema.Resource) (managedfields.TypeConverter, error) {
	return r.fields.Types(resource)
}
