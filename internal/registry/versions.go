package registry

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/kube"
)

// Show returns a stored object, which Find has found, in the version of a resource. Errors:
// those of a conversion webhook.
func (r *Registry) Show(ctx context.Context, to *schema.Resource, o *kube.Object) (*kube.Object, error) {
	return r.show(ctx, to, o)
}

// Convert returns an object of a served version in another one, which may be u itself. Errors:
// those of a conversion webhook, 500 for a version that is not served.
func (r *Registry) Convert(ctx context.Context, to *schema.Resource, u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return r.fields.Convert(ctx, to, u)
}

// Types returns how the fields of a resource's objects merge.
func (r *Registry) Types(resource *schema.Resource) (managedfields.TypeConverter, error) {
	return r.fields.Types(resource)
}
