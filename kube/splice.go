package kube

import (
	"slices"
	"strconv"
)

// Value returns the stored form: the object without metadata.resourceVersion. The
// bytes are the caller's.
func (o *Object) Value() []byte {
	return slices.Concat(o.raw[:o.at.cut], o.raw[o.at.cutEnd:])
}

// WithResourceVersion returns the object at rv: its bytes with another number in
// them. Everything that was read from it is shared. An object without metadata
// cannot carry a number; only the result's ResourceVersion changes then.
func (o *Object) WithResourceVersion(rv ResourceVersion) *Object {
	stamped := *o
	stamped.stamp(rv)
	return &stamped
}

// stamp puts rv into a fresh copy of the bytes.
func (o *Object) stamp(rv ResourceVersion) {
	o.rv = rv
	if o.at.metadata == 0 {
		return
	}
	var buf [64]byte
	if o.at.cutEnd > 0 {
		b := strconv.AppendUint(buf[:0], uint64(rv), 10)
		o.splice(o.at.rv, o.at.rvEnd, b)
		o.at.rvEnd = o.at.rv + len(b)
		return
	}
	const member = `"resourceVersion":"`
	b := append(buf[:0], member...)
	b = strconv.AppendUint(b, uint64(rv), 10)
	digits := len(b) - len(member)
	b = append(b, '"')
	if !o.at.bareMetadata {
		b = append(b, ',')
	}
	at := o.at.metadata
	o.splice(at, at, b)
	o.at.bareMetadata = false
	o.at.rv = at + len(member)
	o.at.rvEnd = o.at.rv + digits
	o.at.cut, o.at.cutEnd = at, at+len(b)
}

// WithAPIVersion returns the object as another served version shows it:
// "apps/v1" for apiVersion, everything else as it is.
func (o *Object) WithAPIVersion(apiVersion string) *Object {
	if apiVersion == o.apiVersion && o.at.apiVersionEnd > 0 {
		return o
	}
	quoted := appendString(nil, apiVersion)
	text := quoted[1 : len(quoted)-1]
	other := *o
	other.apiVersion = apiVersion
	if o.at.apiVersionEnd > 0 {
		other.splice(o.at.apiVersion, o.at.apiVersionEnd, text)
		other.at.apiVersion, other.at.apiVersionEnd = o.at.apiVersion, o.at.apiVersion+len(text)
		return &other
	}
	const member = `"apiVersion":`
	b := append([]byte(member), quoted...)
	if !o.empty() {
		b = append(b, ',')
	}
	other.splice(1, 1, b)
	other.at.apiVersion = 1 + len(member) + 1
	other.at.apiVersionEnd = other.at.apiVersion + len(text)
	return &other
}

// empty says that the object is {}.
func (o *Object) empty() bool {
	inside := scanner{data: o.raw, pos: 1}
	return inside.peek() == '}'
}

// splice replaces raw[from:to] in a fresh copy of the bytes and moves the offsets
// that lie behind. The caller sets those that lie at the place itself.
func (o *Object) splice(from, to int, b []byte) {
	o.raw = slices.Concat(o.raw[:from], b, o.raw[to:])
	by := len(b) - (to - from)
	for _, at := range []*int{
		&o.at.apiVersion, &o.at.apiVersionEnd, &o.at.metadata,
		&o.at.rv, &o.at.rvEnd, &o.at.cut, &o.at.cutEnd,
	} {
		if *at > from && *at >= to {
			*at += by
		}
	}
}
