package fieldmanager

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	k8sschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/openapi"
)

// types knows how the fields of some kinds merge.
type types map[kinds.GroupVersionKind]typed.ParseableType

// typesOf returns how the fields of all versions of a resource merge. Those of a custom
// resource without a schema merge as its objects suggest.
func (m *Managers) typesOf(r *kinds.Resource) (managedfields.TypeConverter, error) {
	if !r.Custom {
		return m.builtIn()
	}
	var family []*kinds.Resource
	if len(r.OpenAPI) > 0 {
		family = append(family, r) // which may not be served yet
	}
	for other := range m.live.Load().All() {
		if other.GR() == r.GR() && other.GVK() != r.GVK() && len(other.OpenAPI) > 0 {
			family = append(family, other)
		}
	}
	if len(family) == 0 {
		return managedfields.NewDeducedTypeConverter(), nil
	}
	merged, err := openapi.MergeTypes(family...)
	return types(merged), err
}

// readBuiltIn returns how the fields of all built-in kinds merge, and that of Scale.
func (m *Managers) readBuiltIn() (managedfields.TypeConverter, error) {
	resources := []*kinds.Resource{scales()}
	for _, r := range m.live.Load().Resources() {
		if !r.Custom {
			resources = append(resources, r)
		}
	}
	merged, err := openapi.MergeTypes(resources...)
	return types(merged), err
}

// ObjectToTyped implements managedfields.TypeConverter.
func (known types) ObjectToTyped(o k8sruntime.Object, options ...typed.ValidationOptions) (*typed.TypedValue, error) {
	u, is := o.(*unstructured.Unstructured)
	if !is {
		return nil, fmt.Errorf("a %T has no type to merge it by", o)
	}
	kind := u.GroupVersionKind()
	t, is := known[kind]
	if !is {
		return nil, k8sruntime.NewNotRegisteredErrForKind("gapless", kind)
	}
	return t.FromUnstructured(u.Object, options...)
}

// TypedToObject implements managedfields.TypeConverter.
func (types) TypedToObject(value *typed.TypedValue) (k8sruntime.Object, error) {
	tree, is := value.AsValue().Unstructured().(map[string]any)
	if !is {
		return nil, fmt.Errorf("a merged object is a %T", value.AsValue().Unstructured())
	}
	return &unstructured.Unstructured{Object: tree}, nil
}

// errUnsupported is what upstream's interfaces have, and nothing calls.
var errUnsupported = errors.New("this conversion is not supported")

// versions converts objects between the versions of a resource.
type versions struct {
	live    *kinds.Live
	convert Convert
	custom  bool // a custom resource
}

// patient is a context that never ends: the library that converts passes none on. A webhook
// has a limit of its own.
type patient struct{}

func (patient) Deadline() (time.Time, bool) { return time.Time{}, false }
func (patient) Done() <-chan struct{}       { return nil }
func (patient) Err() error                  { return nil }
func (patient) Value(any) any               { return nil }

// ConvertToVersion implements runtime.ObjectConvertor. The result may be the argument.
func (c versions) ConvertToVersion(in k8sruntime.Object, target k8sruntime.GroupVersioner) (k8sruntime.Object, error) {
	u, is := in.(*unstructured.Unstructured)
	if !is {
		return nil, fmt.Errorf("a %T cannot be converted", in)
	}
	have := u.GroupVersionKind()
	want, known := target.KindForGroupVersionKinds([]k8sschema.GroupVersionKind{have})
	if known && want == have {
		return in, nil
	}
	gv, is := target.(k8sschema.GroupVersion)
	if !is {
		return nil, fmt.Errorf("%s cannot be converted to %s", have, target.Identifier())
	}
	from, to := c.find(have), c.find(gv.WithKind(have.Kind))
	if from == nil || to == nil || from.Home().GR() != to.Home().GR() || !c.custom && !typedTogether(have.Group, gv.Group) {
		return nil, c.missing(have, gv)
	}
	if to.Converts() {
		content, err := c.convert(patient{}, to, u.Object)
		return &unstructured.Unstructured{Object: content}, err
	}
	content := from.Store(u.Object)
	if to.Conversion != nil {
		content = to.Conversion.Show(content)
	}
	out := (&unstructured.Unstructured{Object: content}).DeepCopy()
	out.SetGroupVersionKind(to.GVK())
	return out, nil
}

// missing is the error for a version that does not exist. Of a built-in kind, the library drops
// what is managed in such a version. Of a custom resource it fails, since upstream's converter has
// no type for this error (apiextensions-apiserver conversion/converter.go ConvertToVersion): an
// apply is refused, and an update changes no managedFields.
func (c versions) missing(have k8sschema.GroupVersionKind, gv k8sschema.GroupVersion) error {
	switch {
	case !c.custom:
		return k8sruntime.NewNotRegisteredErrForTarget("gapless", nil, gv)
	case gv.Group != have.Group:
		return fmt.Errorf("%v is unstructured and is not suitable for converting to %q", have, gv)
	case c.find(gv.WithKind(have.Kind)) == nil:
		return fmt.Errorf("request to convert CR to an invalid group/version: %s", gv)
	}
	return fmt.Errorf("request to convert CR from an invalid group/version: %s", have.GroupVersion())
}

// typedTogether reports whether upstream has the types of two groups in one place: those below /api are apart from
// those below /apis (apiserver server/genericapiserver.go InstallLegacyAPIGroup). It concerns Events, the one kind of both:
// what is managed in v1 is dropped by a write in events.k8s.io/v1, and the reverse.
func typedTogether(a, b string) bool { return (a == "") == (b == "") }

// find returns the resource of a kind; nil if there is none.
func (c versions) find(kind k8sschema.GroupVersionKind) *kinds.Resource {
	for r := range c.live.Load().All() {
		if r.GVK() == kind {
			return r
		}
	}
	return nil
}

// Convert implements runtime.ObjectConvertor; it is not called.
func (versions) Convert(_, _, _ any) error { return errUnsupported }

// ConvertFieldLabel implements runtime.ObjectConvertor; it is not called.
func (versions) ConvertFieldLabel(_ k8sschema.GroupVersionKind, _, _ string) (label, value string, err error) {
	return "", "", errUnsupported
}

// defaults leaves an object as it is: the registry fills in defaults afterwards.
type defaults struct{}

// Default implements runtime.ObjectDefaulter.
func (defaults) Default(k8sruntime.Object) {}
