package registry

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/internal/schema/custom"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/kube"
)

// cleanup is the finalizer that keeps a definition until its objects are deleted
// (apiextensions v1 CustomResourceCleanupFinalizer).
const cleanup = "customresourcecleanup.apiextensions.k8s.io"

func definitionsGR() schema.GroupResource {
	return schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
}

func isDefinition(r *schema.Resource) bool { return r.GR() == definitionsGR() }

// defined returns the catalog with the resources of all stored definitions.
func defined(catalog *schema.Catalog, definitions *watchcache.Snapshot) (*schema.Catalog, error) {
	var all []*schema.Resource
	for o := range definitions.Scan("", watchcache.Selection{}) {
		gr := resourceOf(o.Key().Name)
		if r, found := catalog.Storage(gr); found && !r.Custom {
			continue
		}
		resources, err := custom.Resources(o.JSON())
		if err != nil {
			return nil, fmt.Errorf("definition %s at revision %d: %w", o.Key(), o.ResourceVersion(), err)
		}
		all = append(all, resources...)
	}
	return catalog.With(all...), nil
}

// orderDefinitions lets one definition be written at a time, since what names it
// may have depends on the others. The caller calls release when it is in force.
func (r *Registry) orderDefinitions(ctx context.Context, resource *schema.Resource) (release func(), err error) {
	if !isDefinition(resource) {
		return func() {}, nil
	}
	select {
	case r.definitions <- struct{}{}:
		return func() { <-r.definitions }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// holdDefinition adds the finalizer, which upstream leaves to a controller.
func holdDefinition(u *unstructured.Unstructured) {
	if finalizers := u.GetFinalizers(); !slices.Contains(finalizers, cleanup) {
		u.SetFinalizers(append(finalizers, cleanup))
	}
}

// checkDefinition refuses what would hide a built-in resource.
func (r *Registry) checkDefinition(u *unstructured.Unstructured) field.ErrorList {
	gr := resourceOf(u.GetName())
	if builtin, found := r.live.Load().Storage(gr); found && !builtin.Custom {
		return field.ErrorList{field.Forbidden(field.NewPath("spec", "names", "plural"), "is a built-in resource of this group")}
	}
	return nil
}

// establish fills in the status of a definition.
func (r *Registry) establish(u *unstructured.Unstructured) error {
	if err := custom.Establish(u, r.live.Load(), time.Now()); err != nil {
		return kube.BadRequest("%v", err)
	}
	return nil
}

// admitDefined refuses to create an object whose definition is being deleted, or
// has been.
func (r *Registry) admitDefined(ctx context.Context, resource *schema.Resource) error {
	definitions := (*r.kinds.Load())[definitionsGR().String()]
	if !resource.Custom || definitions == nil {
		return nil
	}
	definition, err := r.find(ctx, definitions, kube.Key{Name: resource.GR().String()})
	switch {
	case err != nil:
		return err
	case definition == nil:
		return kube.NotFound(resource.GR(), "")
	case definition.Deleting():
		e := kube.MethodNotAllowed(resource.GR(), "create")
		// apiextensions customresource_handler.go.
		e.Status.Message = "create not allowed while custom resource definition is terminating"
		return e
	}
	return nil
}
