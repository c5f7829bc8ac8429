package registry

import (
	"bytes"
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"

	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/kube"
)

// Create makes a new object of a JSON body. It answers after the object is
// durable and visible. Errors: 400, 403 in a terminating namespace, 404 without
// the namespace, 409, 413, 422 (server.md 5).
func (r *Registry) Create(ctx context.Context, t schema.Target, body []byte, o metav1.CreateOptions) (kube.Written, error) {
	if err := invalidOptions("CreateOptions", metavalidation.ValidateCreateOptions(&o)); err != nil {
		return kube.Written{}, err
	}
	w, err := r.newSubject(t, o.DryRun)
	if err != nil {
		return kube.Written{}, err
	}
	u, warnings, err := t.Resource.Type.Decode(body, validation(o.FieldValidation))
	if err != nil {
		return kube.Written{}, err
	}
	object, err := r.create(ctx, w, u)
	if err != nil {
		return kube.Written{}, err
	}
	return kube.Written{Object: object.WithAPIVersion(t.Resource.APIVersion()), Created: true, Warnings: warnings}, nil
}

// nameAttempts is how often a name is generated before giving up (apiserver
// registry.maxNameGenerationCreateAttempts).
const nameAttempts = 8

// create stores u, which it takes over, as a new object.
func (r *Registry) create(ctx context.Context, w subject, u *unstructured.Unstructured) (*kube.Object, error) {
	release, err := r.orderDefinitions(ctx, w.target.Resource)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := matchNamespace(w.target, u); err != nil {
		return nil, err
	}
	if rv, err := kube.ParseResourceVersion(u.GetResourceVersion()); err != nil || rv != 0 {
		return nil, kube.BadRequest("resourceVersion should not be set on objects to be created")
	}
	wipe(metadata(u))
	generated := u.GetName() == "" && u.GetGenerateName() != ""
	for attempt := 1; ; attempt++ {
		fresh := u
		if generated {
			fresh = u.DeepCopy()
			fresh.SetName(generateName(u.GetGenerateName()))
		}
		object, err := r.createNamed(ctx, w, fresh)
		if !generated || !isAlreadyExists(err) {
			return object, err
		}
		if attempt == nameAttempts {
			return nil, noUniqueName(w.target.Resource, fresh.GetName())
		}
	}
}

// createNamed stores a new object that has its name.
func (r *Registry) createNamed(ctx context.Context, w subject, u *unstructured.Unstructured) (*kube.Object, error) {
	resource := w.target.Resource
	w.target.Name = u.GetName()
	leave := r.creations.enter()
	defer leave()
	if err := r.admit(ctx, w.target); err != nil {
		return nil, err
	}
	if err := r.complete(resource, u); err != nil {
		return nil, err
	}
	value, err := encodeStored(resource, u)
	if err != nil {
		return nil, err
	}
	key := keyOf(w.target)
	if w.dryRun {
		existing, err := r.find(ctx, w.kind, key)
		switch {
		case err != nil:
			return nil, err
		case existing != nil:
			return nil, alreadyExists(resource, existing)
		}
		return w.kind.unstored(key, value)
	}
	done, err := r.store.Commit(ctx, store.Txn{Key: w.kind.key(key), Value: value})
	leave()
	if conflict, is := errors.AsType[*store.ConflictError](err); is {
		return nil, r.existing(w, conflict)
	}
	if err != nil {
		return nil, storeError(err)
	}
	if err := r.published(ctx, kube.ResourceVersion(done.Revision)); err != nil {
		return nil, err
	}
	return w.kind.written(key, value, done.Revision)
}

// complete fills in a new object and checks it: what upstream's BeforeCreate and
// strategies do.
func (r *Registry) complete(resource *schema.Resource, u *unstructured.Unstructured) error {
	born(resource, metadata(u))
	dropStatus := resource.HasStatus && !resource.StatusOnCreate
	if dropStatus && !resource.Custom {
		// The defaults of a built-in kind are what its strategy begins a status with.
		delete(u.Object, "status")
	}
	resource.Type.Default(u)
	if dropStatus && resource.Custom {
		delete(u.Object, "status")
	}
	if isDefinition(resource) {
		holdDefinition(u)
	}
	errs := append(checkMetadata(resource, u), resource.Type.Validate(u, nil)...)
	if isDefinition(resource) {
		errs = append(errs, r.checkDefinition(u)...)
	}
	if err := invalid(resource, u.GetName(), errs); err != nil {
		return err
	}
	if isDefinition(resource) {
		return r.establish(u)
	}
	return nil
}

// unstored returns what a dry run would have created: it has no resourceVersion.
func (k *kind) unstored(key kube.Key, value []byte) (*kube.Object, error) {
	o, err := kube.ParseObject(bytes.Clone(value), *k.fields.Load())
	if err != nil {
		return nil, kube.Internal(err)
	}
	if o.Key() != key {
		return nil, kube.BadRequest("the object %q is not the one of the request, %q", o.Key(), key)
	}
	return o, nil
}

// existing is the error of a creation that met an object.
func (r *Registry) existing(w subject, c *store.ConflictError) error {
	if c.Current == nil {
		return kube.AlreadyExists(w.target.Resource.GR(), w.target.Name)
	}
	o, err := w.kind.object(c.Key, c.Current.Value, c.Current.ModRevision)
	if err != nil {
		return kube.Internal(err)
	}
	return alreadyExists(w.target.Resource, o)
}

// alreadyExists is 409 AlreadyExists; it says when the object is on its way out.
func alreadyExists(resource *schema.Resource, existing *kube.Object) error {
	e := kube.AlreadyExists(resource.GR(), existing.Key().Name)
	if existing.Deleting() {
		e.Status.Message = "object is being deleted: " + e.Status.Message
	}
	return e
}

func isAlreadyExists(err error) bool {
	e, is := errors.AsType[*kube.StatusError](err)
	return is && e.Status.Reason == metav1.StatusReasonAlreadyExists
}

// noUniqueName is upstream's NewGenerateNameConflict.
func noUniqueName(resource *schema.Resource, name string) error {
	e := kube.AlreadyExists(resource.GR(), name)
	e.Status.Message += ", the server was not able to generate a unique name for the object"
	e.Status.Details.RetryAfterSeconds = 1
	return e
}
