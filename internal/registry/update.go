package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/kube"
)

// modified is upstream's text of a conflict (apiserver registry
// OptimisticLockErrorMsg).
const modified = "the object has been modified; please apply your changes to the latest version and try again"

// errMissing says within an update that there is no object.
var errMissing = errors.New("there is no such object")

// Update replaces an object, its status or its scale by a JSON body. An update
// that changes nothing writes nothing. The update that removes the last finalizer
// of an object under deletion removes the object, and answers with it as it was
// under its old resourceVersion. Errors: 400, 404, 409, 413, 422 (server.md 5).
func (r *Registry) Update(ctx context.Context, t schema.Target, body []byte, o metav1.UpdateOptions) (kube.Written, error) {
	if err := invalidOptions("UpdateOptions", metavalidation.ValidateUpdateOptions(&o)); err != nil {
		return kube.Written{}, err
	}
	w, err := r.newSubject(t, o.DryRun)
	if err != nil {
		return kube.Written{}, err
	}
	if t.Subresource == "scale" {
		return r.updateScale(ctx, w, body, validation(o.FieldValidation))
	}
	if err := served(t); err != nil {
		return kube.Written{}, err
	}
	u, warnings, err := t.Resource.Type.Decode(body, validation(o.FieldValidation))
	if err != nil {
		return kube.Written{}, err
	}
	if err := matchName(t, u); err != nil {
		return kube.Written{}, err
	}
	mayCreate := t.Resource.CreateOnUpdate && t.Subresource == ""
	revise := func(current *kube.Object) (*unstructured.Unstructured, error) {
		if err := matchUID(w, u, current); err != nil {
			return nil, err
		}
		if current == nil && mayCreate {
			return nil, errMissing
		}
		return u.DeepCopy(), nil
	}
	for {
		out, err := r.update(ctx, w, revise)
		if !errors.Is(err, errMissing) {
			out.Warnings = warnings
			return out, err
		}
		fresh := u.DeepCopy()
		fresh.SetResourceVersion("")
		object, err := r.create(ctx, w, fresh)
		switch {
		case err == nil:
			return kube.Written{Object: object.WithAPIVersion(t.Resource.APIVersion()), Created: true, Warnings: warnings}, nil
		case !isAlreadyExists(err):
			return kube.Written{}, err
		}
		// Somebody else has created it meanwhile: it is an update.
	}
}

// served says with 404 that a resource does not have the target's subresource.
func served(t schema.Target) error {
	if t.Subresource == "" || t.Subresource == "status" && t.Resource.HasStatus {
		return nil
	}
	return kube.NotFound(t.Resource.GR(), t.Name)
}

// matchUID refuses an update that was made for another object of the same name.
func matchUID(w subject, u *unstructured.Unstructured, current *kube.Object) error {
	wanted := u.GetUID()
	if wanted == "" || current != nil && current.UID() == wanted {
		return nil
	}
	if current == nil && !w.target.Resource.CreateOnUpdate {
		return nil // 404 says it better
	}
	found := ""
	if current != nil {
		found = string(current.UID())
	}
	return kube.Conflict(w.target.Resource.GR(), w.target.Name, fmt.Sprintf(
		"StorageError: invalid object, Code: 4, Key: /%s, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: %s, UID in object meta: %s",
		w.kind.key(keyOf(w.target)), wanted, found))
}

// revise makes what the caller wants of what is there, nil if there is nothing.
type revise func(current *kube.Object) (*unstructured.Unstructured, error)

// update changes an object as often as it takes to find it unchanged meanwhile.
func (r *Registry) update(ctx context.Context, w subject, wanted revise) (kube.Written, error) {
	release, err := r.orderDefinitions(ctx, w.target.Resource)
	if err != nil {
		return kube.Written{}, err
	}
	defer release()
	out, err := r.mutate(ctx, w, func(current *kube.Object) (decision, error) {
		u, err := wanted(current)
		if err != nil {
			return decision{}, err
		}
		if current == nil {
			return decision{}, kube.NotFound(w.target.Resource.GR(), w.target.Name)
		}
		return r.settle(w, u, current)
	})
	if err != nil {
		return kube.Written{}, err
	}
	return kube.Written{Object: out.object.WithAPIVersion(w.target.Resource.APIVersion())}, nil
}

// settle completes and checks the new form of an object, and decides what to
// write: what upstream's Store.Update, BeforeUpdate and strategies do.
func (r *Registry) settle(w subject, u *unstructured.Unstructured, current *kube.Object) (decision, error) {
	resource := w.target.Resource
	if err := matchVersion(w.target, u, current); err != nil {
		return decision{}, err
	}
	old, err := treeOf(current.WithAPIVersion(resource.APIVersion()))
	if err != nil {
		return decision{}, err
	}
	if err := matchNamespace(w.target, u); err != nil {
		return decision{}, err
	}
	merge(w.target, u, old)
	if isDefinition(resource) && !current.Deleting() {
		holdDefinition(u)
	}
	if err := advance(resource, u, old); err != nil {
		return decision{}, err
	}
	if err := r.checkUpdate(resource, u, old); err != nil {
		return decision{}, err
	}
	value, err := encodeStored(resource, u)
	if err != nil {
		return decision{}, err
	}
	switch {
	case current.Deleting() && finished(resource, u):
		return decision{remove: true, after: value}, nil
	case bytes.Equal(value, current.Value()):
		return decision{}, nil
	}
	return decision{value: value}, nil
}

// merge gives u what an update through the target cannot change, and defaults.
func merge(t schema.Target, u, old *unstructured.Unstructured) {
	resource := t.Resource
	if t.Subresource == "status" {
		status, has := u.Object["status"]
		u.Object = old.DeepCopy().Object
		if delete(u.Object, "status"); has {
			u.Object["status"] = status
		}
	}
	keep(metadata(u), metadata(old))
	if isNamespace(resource) {
		keepPart(u, old, "spec") // its finalizers
	}
	if resource.Custom {
		resource.Type.Default(u)
	}
	if resource.HasStatus && t.Subresource == "" {
		keepPart(u, old, "status")
	}
	if !resource.Custom {
		resource.Type.Default(u)
	}
	u.SetResourceVersion(old.GetResourceVersion())
}

// keepPart sets a part of an object to what it was.
func keepPart(u, old *unstructured.Unstructured, part string) {
	delete(u.Object, part)
	if was, has := old.Object[part]; has {
		u.Object[part] = runtime.DeepCopyJSONValue(was)
	}
}

// matchVersion applies optimistic concurrency: the body's resourceVersion is the
// object's, or there is none and the kind allows that.
func matchVersion(t schema.Target, u *unstructured.Unstructured, current *kube.Object) error {
	rv, err := kube.ParseResourceVersion(u.GetResourceVersion())
	if err != nil {
		return kube.BadRequest("invalid resource version: %v", err)
	}
	gr := t.Resource.GR()
	switch {
	case rv == 0 && !t.Resource.UnconditionalUpdate:
		// The kind is the plural: so it is upstream.
		return kube.Invalid(schema.GroupVersionKind{Group: gr.Group, Kind: gr.Resource}.GroupKind(), t.Name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), uint64(0), "must be specified for an update"),
		})
	case rv != 0 && rv != current.ResourceVersion():
		return kube.Conflict(gr, t.Name, modified)
	}
	return nil
}

// checkUpdate validates u as the successor of old, and completes a definition.
func (r *Registry) checkUpdate(resource *schema.Resource, u, old *unstructured.Unstructured) error {
	errs := checkMetadata(resource, u)
	errs = append(errs, apivalidation.ValidateObjectMetaAccessorUpdate(u, old, field.NewPath("metadata"))...)
	errs = append(errs, resource.Type.Validate(u, old)...)
	if err := invalid(resource, u.GetName(), errs); err != nil {
		return err
	}
	if isDefinition(resource) {
		return r.establish(u)
	}
	return nil
}

// finished says that nothing holds an object under deletion any more.
func finished(resource *schema.Resource, u *unstructured.Unstructured) bool {
	grace := u.GetDeletionGracePeriodSeconds()
	return len(u.GetFinalizers()) == 0 && (grace == nil || *grace == 0) &&
		(!isNamespace(resource) || len(namespaceFinalizers(u)) == 0)
}
