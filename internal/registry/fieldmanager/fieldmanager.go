// Package fieldmanager tracks who manages which fields of an object, in its
// metadata.managedFields, and merges applied configurations into objects. The rules are
// upstream's library's (apimachinery util/managedfields); this package fits it to trees of JSON
// and to the resources of this server.
//
// [Managers] are the field managers of all resources. A [Configuration] is what a client applies.
// [Scaled] is an object with its Scale.
package fieldmanager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	k8sschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/jsontree"
	"github.com/gapless-io/gapless/internal/wire"
)

// Managers are the field managers of all resources, one for each resource and
// subresource, made when they are first needed. They are safe for concurrent use.
type Managers struct {
	live    *kinds.Live
	convert Convert
	byPath  sync.Map // of path to *fieldManager

	builtIn func() (managedfields.TypeConverter, error) // calls readBuiltIn once
	scale   func() (*fieldManager, error)               // that of all Scales
}

// path is what has a field manager of its own: a version of a resource, or a subresource
// of it.
type path struct {
	resource    *kinds.Resource
	subresource string
}

// keepFor is how long the field manager of a custom resource is kept after its last use. To
// make it takes a millisecond, to keep it 13 KiB.
const keepFor = time.Minute

// Convert returns the content of a custom resource in the version of a resource.
type Convert func(ctx context.Context, to *kinds.Resource, content map[string]any) (map[string]any, error)

// New returns the field managers of the resources of live. What applies to an object that is
// managed in other versions too, calls convert, which must return in some time.
func New(live *kinds.Live, convert Convert) *Managers {
	m := &Managers{live: live, convert: convert}
	m.builtIn = sync.OnceValues(m.readBuiltIn)
	m.scale = sync.OnceValues(func() (*fieldManager, error) {
		return m.build(kinds.Target{Resource: scales(), Subresource: "scale"})
	})
	return m
}

// Update records in u, which replaces old, what manager has changed, or the manager of t if there is none. Without an old
// object, nil, u is a creation. The object u itself may say who manages what, as upstream
// allows. An object that nothing is known of by now stays so, until it is applied to. Nothing
// is recorded of one with too many fields. Of most creations it returns the managedFields as
// JSON, and does not put them into u; otherwise it returns nil.
func (m *Managers) Update(t kinds.Target, u, old *unstructured.Unstructured, manager string) (record []byte, err error) {
	f, err := m.of(t)
	if err != nil {
		return nil, err
	}
	manager = cmp.Or(manager, t.Manager, "unknown")
	if old == nil && t.Subresource == "" {
		if record, ok := f.created(u.Object, manager); ok {
			return record, nil
		}
	}
	if !managed(u) || !managed(old) {
		unstructured.RemoveNestedField(u.Object, "metadata", "managedFields")
		return nil, nil
	}
	switch {
	case old == nil:
		f.update(f.empty(), u, manager)
	case !f.updated(u.Object, old.Object, manager):
		f.update(old, u, manager)
	}
	return nil, nil
}

// Apply returns the object that results from applying a configuration to old, which is nil for
// a creation; it may be old. Errors: 400, 409 with the fields that other managers
// have set, 413 for too many fields, 500 for a configuration that does not fit the kind's schema, as upstream.
func (m *Managers) Apply(t kinds.Target, old *unstructured.Unstructured, c Configuration) (*unstructured.Unstructured, error) {
	f, err := m.of(t)
	if err != nil {
		return nil, err
	}
	if !managed(c.Object) || !managed(old) {
		return nil, tooLarge()
	}
	if old == nil {
		old = f.empty()
	} else if f.unchanged(old.Object, c) {
		return old, nil
	}
	return f.apply(old, c)
}

// Check returns what the schema of a kind refuses in the body of a configuration for it, in
// JSON, such as two items with one key. Of one with too many fields it says nothing. It works
// for a resource that is not served yet. Errors: 400.
func (m *Managers) Check(t kinds.Target, body []byte) error {
	tree, err := jsontree.Decode(body)
	if err != nil {
		return wire.BadRequest("%v", err)
	}
	u := &unstructured.Unstructured{Object: tree}
	f, err := m.of(t)
	if err != nil || f.typ == nil || !managed(u) {
		return err
	}
	if _, err := f.typ.FromUnstructured(u.Object); err != nil {
		return wire.BadRequest("%v", err)
	}
	return nil
}

// Types returns how the fields of a resource's objects merge.
func (m *Managers) Types(r *kinds.Resource) (managedfields.TypeConverter, error) {
	f, err := m.of(kinds.Target{Resource: r})
	if err != nil {
		return nil, err
	}
	return f.types, nil
}

// fieldManager is the field manager of a resource or a subresource.
type fieldManager struct {
	*managedfields.FieldManager
	// blank is the object before its creation: a struct without values, as upstream's, so
	// that nobody manages the structs in it. It is not changed.
	blank map[string]any
	typ   *typed.ParseableType // nil without a schema
	root  *shape               // of typ; nil if objects are not maps of members
	types managedfields.TypeConverter

	// fill fills in the defaults of a custom resource, which depend on nothing but the place;
	// nil for built-in kinds.
	fill func(u *unstructured.Unstructured) error

	version, subresource string
	// ignored are the members that a write to the target does not set, ignoredMeta those of
	// metadata.
	ignored, ignoredMeta map[string]bool

	unused sync.Pool    // of *creations
	used   atomic.Int64 // when it was last, in ns
}

// empty returns the object before its creation.
func (f *fieldManager) empty() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: k8sruntime.DeepCopyJSON(f.blank)}
}

// New implements runtime.ObjectCreater, for its own kind.
func (f *fieldManager) New(k8sschema.GroupVersionKind) (k8sruntime.Object, error) {
	return f.empty(), nil
}

// update records in u, which replaces old, what manager has changed. If that cannot be found
// out, as of a value that does not fit its schema, which validation refuses afterwards, it
// keeps what was recorded in old (managedfields UpdateNoErrors).
func (f *fieldManager) update(old, u *unstructured.Unstructured, manager string) {
	if _, err := f.Update(old, u, manager); err != nil {
		u.SetManagedFields(old.GetManagedFields())
	}
}

func (f *fieldManager) apply(old *unstructured.Unstructured, c Configuration) (*unstructured.Unstructured, error) {
	applied, err := f.Apply(old, c.Object.DeepCopy(), c.Manager, c.Force)
	if err != nil {
		return nil, refused(err)
	}
	u, is := applied.(*unstructured.Unstructured)
	if !is {
		return nil, wire.Internal(fmt.Errorf("an applied object is a %T", applied))
	}
	return u, nil
}

// refused is the answer to a configuration that could not be applied.
func refused(err error) error {
	if status, is := errors.AsType[*apierrors.StatusError](err); is {
		return &wire.StatusError{ErrStatus: status.Status()}
	}
	return wire.Unknown(err)
}

// of returns the field manager of a target.
func (m *Managers) of(t kinds.Target) (*fieldManager, error) {
	at := path{resource: t.Resource, subresource: t.Subresource}
	if known, is := m.byPath.Load(at); is {
		f := known.(*fieldManager)
		if t.Resource.Custom {
			f.used.Store(time.Now().UnixNano())
		}
		return f, nil
	}
	f, err := m.build(t)
	if err != nil {
		return nil, wire.Internal(err)
	}
	f.used.Store(time.Now().UnixNano())
	if _, raced := m.byPath.LoadOrStore(at, f); !raced && t.Resource.Custom {
		time.AfterFunc(keepFor, func() { m.expire(at, f) })
	}
	return f, nil
}

// expire drops a field manager when it was not used for keepFor, or is called again.
func (m *Managers) expire(at path, f *fieldManager) {
	if left := keepFor - time.Since(time.Unix(0, f.used.Load())); left > 0 {
		time.AfterFunc(left, func() { m.expire(at, f) })
		return
	}
	m.byPath.CompareAndDelete(at, f)
}

func (m *Managers) build(t kinds.Target) (*fieldManager, error) {
	f := &fieldManager{blank: map[string]any{}, version: t.Resource.APIVersion(), subresource: t.Subresource}
	f.ignore(t)
	if t.Resource.GoType != nil {
		var err error
		if f.blank, err = k8sruntime.DefaultUnstructuredConverter.ToUnstructured(
			reflect.New(t.Resource.GoType).Interface()); err != nil {
			return nil, fmt.Errorf("an empty %s: %w", t.Resource.Kind, err)
		}
	}
	f.blank["apiVersion"], f.blank["kind"] = f.version, t.Resource.Kind
	converter, err := m.typesOf(t.Resource)
	if err != nil {
		return nil, err
	}
	f.types = converter
	kind := t.Resource.GVK()
	if known, is := converter.(types); is {
		if typ, is := known[kind]; is {
			f.typ, f.root = &typ, shapeOf(&typ)
		}
	}
	build := managedfields.NewDefaultFieldManager
	if t.Resource.Custom {
		if t.Resource.Type != nil {
			f.fill = t.Resource.Type.Default
		}
		build = managedfields.NewDefaultCRDFieldManager
	}
	f.FieldManager, err = build(converter, versions{live: m.live, convert: m.convert, custom: t.Resource.Custom}, defaults{}, f,
		kind, kind.GroupVersion(), t.Subresource, f.reset())
	return f, err
}

// ignore notes the fields that a target does not write, so that nobody comes to manage them
// through it (upstream's rest.ResetFieldsStrategy of each kind).
func (f *fieldManager) ignore(t kinds.Target) {
	f.ignored, f.ignoredMeta = map[string]bool{}, map[string]bool{}
	r := t.Resource
	switch t.Subresource {
	case "status":
		f.ignored["spec"] = true
		if r.StatusAlone {
			f.ignored["metadata"] = true
			return
		}
		for _, name := range r.StatusKeeps {
			f.ignoredMeta[name] = true
		}
	case "":
		if r.HasStatus {
			f.ignored["status"] = true
		}
		if r.KeptPartsManaged {
			return
		}
		for _, name := range r.KeptParts {
			f.ignored[name] = true
		}
	}
}

// reset returns the ignored fields as upstream's library takes them.
func (f *fieldManager) reset() map[fieldpath.APIVersion]fieldpath.Filter {
	fields := fieldpath.NewSet()
	for name := range f.ignored {
		fields.Insert(fieldpath.MakePathOrDie(name))
	}
	for name := range f.ignoredMeta {
		fields.Insert(fieldpath.MakePathOrDie("metadata", name))
	}
	if fields.Empty() {
		return nil
	}
	return fieldpath.NewExcludeFilterSetMap(map[fieldpath.APIVersion]*fieldpath.Set{
		fieldpath.APIVersion(f.version): fields,
	})
}

// OnlyTimes reports whether two managedFields, as decoded JSON, differ in nothing but the
// times of their entries, and at least in one.
func OnlyTimes(a, b any) bool {
	first, is := a.([]any)
	second, also := b.([]any)
	if !is || !also || len(first) != len(second) {
		return false
	}
	differ := false
	for i := range first {
		one, is := first[i].(map[string]any)
		other, also := second[i].(map[string]any)
		if !is || !also || len(one) != len(other) {
			return false
		}
		for name, value := range one {
			if same := jsontree.Equal(value, other[name]); !same && name != "time" {
				return false
			} else if !same {
				differ = true
			}
		}
	}
	return differ
}
