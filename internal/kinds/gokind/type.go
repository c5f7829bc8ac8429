package gokind

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/gotype"
	"github.com/gapless-io/gapless/internal/kinds/jsontree"
	"github.com/gapless-io/gapless/internal/kinds/tree"
	"github.com/gapless-io/gapless/internal/wire"
)

// goType is a kinds.Type made from the Go struct of a kind.
type goType[T any, P Object[T]] struct {
	gvk        kinds.GroupVersionKind
	apiVersion string
	also       []runtimeschema.GroupVersion // other versions that a body may claim, with the same fields
	hasStatus  bool
	validName  func(string) []string
	defaults   func(tree.Object)
	check      Rules[P]
	emptied    []string                       // lists of the status that stay when they are empty
	shape      func() (*gotype.Struct, error) // of T; found at the first use
}

func newType[T any, P Object[T]](gvk kinds.GroupVersionKind) *goType[T, P] {
	return &goType[T, P]{
		gvk: gvk, apiVersion: gvk.GroupVersion().String(),
		shape: sync.OnceValues(func() (*gotype.Struct, error) { return gotype.Of(reflect.TypeFor[T]()) }),
	}
}

// Decode makes of the body what the Go struct would be encoded as: upstream stores and
// answers with that, so unknown fields, nulls and empty lists are removed in the same way.
// A body with anything unusual in it is read into the struct, for the errors and warnings
// of that.
func (t *goType[T, P]) Decode(body []byte, v kinds.FieldValidation) (*unstructured.Unstructured, []string, error) {
	if err := kinds.CheckSize(body); err != nil {
		return nil, nil, err
	}
	if content := t.read(body); content != nil {
		return &unstructured.Unstructured{Object: content}, nil, nil
	}
	u, warnings, err := t.readStruct(body, v)
	if err == nil && len(t.emptied) > 0 {
		var sent tree.Object
		if json.Unmarshal(body, &sent) == nil {
			keepEmpty(u.Object, t.emptyLists(sent))
		}
	}
	return u, warnings, err
}

// emptyLists returns those lists of the status that are there and empty, of which Go structs encode nothing.
func (t *goType[T, P]) emptyLists(content tree.Object) (names []string) {
	if len(t.emptied) == 0 {
		return nil
	}
	status := tree.Child(content, "status")
	for _, name := range t.emptied {
		if list, is := status[name].([]any); is && len(list) == 0 {
			names = append(names, name)
		}
	}
	return names
}

func keepEmpty(content tree.Object, names []string) {
	for _, name := range names {
		tree.Made(content, "status")[name] = []any{}
	}
}

// keepReset lets an empty list of managedFields, which Go structs do not encode, be known as what it
// is: a client forgets who manages what. One empty entry says the same (managedfields
// isResetManagedFields).
func keepReset(content tree.Object) {
	if metadata, is := content["metadata"].(tree.Object); is {
		metadata["managedFields"] = []any{tree.Object{}}
	}
}

// resets reports whether a list of managedFields is there and empty.
func resets(content tree.Object) bool {
	metadata, _ := content["metadata"].(tree.Object)
	entries, is := metadata["managedFields"].([]any)
	return is && len(entries) == 0
}

// read decodes a body without a struct. It returns nil for one with something unusual.
func (t *goType[T, P]) read(body []byte) tree.Object {
	s, err := t.shape()
	if err != nil {
		return nil // cannot happen: a test decodes each kind
	}
	content, lessLists, ok := s.Decode(body)
	switch {
	case lessLists:
		return t.readLists(s, body)
	case !ok || !t.name(content):
		return nil
	}
	return content
}

// readLists is read for a body with empty lists: of some it matters whether they are empty or left out.
func (t *goType[T, P]) readLists(s *gotype.Struct, body []byte) tree.Object {
	content, err := jsontree.DecodePlain(body)
	if err != nil {
		return nil
	}
	reset, empty := resets(content), t.emptyLists(content)
	if !s.Normalize(content) || !t.name(content) {
		return nil
	}
	keepEmpty(content, empty)
	if reset {
		keepReset(content)
	}
	return content
}

// name gives content its kind and apiVersion, and reports whether it has no others.
func (t *goType[T, P]) name(content tree.Object) bool {
	for _, head := range [...]struct{ name, is string }{{"kind", t.gvk.Kind}, {"apiVersion", t.apiVersion}} {
		if given, has := content[head.name]; !has {
			content[head.name] = head.is
		} else if given != head.is {
			return false
		}
	}
	return true
}

// readStruct decodes a body by way of the struct.
func (t *goType[T, P]) readStruct(body []byte, v kinds.FieldValidation) (*unstructured.Unstructured, []string, error) {
	obj := P(new(T))
	var problems []error
	var err error
	if v == kinds.FieldsIgnore || v == kinds.FieldsApplied {
		err = kjson.UnmarshalCaseSensitivePreserveInts(body, obj)
	} else {
		problems, err = kjson.UnmarshalStrict(body, obj)
	}
	if err != nil {
		return nil, nil, t.undecodable(body, err)
	}
	if err := t.claim(obj.GetObjectKind().GroupVersionKind()); err != nil {
		return nil, nil, err
	}
	if v == kinds.FieldsStrict && len(problems) > 0 {
		return nil, nil, t.cannotBe(t.gvk, runtime.NewStrictDecodingError(problems))
	}
	obj.GetObjectKind().SetGroupVersionKind(t.gvk)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, nil, t.cannotBe(t.gvk, err)
	}
	if about, is := any(obj).(metav1.Object); is && about.GetManagedFields() != nil && len(about.GetManagedFields()) == 0 {
		keepReset(content)
	}
	warnings := make([]string, 0, len(problems))
	for _, p := range problems {
		warnings = append(warnings, p.Error())
	}
	return &unstructured.Unstructured{Object: content}, warnings, nil
}

// claim checks the kind and apiVersion that a body claims for itself. Either may
// be missing: then the path determines it, as upstream for built-in kinds.
func (t *goType[T, P]) claim(got kinds.GroupVersionKind) error {
	if got.Kind != "" && got.Kind != t.gvk.Kind {
		return t.cannotBe(
			got,
			fmt.Errorf("converting (%s.%s) to (%s.%s): unknown conversion", got.Version, got.Kind, t.gvk.Version, t.gvk.Kind),
		)
	}
	gv := got.GroupVersion()
	if !gv.Empty() && gv != t.gvk.GroupVersion() && !slices.Contains(t.also, gv) {
		return wire.BadRequest(
			"the API version in the data (%s) does not match the expected API version (%s)",
			gv,
			t.gvk.GroupVersion(),
		)
	}
	return nil
}

// undecodable explains why a body could not be decoded: first whether it is JSON
// with a kind at all, then whether it is this kind, then what was wrong in it
// (upstream's transformDecodeError).
func (t *goType[T, P]) undecodable(body []byte, cause error) error {
	apiVersion, kind, err := kinds.Head(body)
	if err != nil {
		return wire.BadRequest(
			"the object provided is unrecognized (must be of type %s): couldn't get version/kind; json parse error: %v (%s)",
			t.gvk.Kind,
			err,
			kinds.Excerpt(body),
		)
	}
	got := runtimeschema.FromAPIVersionAndKind(apiVersion, kind)
	if err := t.claim(got); err != nil {
		return err
	}
	return t.cannotBe(t.gvk, cause)
}

func (t *goType[T, P]) cannotBe(got kinds.GroupVersionKind, why error) error {
	return wire.BadRequest("%s in version %q cannot be handled as a %s: %v", got.Kind, got.Version, t.gvk.Kind, why)
}

// Default fills in the defaults of the kind. A kind with a status always has one,
// if only an empty one, as upstream: clients patch fields of it. What the defaults
// of a part can add is within its share of MaxParts, so that they are not counted.
func (t *goType[T, P]) Default(u *unstructured.Unstructured) error {
	if u.Object == nil {
		return nil
	}
	if t.hasStatus && u.Object["status"] == nil {
		if s, err := t.shape(); err == nil {
			if empty := s.Empty("status"); empty != nil {
				u.Object["status"] = empty
			}
		}
	}
	if t.defaults != nil {
		t.defaults(u.Object)
	}
	return nil
}

// Validate applies the rules of the kind; old is nil for a creation.
func (t *goType[T, P]) Validate(u, old *unstructured.Unstructured) (field.ErrorList, []string) {
	var errs field.ErrorList
	if name := u.GetName(); old == nil && name != "" {
		for _, why := range t.validName(name) {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), name, why))
		}
	}
	c := &t.check
	if c.First == nil && c.Object == nil && c.Warn == nil && (old != nil || c.Create == nil) && (old == nil || c.Update == nil) {
		return errs, nil
	}
	obj, err := t.unmanaged(u)
	var before P
	if err == nil && old != nil && (c.First != nil || c.Update != nil || c.Warn != nil) {
		before, err = t.unmanaged(old)
	}
	if err != nil {
		return append(errs, field.Invalid(nil, nil, err.Error())), nil
	}
	if c.First != nil {
		if first := c.First(obj, before); len(first) > 0 {
			return first, nil
		}
	}
	found := t.apply(obj, before, old == nil)
	if old != nil && len(found) > 0 {
		found = t.ratchet(found, obj, old)
	}
	errs = append(errs, found...)
	if c.Warn == nil || len(errs) > 0 {
		return errs, nil
	}
	return nil, c.Warn(obj, before)
}

// ratchet returns of the errors of an update those that are not of what is stored already: an earlier version of this
// server, or a kube-apiserver beside it, may have accepted what these rules refuse, and its labels and finalizers have to
// be changed all the same. What was stored is compared with the defaults that it has when it is read today.
func (t *goType[T, P]) ratchet(errs field.ErrorList, obj P, old *unstructured.Unstructured) field.ErrorList {
	was := old.DeepCopy()
	if t.Default(was) != nil {
		return errs
	}
	before, err := t.unmanaged(was)
	if err != nil {
		return errs
	}
	errs = t.apply(obj, before, false)
	if t.check.Object == nil || len(errs) == 0 {
		return errs
	}
	had := map[string]bool{}
	for _, e := range t.check.Object(before) {
		had[e.Error()] = true
	}
	return slices.DeleteFunc(errs, func(e *field.Error) bool { return had[e.Error()] })
}

// apply applies the rules for an object that is new, or was before.
func (t *goType[T, P]) apply(obj, before P, isNew bool) field.ErrorList {
	var errs field.ErrorList
	if t.check.Object != nil {
		errs = append(errs, t.check.Object(obj)...)
	}
	switch {
	case isNew && t.check.Create != nil:
		errs = append(errs, t.check.Create(obj)...)
	case !isNew && t.check.Update != nil:
		errs = append(errs, t.check.Update(obj, before)...)
	}
	return errs
}

// validateStatus applies the rules of the kind to an update of the status. Such an update
// cannot change the spec, and is not refused for it: it may have been valid under older rules.
func (t *goType[T, P]) validateStatus(u, old *unstructured.Unstructured) (field.ErrorList, []string) {
	obj, err := t.unmanaged(u)
	var before P
	if err == nil {
		before, err = t.unmanaged(old)
	}
	if err != nil {
		return field.ErrorList{field.Invalid(nil, nil, err.Error())}, nil
	}
	var errs field.ErrorList
	if t.check.Status != nil {
		errs = t.check.Status(obj, before)
	} else {
		errs = slices.DeleteFunc(t.apply(obj, before, false), func(err *field.Error) bool {
			part, _, _ := strings.Cut(err.Field, ".")
			return part == "spec"
		})
	}
	if t.check.WarnStatus == nil || len(errs) > 0 {
		return errs, nil
	}
	return nil, t.check.WarnStatus(obj, before)
}

// unmanaged returns an object as a struct, without its managedFields: no rule is about them.
func (t *goType[T, P]) unmanaged(u *unstructured.Unstructured) (P, error) {
	meta, is := u.Object["metadata"].(tree.Object)
	if !is || meta["managedFields"] == nil {
		return t.typed(u)
	}
	content, meta := maps.Clone(u.Object), maps.Clone(meta)
	delete(meta, "managedFields")
	content["metadata"] = meta
	return t.typed(&unstructured.Unstructured{Object: content})
}

func (t *goType[T, P]) typed(u *unstructured.Unstructured) (P, error) {
	obj := P(new(T))
	if s, err := t.shape(); err == nil && s.Fill(obj, u.Object) {
		return obj, nil
	}
	obj = P(new(T))
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, obj); err != nil {
		return nil, fmt.Errorf("read the %s: %w", t.gvk.Kind, err)
	}
	return obj, nil
}

// StrategicMerge patches by the merge keys in the Go struct's tags.
func (t *goType[T, P]) StrategicMerge(original, patch []byte) ([]byte, error) {
	before, err := jsontree.Decode(original)
	if err != nil {
		return nil, wire.Internal(fmt.Errorf("read the object to be patched: %w", err))
	}
	change, err := jsontree.Decode(patch)
	if err != nil {
		return nil, wire.BadRequest("error decoding patch: %v", err)
	}
	if err := checkMerging(before, change, new(T)); err != nil {
		return nil, err
	}
	merged, err := mergeStrategically(before, change, new(T))
	if err != nil {
		return nil, t.unpatchable(err)
	}
	out, err := json.Marshal(merged)
	if err != nil {
		return nil, wire.BadRequest("encode the patched object: %v", err)
	}
	return out, nil
}

// mergeStrategically keeps the library from taking the server down: it panics on
// patches whose merge keys, or items of lists of primitives, are objects or lists
// (it compares and hashes them without a look at their type).
func mergeStrategically(before, change strategicpatch.JSONMap, dataStruct any) (merged strategicpatch.JSONMap, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			merged, err = nil, fmt.Errorf("%w: %v", mergepatch.ErrBadJSONDoc, cause)
		}
	}()
	return strategicpatch.StrategicMergeMapPatch(before, change, dataStruct)
}

// unpatchable reports whether the patch is malformed (400), or well formed but not
// for this object (422; upstream's interpretStrategicMergePatchError).
func (t *goType[T, P]) unpatchable(err error) error {
	for _, malformed := range []error{
		mergepatch.ErrBadJSONDoc, mergepatch.ErrBadPatchFormatForPrimitiveList, mergepatch.ErrBadPatchFormatForRetainKeys,
		mergepatch.ErrBadPatchFormatForSetElementOrderList, mergepatch.ErrUnsupportedStrategicMergePatchFormat,
	} {
		if errors.Is(err, malformed) {
			return wire.BadRequest("%v", err)
		}
	}
	gk := t.gvk.GroupKind()
	return wire.Invalid(gk, "", field.ErrorList{field.Invalid(field.NewPath("patch"), nil, strings.TrimSpace(err.Error()))})
}
