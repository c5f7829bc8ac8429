// Package strategy turns the object that a client sent into the object to store: it sets
// the fields that only the server sets, keeps what an endpoint cannot change, fills in
// defaults and counts the generation. Upstream does that in rest.BeforeCreate,
// rest.BeforeUpdate, rest.BeforeDelete and the strategies of its kinds
// (pkg/registry/*/strategy.go). It does not validate.
//
// A creation begins with [BeginCreate] and ends with [FinishCreate]; in between, field managers
// are recorded and plugins are asked, about an object without what the server has [Given] it. An
// update begins with [Restrict], which also takes back what plugins must not change, and ends
// with [FinishUpdate]. [Delete] is one step. Where kinds differ, [kinds.Resource] has the rule.
//
// delete.go has the steps of a delete: finalizers and grace periods.
package strategy

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/jsontree"
	"github.com/gapless-io/gapless/internal/wire"
)

// BeginCreate begins a new object, in place: it removes what a client cannot set, adds what only
// the server sets, and fills in defaults. Errors: those of [kinds.Type]'s Default.
func BeginCreate(r *kinds.Resource, u *unstructured.Unstructured) error {
	meta := metadata(u.Object)
	wipe(meta)
	if r.Generation != kinds.NoGeneration { // where nothing counts it, it is the client's
		delete(meta, "generation")
	}
	meta["uid"] = string(uuid.NewUUID())
	meta["creationTimestamp"] = time.Now().UTC().Format(time.RFC3339)
	if first := firstGeneration(r); first > 0 {
		meta["generation"] = first
	}
	dropStatus := r.HasStatus && !r.StatusOnCreate
	if dropStatus && r.StatusByDefault {
		delete(u.Object, "status")
	}
	if dropStatus {
		keepNotes(u, nil, statusNotes(r))
	}
	err := r.Type.Default(u)
	if dropStatus && !r.StatusByDefault {
		delete(u.Object, "status")
	}
	return err
}

// FinishCreate fills in, in place, what the kind makes of a new object whose fields have their
// managers, and which plugins have seen. Errors: 400.
func FinishCreate(r *kinds.Resource, u *unstructured.Unstructured) error {
	return complete(r, u, nil)
}

// complete fills in what depends on the stored object, which is nil for a creation.
func complete(r *kinds.Resource, u *unstructured.Unstructured, old map[string]any) error {
	if r.Complete == nil {
		return nil
	}
	if err := r.Complete(u.Object, old); err != nil {
		return wire.BadRequest("%s: %v", r.Kind, err)
	}
	return nil
}

// PutManaged puts managedFields, as JSON, into an object; nothing if managed is empty.
func PutManaged(u *unstructured.Unstructured, managed []byte) error {
	if len(managed) == 0 {
		return nil
	}
	meta, err := jsontree.Decode(slices.Concat([]byte(`{"managedFields":`), managed, []byte("}")))
	if err != nil {
		return wire.Internal(err)
	}
	maps.Copy(metadata(u.Object), meta)
	return nil
}

// TakeManaged gives u the managedFields of another object.
func TakeManaged(u, from *unstructured.Unstructured) {
	setPart(metadata(u.Object), metadata(from.Object), "managedFields")
}

// Restrict copies from old what the target's endpoint cannot change to u, which replaces it,
// and fills in defaults, in place. An update begins with it; when plugins have changed u after
// that, it does so again, since they can change no more than the client.
func Restrict(t kinds.Target, u, old *unstructured.Unstructured) error {
	r := t.Resource
	sub, status := t.Resource.Subresource(t.Subresource), t.Subresource == "status"
	managed := map[string]any{}
	setPart(managed, metadata(u.Object), "managedFields")
	switch {
	case sub != nil:
		whole, err := sub.Apply(u, old)
		if err != nil {
			return err
		}
		u.Object = whole.Object
	case status:
		changeStatus(r, u, old)
	}
	inherit(metadata(u.Object), metadata(old.Object))
	setPart(metadata(u.Object), managed, "managedFields")
	if !r.KeptPartsManaged {
		keepParts(t, u, old)
	}
	var err error
	if !r.StatusByDefault {
		err = r.Type.Default(u)
	}
	if r.HasStatus && t.Subresource == "" {
		keep(u, old, "status")
		keepNotes(u, old, statusNotes(r))
	}
	if r.StatusByDefault {
		err = r.Type.Default(u)
	}
	return err
}

// FinishUpdate completes u, which replaces old and was restricted, in place: it fills in what the
// kind makes of it, and counts the change in the generation. Errors: 400.
func FinishUpdate(t kinds.Target, u, old *unstructured.Unstructured) error {
	if t.Resource.KeptPartsManaged {
		keepParts(t, u, old)
	}
	if err := complete(t.Resource, u, old.Object); err != nil {
		return err
	}
	u.SetResourceVersion(old.GetResourceVersion())
	if sub := t.Resource.Subresource(t.Subresource); t.Subresource == "status" || sub != nil && sub.SameGeneration {
		return nil
	}
	return count(t.Resource, u, old)
}

// keepParts leaves the parts of an object that an update of it does not change as they are.
func keepParts(t kinds.Target, u, old *unstructured.Unstructured) {
	if t.Subresource != "" {
		return
	}
	for _, part := range t.Resource.KeptParts {
		keep(u, old, part)
	}
}

// changeStatus restricts u to what a write of the status can change: the status, and unless it
// changes that alone metadata too, except for what the kind keeps.
func changeStatus(r *kinds.Resource, u, old *unstructured.Unstructured) {
	wanted := u.Object
	u.Object = old.DeepCopy().Object
	setPart(u.Object, wanted, "status")
	if r.StatusAlone {
		return
	}
	kept := metadata(u.Object)
	setPart(u.Object, wanted, "metadata")
	for _, name := range r.StatusKeeps {
		setPart(metadata(u.Object), kept, name)
	}
	if r.Conversion != nil {
		keepNotes(u, old, r.Conversion.SpecNotes)
	}
}

// statusNotes are the annotations that belong to the status of a kind.
func statusNotes(r *kinds.Resource) []string {
	if r.Conversion == nil {
		return nil
	}
	return r.Conversion.StatusNotes
}

// keepNotes gives u the named annotations of old, which is nil for a creation, and no others of
// these names.
func keepNotes(u, old *unstructured.Unstructured, names []string) {
	if len(names) == 0 {
		return
	}
	annotations := maps.Clone(u.GetAnnotations())
	maps.DeleteFunc(annotations, func(name, _ string) bool { return slices.Contains(names, name) })
	if old != nil {
		for name, text := range old.GetAnnotations() {
			if slices.Contains(names, name) {
				if annotations == nil {
					annotations = map[string]string{}
				}
				annotations[name] = text
			}
		}
	}
	u.SetAnnotations(annotations) // none removes the member
}

// wipe removes the fields that only the server sets (apiserver
// rest.WipeObjectMetaSystemFields).
func wipe(meta map[string]any) {
	for _, name := range []string{
		"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink",
		"resourceVersion",
	} {
		delete(meta, name)
	}
}

// inherit copies from the old metadata what an update does not change, like
// rest.BeforeUpdate. What a client must not set, such as a deletionTimestamp, stays in
// meta, and validation refuses it.
func inherit(meta, old map[string]any) {
	setPart(meta, old, "creationTimestamp")
	setPart(meta, old, "generation")
	if was, has := old["deletionTimestamp"]; has {
		meta["deletionTimestamp"] = was
	}
	if was, has := old["deletionGracePeriodSeconds"]; has && meta["deletionGracePeriodSeconds"] == nil {
		meta["deletionGracePeriodSeconds"] = was
	}
	if uid, _ := meta["uid"].(string); uid == "" {
		meta["uid"] = old["uid"]
	}
	delete(meta, "selfLink")
}

// firstGeneration is the generation of a new object, 0 for none.
func firstGeneration(r *kinds.Resource) int64 {
	switch r.Generation {
	case kinds.NoGeneration, kinds.GenerationOfSpecChanges:
		return 0
	case kinds.GenerationOne, kinds.GenerationOfSpec, kinds.GenerationOfSpecAndAnnotations,
		kinds.GenerationOfContent, kinds.GenerationOfContentAndLabels:
	}
	return 1
}

// count adds one to the generation when anything changed that it counts.
func count(r *kinds.Resource, u, old *unstructured.Unstructured) error {
	now, was := u.Object, old.Object
	if r.Conversion != nil { // a part of the spec may be in annotations
		now, was = r.Store(now), r.Store(was)
	}
	is, err := same(counted(r, now), counted(r, was))
	if err != nil {
		return wire.BadRequest("%v", err)
	}
	if !is {
		u.SetGeneration(old.GetGeneration() + 1)
	}
	return nil
}

// counted returns the parts of an object that its generation counts.
func counted(r *kinds.Resource, o map[string]any) map[string]any {
	switch r.Generation {
	case kinds.NoGeneration, kinds.GenerationOne:
	case kinds.GenerationOfSpec, kinds.GenerationOfSpecChanges:
		return map[string]any{"spec": o["spec"]}
	case kinds.GenerationOfSpecAndAnnotations:
		return map[string]any{"spec": o["spec"], "annotations": metadata(o)["annotations"]}
	case kinds.GenerationOfContent:
		return content(o)
	case kinds.GenerationOfContentAndLabels:
		parts := content(o)
		parts["labels"] = metadata(o)["labels"]
		return parts
	}
	return nil
}

// content returns what an object has besides metadata and the names of its type.
func content(o map[string]any) map[string]any {
	parts := maps.Clone(o)
	for _, name := range []string{"apiVersion", "kind", "metadata"} {
		delete(parts, name)
	}
	return parts
}

// metadata returns an object's metadata, and makes it when it is missing.
func metadata(o map[string]any) map[string]any {
	meta, is := o["metadata"].(map[string]any)
	if !is {
		meta = map[string]any{}
		o["metadata"] = meta
	}
	return meta
}

// setPart copies one member of an object to another one; it removes a missing one.
func setPart(to, from map[string]any, name string) {
	delete(to, name)
	if value, has := from[name]; has {
		to[name] = value
	}
}

// keep copies one part of old to u. It is a deep copy, since defaults may change it.
func keep(u, old *unstructured.Unstructured, part string) {
	delete(u.Object, part)
	if was, has := old.Object[part]; has {
		u.Object[part] = runtime.DeepCopyJSONValue(was)
	}
}
