package gokind

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/tree"
	"github.com/gapless-io/gapless/internal/wire"
)

// View converts between a resource and another one that stores its objects. See
// [kinds.Conversion] about the fields.
type View struct {
	Show, Store            func(tree.Object) tree.Object
	Fields                 map[string]string
	SpecNotes, StatusNotes []string
}

// normal is content as the Go struct of the kind has it: without members that it
// does not know, and with those that it always writes. Content that does not fit is
// returned as it is, for Validate to refuse.
func (t *goType[T, P]) normal(content tree.Object) tree.Object {
	obj, err := t.typed(&unstructured.Unstructured{Object: content})
	if err != nil {
		return content
	}
	normal, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return content
	}
	return normal
}

// normalizer is a goType of any kind.
type normalizer interface {
	kinds.Type
	normal(content tree.Object) tree.Object
}

// viewType is a kind whose objects are stored as those of another kind: they must
// be valid there too.
type viewType struct {
	normalizer

	stored kinds.Type
	store  func(tree.Object) tree.Object
}

// Validate applies the rules of both kinds.
func (t viewType) Validate(u, old *unstructured.Unstructured) (field.ErrorList, []string) {
	errs, warnings := t.normalizer.Validate(u, old)
	if len(errs) > 0 {
		return errs, nil // the stored form would give other errors
	}
	errs, more := t.stored.Validate(t.kept(u), t.kept(old))
	return errs, append(warnings, more...)
}

// kept returns an object in its stored form; nil if there is none.
func (t viewType) kept(u *unstructured.Unstructured) *unstructured.Unstructured {
	if u == nil {
		return nil
	}
	return &unstructured.Unstructured{Object: t.store(u.Object)}
}

// ViewOf makes r show the objects of another resource.
func ViewOf(stored, r *kinds.Resource, v View) *kinds.Resource {
	shown, shows := r.Type.(normalizer)
	kept, keeps := stored.Type.(normalizer)
	if !shows || !keeps {
		return r // a catalog's mistake, which a test finds
	}
	store := func(content tree.Object) tree.Object {
		bare := content["spec"] == nil // a bookmark, or a kind without one: there is nothing to complete
		content = v.Store(content)
		content["apiVersion"] = stored.APIVersion()
		u := &unstructured.Unstructured{Object: kept.normal(content)}
		if bare {
			return u.Object
		}
		if stored.Type.Default(u) != nil {
			return content // for Validate to refuse
		}
		return u.Object
	}
	typ := viewType{normalizer: shown, stored: stored.Type, store: store}
	r.Type = typ
	if check := stored.CheckStatus; check != nil {
		r.CheckStatus = func(u, old *unstructured.Unstructured) (field.ErrorList, []string) {
			return check(typ.kept(u), typ.kept(old))
		}
	}
	r.StorageVersion = ""
	r.Conversion = &kinds.Conversion{
		Of: stored, Store: store, Fields: v.Fields, SpecNotes: v.SpecNotes, StatusNotes: v.StatusNotes,
		Show: func(content tree.Object) tree.Object { return shown.normal(v.Show(content)) },
	}
	r.Columns = stored.Columns
	r.Row = func(o *wire.Object) []any {
		return stored.Row(kinds.Converted(o, store))
	}
	return r
}
