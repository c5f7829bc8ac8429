package kinds

import (
	"github.com/gapless-io/gapless/internal/kinds/jsontree"
	"github.com/gapless-io/gapless/internal/wire"
)

// Conversion makes a resource a view of the objects of another one, which stores them: the
// events of events.k8s.io are those of the core group, and autoscaling/v1 is a view of
// autoscaling/v2. A write through one is visible in both, in lists and watches.
type Conversion struct {
	// Of is the resource that stores the objects, in the version in which it stores them.
	Of *Resource
	// Show converts stored content to this version, and Store converts it back. The result
	// may share parts with the argument, which they do not change.
	Show, Store func(content map[string]any) map[string]any
	// Fields maps the selectable fields that have another label in Of.
	Fields map[string]string
	// SpecNotes and StatusNotes are annotations that say what the fields of the spec and of the
	// status cannot: who may not write the one part does not write its annotations.
	SpecNotes, StatusNotes []string
}

// Versions are two versions of a resource, which may be in different groups.
type Versions struct{ From, To *Resource }

// Home returns the resource that stores the objects: the resource itself, unless it is a
// view of another one.
func (r *Resource) Home() *Resource {
	if r.Conversion != nil {
		return r.Conversion.Of
	}
	return r
}

// Show returns the read form of an object in this version.
func (r *Resource) Show(o *wire.Object) *wire.Object {
	shown := o.WithAPIVersion(r.APIVersion())
	if r.Conversion == nil {
		return shown
	}
	return Converted(shown, r.Conversion.Show)
}

// Shows returns Show for many objects.
func (r *Resource) Shows() func(*wire.Object) *wire.Object {
	if r.Conversion != nil {
		return r.Show
	}
	version := r.APIVersion() // made of two strings each time
	return func(o *wire.Object) *wire.Object { return o.WithAPIVersion(version) }
}

// Converted returns an object with its content converted by convert.
func Converted(o *wire.Object, convert func(content map[string]any) map[string]any) *wire.Object {
	content, err := jsontree.Decode(o.JSON())
	if err != nil {
		return o // it cannot fail: stored content was decoded before
	}
	converted, err := o.WithContent(convert(content))
	if err != nil {
		return o // as above
	}
	return converted
}

// Store converts content of this version to the stored form, except apiVersion.
func (r *Resource) Store(content map[string]any) map[string]any {
	if r.Conversion == nil {
		return content
	}
	return r.Conversion.Store(content)
}

// StoredField returns the label that a selectable field has in the stored objects.
func (r *Resource) StoredField(label string) string {
	if r.Conversion != nil {
		if stored, is := r.Conversion.Fields[label]; is {
			return stored
		}
	}
	if of := r.FieldAliases[label]; of != "" {
		return of
	}
	return label
}
