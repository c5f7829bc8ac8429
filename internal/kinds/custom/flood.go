package custom

import (
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// smallPart is how many values a part may have that is validated as a whole: if each
	// has an error, that takes some 10 ms.
	smallPart = 1000
	// floodedFrom is how many errors are enough: wire.Invalid shows that many.
	floodedFrom = 100
)

// flood validates an object part by part. Upstream's validator compares each error with
// all former ones: an object of 3 MiB can have a million, which takes it days. So an
// object with many errors in its parts is never validated as a whole.
//
// Parts that are unchanged are left out, since ratcheting may allow their errors. An
// update that moves more than a hundred invalid parts to other indexes is refused, where
// upstream allows it.
type flood struct {
	errs field.ErrorList
}

// flooded returns a hundred errors or more of an object that has so many, otherwise
// nil. old is nil for a creation.
func flooded(props *apiextensions.JSONSchemaProps, object, old any) (field.ErrorList, error) {
	var f flood
	if err := f.walk(nil, props, pair{object, old}); err != nil || !f.full() {
		return nil, err
	}
	return f.errs, nil
}

func (f *flood) full() bool { return len(f.errs) >= floodedFrom }

// pair is a value and its former value, nil if it had none.
type pair struct{ is, was any }

// walk descends into a value as far as it is large.
func (f *flood) walk(at *field.Path, props *apiextensions.JSONSchemaProps, p pair) error {
	if !larger(p.is, smallPart) {
		return nil
	}
	switch is := p.is.(type) {
	case map[string]any:
		was, _ := p.was.(map[string]any)
		var others part
		if props.AdditionalProperties != nil {
			others.props = props.AdditionalProperties.Schema
		}
		for name, value := range is {
			next := &others
			if property, found := props.Properties[name]; found {
				next = &part{props: &property}
			}
			if err := f.look(at.Child(name), next, pair{value, was[name]}); err != nil || f.full() {
				return err
			}
		}
	case []any:
		was, _ := p.was.([]any)
		var items part
		if props.Items != nil {
			items.props = props.Items.Schema
		}
		for i, value := range is {
			item := pair{is: value}
			if i < len(was) {
				item.was = was[i]
			}
			if err := f.look(at.Index(i), &items, item); err != nil || f.full() {
				return err
			}
		}
	}
	return nil
}

// part is the schema of parts, nil when there is none, with its validator
// once that is needed.
type part struct {
	props     *apiextensions.JSONSchemaProps
	validator validation.SchemaValidator
}

// look adds the errors of one part.
func (f *flood) look(at *field.Path, of *part, p pair) error {
	if of.props == nil {
		return nil
	}
	if larger(p.is, smallPart) {
		return f.walk(at, of.props, p)
	}
	if p.was != nil && equality.Semantic.DeepEqual(p.is, p.was) {
		return nil
	}
	if of.validator == nil {
		var err error
		if of.validator, _, err = validation.NewSchemaValidator(of.props); err != nil {
			return err
		}
	}
	f.errs = append(f.errs, validation.ValidateCustomResource(at, p.is, of.validator)...)
	return nil
}

// larger reports whether a value contains more than so many values.
func larger(value any, than int) bool { return left(value, than) < 0 }

// left returns how many of n are left when the values in value are taken away, and
// a negative number as soon as there are more.
func left(value any, n int) int {
	switch v := value.(type) {
	case map[string]any:
		n -= len(v)
		for _, item := range v {
			if n < 0 {
				return n
			}
			n = left(item, n)
		}
	case []any:
		n -= len(v)
		for _, item := range v {
			if n < 0 {
				return n
			}
			n = left(item, n)
		}
	}
	return n
}
