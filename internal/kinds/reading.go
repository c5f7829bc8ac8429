package kinds

import (
	"github.com/gapless-io/gapless/internal/wire"
)

// Reading is what a definition makes of the objects that are stored in one version, when they are
// read: their read form. As upstream does when it reads from etcd, it prunes what the schema of
// the version does not know, and fills in its defaults, also those of the status, which a creation
// does not store. Most objects are in that form as they are stored.
//
// The read form of an object is made when it is first asked for, and kept with the object: all
// readers share it, and an edit of a definition costs nothing until an object is read. A Reading
// is immutable and safe for concurrent use.
type Reading struct {
	// APIVersion is the version in which the objects are stored.
	APIVersion string
	// Schema identifies the schema: Readings with equal ones make the same of an object.
	Schema string
	// Selectable returns a text that is equal for schemas that make the same of the selectable
	// fields of an object.
	Selectable func() string

	read func(o *wire.Object) *wire.Object
	same *wire.Memo // of objects that are in the read form
}

// NewReading returns a Reading that makes read forms by read, which returns an object that is in
// its read form.
func NewReading(apiVersion, schema string, read func(o *wire.Object) *wire.Object) *Reading {
	r := &Reading{APIVersion: apiVersion, Schema: schema, read: read}
	r.same = &wire.Memo{By: r}
	return r
}

// Of returns the read form of an object: the object itself if it is in that form. Of an object
// that another Reading has made, it is the read form of the stored object.
func (r *Reading) Of(o *wire.Object) *wire.Object {
	m := o.Memo()
	switch {
	case m == r.same:
		return o
	case m == nil:
	case m.By == any(r) && m.Object != nil:
		return m.Object
	case m.By == any(r):
		return o
	case m.Source != nil:
		return r.Of(m.Source)
	}
	is := r.same
	if form := r.read(o); form != o {
		form.Remember(nil, &wire.Memo{By: r, Source: o})
		is = &wire.Memo{By: r, Object: form}
	}
	// Several readers may have made it at once: all return what one of them has made.
	switch now := o.Remember(m, is); {
	case now.By == any(r) && now.Object != nil:
		return now.Object
	case now.By != any(r) && is.Object != nil:
		return is.Object // the definition changes
	}
	return o
}

// Readings are those of all versions of a definition.
type Readings []*Reading

// Of returns the read form of an object, which stays in its version. An object in a version that
// the definition does not have is returned as it is.
func (all Readings) Of(o *wire.Object) *wire.Object {
	for _, r := range all {
		if r.APIVersion == o.APIVersion() {
			return r.Of(o)
		}
	}
	return o
}

// SelectAs reports whether the selectable fields of objects are as the former state of a definition
// had them.
func (all Readings) SelectAs(former Readings) bool {
	for _, r := range all {
		for _, was := range former {
			if r != was && was.APIVersion == r.APIVersion && was.Schema != r.Schema && was.Selectable() != r.Selectable() {
				return false
			}
		}
	}
	return true
}

// Inherit takes over the Readings of the former state of a definition, for the versions whose
// schemas are as they were: what they have made remains in use.
func (all Readings) Inherit(former Readings) {
	for i, r := range all {
		for _, was := range former {
			if was.APIVersion == r.APIVersion && was.Schema == r.Schema {
				all[i] = was
			}
		}
	}
}
