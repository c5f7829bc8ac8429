package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/jsontree"
	"github.com/gapless-io/gapless/internal/registry/lifecycle"
	"github.com/gapless-io/gapless/internal/registry/metadata"
	"github.com/gapless-io/gapless/internal/registry/strategy"
	"github.com/gapless-io/gapless/internal/tracing"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// modified is upstream's text of a conflict (apiserver registry
// OptimisticLockErrorMsg).
const modified = "the object has been modified; please apply your changes to the latest version and try again"

// errMissing ends an update that finds no object, so that the object is created.
var errMissing = errors.New("there is no such object")

// Update replaces an object, its status or its scale by a JSON body. An update
// that changes nothing writes nothing. The update that removes the last finalizer
// of an object under deletion removes the object, and answers with it as it was
// under its old resourceVersion. Errors: 400, 404, 409, 413, 422.
func (r *Registry) Update(
	ctx context.Context, t kinds.Target, body []byte, o metav1.UpdateOptions,
) (out wire.Written, err error) {
	ctx, span := tracing.Start(ctx, "Update")
	defer func() { span.End(err) }()
	ctx, said := hear(ctx)
	defer func() { out.Warnings = said.all() }()
	if err := invalidOptions("UpdateOptions", metavalidation.ValidateUpdateOptions(&o)); err != nil {
		return wire.Written{}, err
	}
	w, err := r.newWrite(t, o.DryRun)
	if err != nil {
		return wire.Written{}, err
	}
	w = r.asked(w, admission.Update, &o)
	if t.Subresource == "scale" {
		return r.updateScale(ctx, w, body, validation(o.FieldValidation), o.FieldManager)
	}
	if err := served(t); err != nil {
		return wire.Written{}, err
	}
	u, warnings, err := t.Resource.Type.Decode(body, validation(o.FieldValidation))
	if err != nil {
		return wire.Written{}, err
	}
	warn(ctx, warnings)
	if err := metadata.MatchPath(t, u); err != nil {
		return wire.Written{}, err
	}
	warn(ctx, strategy.UniqueOwners(u, strategy.Sent))
	w = w.managedBy(o.FieldManager)
	w.uid, w.creates = u.GetUID(), t.Resource.CreateOnUpdate && t.Subresource == ""
	return r.update(ctx, w, func(*wire.Object) (*unstructured.Unstructured, error) {
		return u.DeepCopy(), nil // the steps change it, and are taken again after a conflict
	})
}

// edit returns what a client makes of the current object: its new form or, where there is none and
// the write creates it, the new object. It is called again after a conflict.
type edit func(current *wire.Object) (*unstructured.Unstructured, error)

// update changes an object by e, or creates it if the write does so: what Update, Patch, and the
// writes of subresources have in common.
func (r *Registry) update(ctx context.Context, w write, e edit) (wire.Written, error) {
	for {
		out, err := r.retry(ctx, w, func(current *wire.Object) (decision, error) {
			return r.prepareUpdate(ctx, w, e, current)
		})
		if err == nil {
			return r.writtenAs(ctx, w.target, wire.Written{Object: out.object})
		}
		if !errors.Is(err, errMissing) {
			return wire.Written{}, err
		}
		object, err := r.createMissing(ctx, w, e)
		if err == nil {
			return r.writtenAs(ctx, w.target, wire.Written{Object: object, Created: true})
		}
		if !isAlreadyExists(err) {
			return wire.Written{}, lifecycle.ByUpdate(w.target, err)
		}
		// Another client has created it meanwhile: it is an update.
	}
}

// prepareUpdate makes of what e says the new form of the current object, and decides what to write:
// the steps of an update, as upstream's Store.Update, BeforeUpdate, and the strategies of its kinds
// do them.
func (r *Registry) prepareUpdate(ctx context.Context, w write, e edit, current *wire.Object) (decision, error) {
	u, old, err := r.edited(ctx, w, e, current)
	if err != nil {
		return decision{}, err
	}

	// Begin.
	if err := strategy.Restrict(w.target, u, old); err != nil {
		return decision{}, err
	}

	// Manage fields.
	if _, err := r.manageFields(w, u, old); err != nil {
		return decision{}, err
	}

	// Mutate.
	changed, err := w.review.Admit(ctx, u, old)
	if err != nil {
		return decision{}, err
	}

	// Restrict.
	if changed {
		if err := strategy.Restrict(w.target, u, old); err != nil {
			return decision{}, err
		}
	}
	if err := mutated(ctx, u); err != nil {
		return decision{}, err
	}

	// Finish.
	if err := strategy.FinishUpdate(w.target, u, old); err != nil {
		return decision{}, err
	}

	// Allocate: as upstream's BeginUpdate of a registry store, before the rules are checked.
	taking := w
	taking.dryRun = w.dryRun || removes(w, u, current) // nothing is taken for what is removed
	end, err := r.allocate(ctx, taking, u, old)
	if err != nil {
		return decision{}, err
	}
	return allocated(end, func() (decision, error) { return r.finishUpdate(ctx, w, u, old, current) })
}

// removes reports whether an update removes the object: nothing holds it any more.
func removes(w write, u *unstructured.Unstructured, current *wire.Object) bool {
	return current.Deleting() && strategy.Finished(w.target.Resource, u)
}

// finishUpdate does the steps after all has been filled in.
func (r *Registry) finishUpdate(
	ctx context.Context, w write, u, old *unstructured.Unstructured, current *wire.Object,
) (decision, error) {
	// Check.
	if err := checkUpdate(ctx, w.target, u, old); err != nil {
		return decision{}, err
	}
	keepTimes(u, old)

	// Validate.
	if err := w.review.Validate(ctx, u, old); err != nil {
		return decision{}, err
	}

	// Encode.
	resource, err := storedAs(w.target, u, current)
	if err != nil {
		return decision{}, err
	}
	decided, err := r.encodeSettled(ctx, resource, u, nil)
	switch {
	case err != nil:
	case removes(w, u, current):
		decided.remove, decided.after, decided.value = true, decided.value, nil
	case bytes.Equal(decided.value, current.Value()):
		decided.value = nil
	}
	if err != nil || decided.value == nil {
		return decided, err
	}

	// Charge.
	return r.charged(ctx, w, decided, u, old)
}

// storedAs makes of u, in the version of a view, the object as it is stored, and returns the resource of which it is one
// then. There and back again, the conversion may put the spec in another order: a write of the status keeps the one that
// is stored, and for another write, which keeps the status, that is a change that its generation counts, as upstream.
func storedAs(t kinds.Target, u *unstructured.Unstructured, current *wire.Object) (*kinds.Resource, error) {
	if t.Resource.Conversion == nil {
		return t.Resource, nil
	}
	stored, err := treeOf(current)
	if err != nil {
		return nil, err
	}
	u.Object = t.Resource.Conversion.Store(u.Object)
	was := stored.Object["spec"]
	if status, has := stored.Object["status"]; has && t.Subresource != "status" {
		u.Object["status"] = status
	}
	switch {
	case t.Subresource == "status":
		u.Object["spec"] = was
	case t.Resource.Generation != kinds.GenerationOfSpec, u.GetGeneration() != stored.GetGeneration():
	case !jsontree.Equal(u.Object["spec"], was):
		u.SetGeneration(stored.GetGeneration() + 1)
	}
	return t.Resource.Conversion.Of, nil
}

// edited returns what e makes of the current object, and the object itself, both in the version of
// the request, after the conditions of the request: the object, in the namespace, of the uid and in
// the resourceVersion that the client means. Errors: errMissing, 400, 404, 409, 422, those of e.
func (r *Registry) edited(
	ctx context.Context, w write, e edit, current *wire.Object,
) (u, old *unstructured.Unstructured, err error) {
	if err := matchUID(w, current); err != nil {
		return nil, nil, err
	}
	switch {
	case current != nil:
	case w.creates:
		return nil, nil, errMissing
	default:
		return nil, nil, wire.NotFound(w.target.Resource.GR(), w.target.Name)
	}
	if u, err = e(current); err != nil {
		return nil, nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, nil, err
	}
	if err := matchVersion(w.target, u, current); err != nil {
		return nil, nil, err
	}
	if old, err = r.shownTree(ctx, w.target.Resource, current); err != nil {
		return nil, nil, err
	}
	return u, old, metadata.MatchNamespace(w.target, u)
}

// createMissing creates the object of an update that has found none. Errors: those of create, and of
// the caller's permission to do so.
func (r *Registry) createMissing(ctx context.Context, w write, e edit) (*wire.Object, error) {
	if may := w.target.MayCreate; may != nil {
		if err := may(ctx); err != nil {
			return nil, err
		}
	}
	u, err := e(nil)
	if err != nil {
		return nil, err
	}
	u.SetResourceVersion("") // upstream ignores it here, unlike that of a creation
	return r.create(ctx, r.creating(w), u)
}

// creating is the write when an update or a patch turns out to create the object, with
// upstream's options of it (apiserver handlers updateToCreateOptions, patchToCreateOptions).
func (r *Registry) creating(w write) write {
	var o metav1.CreateOptions
	if was, is := w.options.(*metav1.UpdateOptions); is {
		o = metav1.CreateOptions{DryRun: was.DryRun, FieldManager: was.FieldManager, FieldValidation: was.FieldValidation}
	}
	return r.asked(w, admission.Create, &o)
}

// updateOptions are those of a patch as plugins see them (apiserver handlers
// patchToUpdateOptions).
func updateOptions(o *metav1.PatchOptions) *metav1.UpdateOptions {
	return &metav1.UpdateOptions{DryRun: o.DryRun, FieldManager: o.FieldManager, FieldValidation: o.FieldValidation}
}

// served returns 404 when a resource does not have the target's subresource.
func served(t kinds.Target) error {
	if t.Subresource == "" || t.Subresource == "status" && t.Resource.HasStatus {
		return nil
	}
	if sub := t.Resource.Subresource(t.Subresource); sub != nil && slices.Contains(sub.Verbs, "update") {
		return nil
	}
	return wire.NotFound(t.Resource.GR(), t.Name)
}

// matchUID refuses an update that was made for another object of the same name.
func matchUID(w write, current *wire.Object) error {
	if w.uid == "" || current != nil && current.UID() == w.uid {
		return nil
	}
	if current == nil && !w.target.Resource.CreateOnUpdate {
		return nil // the update is 404
	}
	found := ""
	if current != nil {
		found = string(current.UID())
	}
	return wire.Conflict(w.target.Resource.GR(), w.target.Name, fmt.Sprintf(
		"StorageError: invalid object, Code: 4, Key: /%s, ResourceVersion: 0, "+
			"AdditionalErrorMsg: Precondition failed: UID in precondition: %s, UID in object meta: %s",
		w.cached.Key(w.target.Key()), w.uid, found))
}

// matchVersion applies optimistic concurrency: the body's resourceVersion is the
// object's, or there is none and the kind allows that.
func matchVersion(t kinds.Target, u *unstructured.Unstructured, current *wire.Object) error {
	rv, err := kube.ParseResourceVersion(u.GetResourceVersion())
	if err != nil {
		return wire.BadRequest("invalid resource version: %v", err)
	}
	gr := t.Resource.GR()
	switch {
	case rv == 0 && !t.Resource.UnconditionalUpdate:
		// The kind is the plural, as upstream.
		return wire.Invalid(kinds.GroupVersionKind{Group: gr.Group, Kind: gr.Resource}.GroupKind(), t.Name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), uint64(0), "must be specified for an update"),
		})
	case rv != 0 && rv != current.ResourceVersion():
		return wire.Conflict(gr, t.Name, modified)
	}
	return nil
}

// checkUpdate validates u as the successor of old, and adds the warnings about it.
func checkUpdate(ctx context.Context, t kinds.Target, u, old *unstructured.Unstructured) error {
	errs := metadata.Check(t.Resource, u, old)
	wrong, warnings := validateUpdate(t, u, old)
	errs = append(errs, wrong...)
	if len(errs) == 0 || t.Resource.WarnsOfInvalid {
		warn(ctx, warnings)
	}
	if len(errs) > 0 {
		return metadata.Invalid(t.Resource, u.GetName(), errs)
	}
	warn(ctx, strategy.Warnings(t.Resource, u, old))
	return nil
}

// validateUpdate applies the rules of the kind for what the target is.
func validateUpdate(t kinds.Target, u, old *unstructured.Unstructured) (field.ErrorList, []string) {
	sub := t.Resource.Subresource(t.Subresource)
	switch {
	case sub != nil && sub.Check == nil:
		return nil, nil
	case sub != nil:
		return sub.Check(u, old), nil
	case t.Subresource == "status" && t.Resource.CheckStatus != nil:
		return t.Resource.CheckStatus(u, old)
	}
	return t.Resource.Type.Validate(u, old)
}
