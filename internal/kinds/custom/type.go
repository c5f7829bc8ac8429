package custom

import (
	"fmt"
	"reflect"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/gotype"
	"github.com/gapless-io/gapless/internal/kinds/jsontree"
	"github.com/gapless-io/gapless/internal/wire"
)

// customType is the kinds.Type of one version of a custom resource.
type customType struct {
	resource *kinds.Resource
	preserve bool // spec.preserveUnknownFields, which only old definitions have
	shapes   kept[*shape]
	compiled kept[*checks]
}

// shape is the part of a schema that decoding and defaulting need.
type shape struct {
	props      *apiextensions.JSONSchemaProps
	structural *structuralschema.Structural
	members    *members
	growth     *growth // nil: there are no defaults
}

func newType(r *kinds.Resource, preserve bool) *customType {
	t := &customType{resource: r, preserve: preserve}
	t.shapes.compile = t.compileShape
	t.compiled.compile = t.compileChecks
	return t
}

func (t *customType) compileShape() (*shape, error) {
	var v1 apiextensionsv1.JSONSchemaProps
	if len(t.resource.OpenAPI) == 0 {
		v1 = apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	} else if err := kjson.UnmarshalCaseSensitivePreserveInts(t.resource.OpenAPI, &v1); err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", t.resource.GVK(), err)
	}
	props := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&v1, props, nil); err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", t.resource.GVK(), err)
	}
	structural, err := structuralschema.NewStructural(props)
	if err != nil {
		return nil, fmt.Errorf("compile the schema of %s: %w", t.resource.GVK(), err)
	}
	if !t.preserve {
		// The structural schema shares its defaults with props, and is changed here.
		structural = structural.DeepCopy()
		if err := defaulting.PruneDefaults(structural); err != nil {
			return nil, fmt.Errorf("prune the defaults in the schema of %s: %w", t.resource.GVK(), err)
		}
	}
	return &shape{
		props: props, structural: structural, members: membersOf(structural),
		growth: growthOf(structural),
	}, nil
}

// Decode reads a body: kind and apiVersion must be there and right (for built-in
// kinds they may be missing, for custom ones not), metadata becomes
// what ObjectMeta knows of it, and the rest is pruned by the schema.
func (t *customType) Decode(body []byte, v kinds.FieldValidation) (*unstructured.Unstructured, []string, error) {
	if err := kinds.CheckSize(body); err != nil {
		return nil, nil, err
	}
	var problems []error
	content, err := jsontree.DecodePlain(body)
	switch {
	case err == nil:
	case v == kinds.FieldsIgnore || v == kinds.FieldsApplied:
		content = map[string]any{}
		err = kjson.UnmarshalCaseSensitivePreserveInts(body, &content)
	default:
		content = map[string]any{}
		problems, err = kjson.UnmarshalStrict(body, &content)
	}
	if err == nil {
		err = stringHeads(body, content)
	}
	if err != nil {
		return nil, nil, t.unrecognized(body, fmt.Errorf("couldn't get version/kind; json parse error: %w", err))
	}
	u := &unstructured.Unstructured{Object: content}
	if err := t.claim(u, body); err != nil {
		return nil, nil, err
	}
	unknown, err := t.coerce(u, v)
	if err != nil {
		return nil, nil, err
	}
	for _, path := range unknown {
		problems = append(problems, fmt.Errorf("unknown field %q", path))
	}
	if v == kinds.FieldsStrict && len(problems) > 0 {
		return nil, nil, t.cannotBe(runtime.NewStrictDecodingError(problems))
	}
	warnings := make([]string, 0, len(problems))
	for _, p := range problems {
		warnings = append(warnings, p.Error())
	}
	return u, warnings, nil
}

// stringHeads returns the decoder's error for a kind or apiVersion that is not a
// string.
func stringHeads(body []byte, content map[string]any) error {
	for _, key := range []string{"kind", "apiVersion"} {
		switch content[key].(type) {
		case nil, string:
		default:
			if _, _, err := kinds.Head(body); err != nil {
				return err
			}
			return fmt.Errorf("%s is not a string", key)
		}
	}
	return nil
}

func (t *customType) claim(u *unstructured.Unstructured, body []byte) error {
	kind, apiVersion := u.GetKind(), u.GetAPIVersion()
	if kind == "" {
		return t.unrecognized(body, runtime.NewMissingKindErr(string(body)))
	}
	if apiVersion != t.resource.APIVersion() {
		return wire.BadRequest("the API version in the data (%s) does not match the expected API version (%s)",
			apiVersion, t.resource.APIVersion())
	}
	if kind != t.resource.Kind {
		// Under the kind that the body claims, as upstream has it.
		return wire.Invalid(u.GroupVersionKind().GroupKind(), u.GetName(), field.ErrorList{
			field.Invalid(field.NewPath("kind"), kind, "must be "+t.resource.Kind),
		})
	}
	return nil
}

// coerce does to a tree what decoding into a Go struct does to built-in kinds: it
// removes unknown fields, whose paths it returns, and nulls where null is not
// allowed; metadata gets its canonical form.
func (t *customType) coerce(u *unstructured.Unstructured, v kinds.FieldValidation) ([]string, error) {
	s, err := t.shapes.get()
	if err != nil {
		return nil, wire.Internal(err)
	}
	if s.members.clean(u.Object) && normalMetadata(u.Object) {
		return nil, nil
	}
	track, drop := v == kinds.FieldsWarn || v == kinds.FieldsStrict, v == fieldsStored
	kind, apiVersion := u.GetKind(), u.GetAPIVersion()
	meta, found, unknown, err := objectmeta.GetObjectMetaWithOptions(u.Object, objectmeta.ObjectMetaOptions{
		DropMalformedFields: drop, ReturnUnknownFieldPaths: track,
	})
	if err != nil {
		return nil, t.cannotBe(err)
	}
	if !t.preserve {
		options := structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: track}
		unknown = append(unknown, pruning.PruneWithOptions(u.Object, s.structural, true, options)...)
		if v != kinds.FieldsApplied {
			defaulting.PruneNonNullableNullsWithoutDefaults(u.Object, s.structural)
		}
	}
	fieldErr, paths := objectmeta.CoerceWithOptions(nil, u.Object, s.structural, false, objectmeta.CoerceOptions{
		DropInvalidFields: drop, ReturnUnknownFieldPaths: track,
	})
	if fieldErr != nil {
		return nil, t.cannotBe(fieldErr)
	}
	u.SetKind(kind)
	u.SetAPIVersion(apiVersion)
	if found {
		if err := objectmeta.SetObjectMeta(u.Object, meta); err != nil {
			return nil, t.cannotBe(err)
		}
	}
	return append(unknown, paths...), nil
}

// Coerce brings content that was converted to the version into the form of its schema.
func (t *customType) Coerce(u *unstructured.Unstructured) error {
	_, err := t.coerce(u, kinds.FieldsIgnore)
	return err
}

// fieldsStored is FieldsIgnore for what is stored: malformed metadata of an embedded object, which an
// earlier schema had allowed, is dropped.
const fieldsStored kinds.FieldValidation = "Stored"

// normalMetadata gives metadata its canonical form. It returns false when that takes
// upstream's decoder, which has the error texts.
func normalMetadata(object map[string]any) bool {
	value, has := object["metadata"]
	metadata, is := value.(map[string]any)
	if !is {
		return !has
	}
	s, err := gotype.Of(reflect.TypeFor[metav1.ObjectMeta]())
	return err == nil && s.Normalize(metadata)
}

// Default fills in the defaults of the schema. What they add is counted before: one
// of 50 kB in each item of a list makes gigabytes of a body of a few.
func (t *customType) Default(u *unstructured.Unstructured) error {
	s, err := t.shapes.get()
	if err != nil {
		return wire.Internal(err)
	}
	if u.Object == nil || s.growth == nil {
		return nil
	}
	switch added := s.growth.of(u.Object); {
	case added == amount{}:
		return nil
	case added.bytes > kinds.MaxObjectBytes || added.parts > kinds.MaxParts:
		return wire.TooLarge("the defaults of the schema add more than %d bytes, or %d objects and lists, to the object",
			kinds.MaxObjectBytes, kinds.MaxParts)
	}
	s.growth.fill(u.Object)
	return nil
}

// DecodeProtobuf refuses: custom resources have no protobuf form.
func (t *customType) DecodeProtobuf([]byte) ([]byte, error) {
	return nil, wire.UnsupportedMediaType([]string{"application/json", "application/yaml"})
}

// StrategicMerge refuses: custom resources have no Go struct with merge keys.
func (t *customType) StrategicMerge(_, _ []byte) ([]byte, error) {
	return nil, wire.UnsupportedMediaType(t.resource.PatchTypes)
}

func (t *customType) cannotBe(why error) error {
	return wire.BadRequest("%s in version %q cannot be handled as a %s: %v",
		t.resource.Kind, t.resource.Version, t.resource.Kind, why)
}

func (t *customType) unrecognized(body []byte, why error) error {
	return wire.BadRequest("the object provided is unrecognized (must be of type %s): %v (%s)",
		t.resource.Kind, why, kinds.Excerpt(body))
}
