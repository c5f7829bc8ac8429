package custom

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/jsontree"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube/scan"
)

// readingOf returns what makes the read forms of the objects that are stored in a version. fields are
// the selectable fields of all versions.
func readingOf(r *kinds.Resource, fields func() []wire.FieldPath) *kinds.Reading {
	t := r.Type.(*customType) //nolint:forcetypeassert // this package has made it
	identity := digest(r.OpenAPI)
	if t.preserve {
		identity += " preserveUnknownFields"
	}
	reading := kinds.NewReading(r.APIVersion(), identity, t.read)
	reading.Selectable = func() string { return t.selectable(fields()) }
	return reading
}

// selectable returns what the schema says about the values on the way to each field: only that
// decides what is read there.
func (t *customType) selectable(fields []wire.FieldPath) string {
	if len(fields) == 0 {
		return "" // which compiles nothing
	}
	s, err := t.shapes.get()
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, field := range fields {
		at := s.structural
		for i, name := range field.Path {
			fmt.Fprintf(&b, "%d %q %t %t %v\n", i, name, at.Nullable, at.XPreserveUnknownFields, at.Default.Object)
			next, known := at.Properties[name]
			switch {
			case known:
				at = &next
			case at.AdditionalProperties != nil && at.AdditionalProperties.Structural != nil:
				at = at.AdditionalProperties.Structural
			default:
				at = &structuralschema.Structural{}
			}
			fmt.Fprintf(&b, "%t ", known)
		}
		fmt.Fprintf(&b, "%t %v\n", at.Nullable, at.Default.Object)
	}
	return b.String()
}

// digest returns a text that is another one for other bytes.
func digest(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }

// read returns the read form of a stored object of the version (apiextensions-apiserver
// customresource_handler.go crdConversionRESTOptionsGetter): the object itself if that is in it.
// Unlike upstream it leaves out defaults that would make more of the object than it may be, and
// returns an object that it cannot read as it is stored: a read cannot fail.
func (t *customType) read(o *wire.Object) *wire.Object {
	s, err := t.shapes.get()
	if err != nil || s.members.readForm(o.Content()) {
		return o
	}
	stored := o.Value()
	content, err := jsontree.Decode(stored)
	if err != nil {
		return o
	}
	u := &unstructured.Unstructured{Object: content}
	if _, err := t.coerce(u, fieldsStored); err != nil {
		return o
	}
	_ = t.Default(u) // which has changed nothing if it fails
	value, err := wire.Canonical(u.Object)
	if err != nil || bytes.Equal(value, stored) {
		return o
	}
	form, err := o.WithValue(value)
	if err != nil {
		return o
	}
	return form
}

// readForm reports whether a stored object with this content (wire.Object.Content) certainly is in
// its read form: whether clean is true and no default is missing. It decodes nothing.
func (m *members) readForm(content []byte) bool {
	switch s := (&scan.Scanner{Data: content, MaxDepth: kinds.MaxDepth}); {
	case m.embedded:
		return false
	case s.Peek() == '}':
		return m.defaults == 0
	case s.Peek() == ',':
		return m.eachMember(s) // the comma is as good as a brace
	}
	return false
}

// eachMember is readForm for an object that is next.
func (m *members) eachMember(s *scan.Scanner) bool {
	missing := m.defaults
	more, err := s.Enter('}')
	for more && err == nil {
		key, failed := s.Key()
		name := s.Data[key.Start:key.End]
		if failed != nil || !key.Plain || !m.readMember(s, name) {
			return false
		}
		if missing > 0 {
			if of := m.named[string(name)]; of != nil && of.defaulted {
				missing--
			}
		}
		more, err = s.Next('}')
	}
	return err == nil && missing == 0
}

func (m *members) readMember(s *scan.Scanner, name []byte) bool {
	of := m.named[string(name)]
	if of == nil {
		of = m.additional
	}
	if of == nil {
		_, err := s.Skip()
		return m.open && err == nil
	}
	return of.readValue(s)
}

func (m *members) readValue(s *scan.Scanner) bool {
	switch s.Peek() {
	case '{':
		return !m.embedded && m.eachMember(s)
	case '[':
		return m.readItems(s)
	case 'n':
		return false
	}
	_, err := s.Scalar()
	return err == nil
}

func (m *members) readItems(s *scan.Scanner) bool {
	if m.open {
		return false
	}
	items := m.items
	if items == nil {
		items = &members{}
	}
	more, err := s.Enter(']')
	for more && err == nil {
		if !items.readValue(s) {
			return false
		}
		more, err = s.Next(']')
	}
	return err == nil
}
