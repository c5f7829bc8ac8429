package registry

import (
	"bytes"
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/uuid"
	upstream "k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry/caches"
	"github.com/gapless-io/gapless/internal/registry/metadata"
	"github.com/gapless-io/gapless/internal/registry/stored"
	"github.com/gapless-io/gapless/internal/registry/strategy"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/tracing"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// Create makes a new object from a JSON body, or does a POST to a subresource, which is
// answered by a Status. It returns when the object is durable and visible. Errors: 400,
// 403 in a terminating namespace, 404 without the namespace, 409, 413, 422.
func (r *Registry) Create(
	ctx context.Context, t kinds.Target, body []byte, o metav1.CreateOptions,
) (out wire.Written, err error) {
	ctx, span := tracing.Start(ctx, "Create")
	defer func() { span.End(err) }()
	ctx, said := hear(ctx)
	defer func() { out.Warnings = said.all() }()
	if err := invalidOptions("CreateOptions", metavalidation.ValidateCreateOptions(&o)); err != nil {
		return wire.Written{}, err
	}
	if t.Subresource != "" || t.Resource.Through != nil {
		return r.createSubresource(ctx, t, body, o)
	}
	w, err := r.newWrite(t, o.DryRun)
	if err != nil {
		return wire.Written{}, err
	}
	w = r.asked(w, upstream.Create, &o).managedBy(o.FieldManager)
	u, warnings, err := t.Resource.Type.Decode(body, validation(o.FieldValidation))
	if err != nil {
		return wire.Written{}, err
	}
	warn(ctx, warnings)
	warn(ctx, strategy.UniqueOwners(u, strategy.Sent))
	object, err := r.create(ctx, w, u)
	if err != nil {
		return wire.Written{}, err
	}
	return r.writtenAs(ctx, t, wire.Written{Object: object, Created: true})
}

// Check returns what would be refused in a configuration that is applied and creates an
// object with a name, whatever is stored: unknown fields too (fieldValidation=Strict), but
// not a missing namespace, nor too many fields. It works for a resource that is not served
// yet. Errors: 400, 413, 422.
func (r *Registry) Check(t kinds.Target, body []byte) error {
	u, _, err := t.Resource.Type.Decode(body, kinds.FieldsStrict)
	if err != nil {
		return err
	}
	if err := metadata.MatchNamespace(t, u); err != nil {
		return err
	}
	if err := r.fields.Check(t, body); err != nil {
		return err
	}
	if err := strategy.BeginCreate(t.Resource, u); err != nil {
		return err
	}
	if err := strategy.FinishCreate(t.Resource, u); err != nil {
		return err
	}
	if _, err := r.checkCreate(t.Resource, u); err != nil || !t.Resource.IsDefinition() {
		return err
	}
	return r.definitions.Establish(u)
}

// nameAttempts is how often a name is generated before giving up (apiserver
// registry.maxNameGenerationCreateAttempts).
const nameAttempts = 8

// create stores u as a new object. It may change u.
func (r *Registry) create(ctx context.Context, w write, u *unstructured.Unstructured) (*wire.Object, error) {
	if err := metadata.MatchNamespace(w.target, u); err != nil {
		return nil, err
	}
	if w.target.Resource.NameByUID && u.GetName() == "" && u.GetGenerateName() == "" {
		u.SetName(string(uuid.NewUUID()))
	}
	generated := u.GetName() == "" && u.GetGenerateName() != ""
	for attempt := 1; ; attempt++ {
		fresh := u
		if generated {
			fresh = u.DeepCopy() // defaults write the name and uid into a job
			fresh.SetName(generatedName(u.GetGenerateName()))
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

// createNamed stores what prepareCreate makes of a new object that has its name.
func (r *Registry) createNamed(ctx context.Context, w write, u *unstructured.Unstructured) (*wire.Object, error) {
	w.target.Name = u.GetName()
	leave, err := r.enter(ctx, w)
	if err != nil {
		return nil, err
	}
	defer func() { leave() }()
	if w.mayWait() {
		leave() // namespaces and definitions under deletion do not wait for a webhook
	}
	decided, err := r.prepareCreate(ctx, w, u)
	if err != nil {
		return nil, err
	}
	became := admission.Refused
	defer func() { decided.release(became) }()
	w.target.Name = u.GetName() // a plugin may have given it one
	if w.mayWait() {
		again, err := r.gate.Enter(ctx, w.target)
		if err != nil {
			return nil, err
		}
		leave = again
	}
	key := w.target.Key()
	if w.dryRun {
		existing, err := w.cached.Find(ctx, key)
		switch {
		case err != nil:
			return nil, err
		case existing != nil:
			return nil, alreadyExists(w.target.Resource, existing)
		}
		return unstored(w.cached, key, decided.value)
	}
	done, err := w.send(ctx, store.Txn{Key: w.cached.Key(key), Value: decided.value}, &became)
	leave()
	if conflict, is := errors.AsType[*store.ConflictError](err); is {
		return nil, existing(w, conflict)
	}
	if _, is := errors.AsType[*store.UnreadableError](err); is { // that which is there
		return nil, wire.AlreadyExists(w.target.Resource.GR(), w.target.Name)
	}
	if err != nil {
		return nil, stored.Failure(err)
	}
	if err := w.published(ctx, done); err != nil {
		return nil, err
	}
	became = admission.Stored
	return written(w.cached, key, decided.value, done.Revision)
}

// prepareCreate makes of u, which it changes, the new object to store: the steps of a creation, as
// upstream's createHandler, BeforeCreate, and the strategies of its kinds do them.
func (r *Registry) prepareCreate(ctx context.Context, w write, u *unstructured.Unstructured) (decision, error) {
	resource := w.target.Resource
	if resource.Signed != nil {
		resource.Signed(u, w.target.Caller)
	}
	versioned := hasVersion(u)

	// Begin.
	if err := strategy.BeginCreate(resource, u); err != nil {
		return decision{}, err
	}

	// Manage fields.
	managed, err := r.manageFields(w, u, nil)
	if err != nil {
		return decision{}, err
	}

	// Mutate: as upstream, plugins are asked before the server has given u a UID and a name.
	given := w.hide(u)
	if _, err := w.review.Admit(ctx, u, nil); err != nil {
		return decision{}, err
	}

	// Restrict.
	given.Restore(u)
	if err := mutated(ctx, u); err != nil {
		return decision{}, err
	}

	// Finish.
	if err := strategy.FinishCreate(resource, u); err != nil {
		return decision{}, err
	}

	// Allocate: as upstream's BeginCreate of a registry store, before the rules are checked.
	end, err := r.allocate(ctx, w, u, nil)
	if err != nil {
		return decision{}, err
	}
	return allocated(end, func() (decision, error) {
		return r.finishCreate(ctx, w, u, creation{managed: managed, versioned: versioned})
	})
}

// creation is what the first steps of a creation leave to the last ones: the managed fields, as encode takes them, and
// whether the client gave the object a resourceVersion.
type creation struct {
	managed   []byte
	versioned bool
}

// finishCreate does the steps after all has been filled in.
func (r *Registry) finishCreate(ctx context.Context, w write, u *unstructured.Unstructured, c creation) (decision, error) {
	// Check.
	warnings, err := r.checkCreate(w.target.Resource, u)
	warn(ctx, warnings)
	if err != nil {
		return decision{}, err
	}
	if err := metadata.MatchNamespace(w.target, u); err != nil { // a plugin may have changed it
		return decision{}, err
	}

	// Validate.
	if err := w.review.Validate(ctx, u, nil); err != nil {
		return decision{}, err
	}
	// Upstream checks the version where it writes to etcd: not in a dry run, and not one
	// that is no number. It answers 500, which clients retry.
	if (c.versioned || hasVersion(u)) && !w.dryRun {
		return decision{}, wire.BadRequest("resourceVersion should not be set on objects to be created")
	}

	// Encode.
	decided, err := r.encodeSettled(ctx, w.target.Resource, u, c.managed)
	if err != nil {
		return decision{}, err
	}

	// Charge.
	return r.charged(ctx, w, decided, u, nil)
}

// checkCreate applies the rules of the kind to a new object. It returns the warnings about it, also
// beside an error.
func (r *Registry) checkCreate(resource *kinds.Resource, u *unstructured.Unstructured) (warnings []string, err error) {
	errs := metadata.Check(resource, u, nil)
	wrong, warnings := resource.Type.Validate(u, nil)
	errs = append(errs, wrong...)
	if h := r.hooks[resource.GR()]; h != nil {
		errs = append(errs, h.Check(u)...)
	}
	if len(errs) == 0 {
		warnings = append(warnings, strategy.Warnings(resource, u, nil)...)
	} else if !resource.WarnsOfInvalid {
		warnings = nil
	}
	return warnings, metadata.Invalid(resource, u.GetName(), errs)
}

// hasVersion reports whether a client, or a plugin after it, gave a new object a resourceVersion.
func hasVersion(u *unstructured.Unstructured) bool {
	rv, err := kube.ParseResourceVersion(u.GetResourceVersion())
	return err == nil && rv != 0
}

// unstored returns what a dry run would have created: it has no resourceVersion.
func unstored(cached *caches.Resource, key wire.Key, value []byte) (*wire.Object, error) {
	o, err := wire.ParseObject(bytes.Clone(value), cached.Fields())
	if err != nil {
		return nil, wire.Internal(err)
	}
	if o.Key() != key {
		return nil, wire.BadRequest("the object %q is not the one of the request, %q", o.Key(), key)
	}
	return o, nil
}

// existing is the error of a creation when an object is there, which may be one that cannot be read.
func existing(w write, c *store.ConflictError) error {
	if c.Current != nil {
		if o, err := w.cached.Object(c.Key, c.Current.Value, c.Current.ModRevision); err == nil {
			return alreadyExists(w.target.Resource, o)
		}
	}
	return wire.AlreadyExists(w.target.Resource.GR(), w.target.Name)
}

// alreadyExists is 409 AlreadyExists; it says when the object is being deleted.
func alreadyExists(resource *kinds.Resource, existing *wire.Object) error {
	e := wire.AlreadyExists(resource.GR(), existing.Key().Name)
	if existing.Deleting() {
		e.ErrStatus.Message = "object is being deleted: " + e.ErrStatus.Message
	}
	return e
}

func isAlreadyExists(err error) bool {
	e, is := errors.AsType[*wire.StatusError](err)
	return is && e.ErrStatus.Reason == metav1.StatusReasonAlreadyExists
}

// noUniqueName is upstream's NewGenerateNameConflict.
func noUniqueName(resource *kinds.Resource, name string) error {
	e := wire.AlreadyExists(resource.GR(), name)
	e.ErrStatus.Message += ", the server was not able to generate a unique name for the object"
	e.ErrStatus.Details.RetryAfterSeconds = 1
	return e
}
