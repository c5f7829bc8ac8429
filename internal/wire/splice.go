package wire

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/gapless-io/gapless/internal/wire/texts"
	"github.com/gapless-io/gapless/kube"
	"github.com/gapless-io/gapless/kube/scan"
)

// Value returns the stored form: the object without metadata.resourceVersion. The
// bytes are the caller's.
func (o *Object) Value() []byte {
	parts := append(make([][]byte, 0, 2*mostShared+2), o.raw[:o.at.cut])
	return slices.Concat(o.partsFrom(o.at.cutEnd, parts)...)
}

// WithResourceVersion returns the object at rv: its bytes with another number in
// them. Everything that was read from it is shared. An object without metadata
// cannot carry a number; only the result's ResourceVersion changes then.
func (o *Object) WithResourceVersion(rv kube.ResourceVersion) *Object {
	stamped := o.copied()
	stamped.stamp(rv, false)
	return stamped
}

// stamp puts rv into a fresh copy of the bytes, or into the bytes if they are its own.
func (o *Object) stamp(rv kube.ResourceVersion, own bool) {
	o.rv = rv
	if o.at.metadata == 0 {
		return
	}
	var buf [64]byte
	if o.at.cutEnd > 0 {
		b := strconv.AppendUint(buf[:0], uint64(rv), 10)
		o.splice(o.at.rv, o.at.rvEnd, b, own)
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
	o.splice(at, at, b, own)
	o.at.bareMetadata = false
	o.at.rv = at + len(member)
	o.at.rvEnd = o.at.rv + digits
	o.at.cut, o.at.cutEnd = at, at+len(b)
}

// WithAPIVersion returns the object in another served version: "apps/v1" for
// apiVersion, everything else unchanged.
func (o *Object) WithAPIVersion(apiVersion string) *Object {
	if apiVersion == o.apiVersion && o.at.apiVersionEnd > 0 {
		return o
	}
	quoted := AppendString(nil, apiVersion)
	text := quoted[1 : len(quoted)-1]
	other := o.copied()
	other.apiVersion = apiVersion
	if o.at.apiVersionEnd > 0 {
		other.splice(o.at.apiVersion, o.at.apiVersionEnd, text, false)
		other.at.apiVersion, other.at.apiVersionEnd = o.at.apiVersion, o.at.apiVersion+len(text)
		return other
	}
	const member = `"apiVersion":`
	b := append([]byte(member), quoted...)
	if !o.empty() {
		b = append(b, ',')
	}
	other.splice(1, 1, b, false)
	other.at.apiVersion = 1 + len(member) + 1
	other.at.apiVersionEnd = other.at.apiVersion + len(text)
	return other
}

// Untyped returns the object without its apiVersion and kind, and without the brace
// that opens it: "{" + Untyped is JSON. Items of lists of built-in kinds are written
// so. The bytes are shared if these are the first members, as gapless and kube-apiserver write them.
func (o *Object) Untyped() []byte {
	if from := o.untypedFrom(); from > 0 {
		return o.JSON()[from:]
	}
	return o.untyped()
}

// untypedFrom returns where the bytes begin that follow apiVersion and kind; 0 if these
// are not the first members. gapless writes the apiVersion first, and kube-apiserver the kind, as
// the objects of its watches are in a mirror.
func (o *Object) untypedFrom() int {
	const (
		versionFirst, thenKind = `{"apiVersion":"`, `","kind":"`
		kindFirst, thenVersion = `{"kind":"`, `","apiVersion":"`
	)
	var rest []byte // behind the closing quote of the second of them
	switch o.at.apiVersion {
	case len(versionFirst):
		after, found := bytes.CutPrefix(o.raw[o.at.apiVersionEnd:], []byte(thenKind))
		end := len(o.kind)
		if !found || len(after) <= end || string(after[:end]) != o.kind || after[end] != '"' {
			return 0
		}
		rest = after[end+1:]
	case len(kindFirst) + len(o.kind) + len(thenVersion):
		begin := o.raw[:o.at.apiVersion]
		if !bytes.HasPrefix(begin, []byte(kindFirst)) || !bytes.HasSuffix(begin, []byte(thenVersion)) ||
			string(begin[len(kindFirst):len(kindFirst)+len(o.kind)]) != o.kind {
			return 0
		}
		rest = o.raw[o.at.apiVersionEnd+1:]
	default:
		return 0
	}
	return len(o.raw) - len(bytes.TrimPrefix(rest, []byte{','}))
}

// Content returns the bytes that follow the metadata: the other members, each after a comma, and the
// brace that closes the object. It returns nil for an object that is not in the stored form. The
// bytes are shared, also those of an object that shares texts.
func (o *Object) Content() []byte {
	const metadata = `"metadata":{`
	if from := o.untypedFrom(); from == 0 || o.at.metadata != from+len(metadata) {
		return nil
	}
	return o.raw[o.metadataEnd():]
}

// untyped is Untyped of an object that has these members anywhere: it leaves them out, and decodes
// nothing.
func (o *Object) untyped() []byte {
	s := newScanner(o.JSON())
	out := make([]byte, 0, len(s.Data))
	more, err := s.Enter('}')
	for more && err == nil {
		s.Peek()
		begin := s.Pos
		var key scan.Token
		if key, err = s.Key(); err != nil {
			break
		}
		name := s.value(key)
		if _, err = s.Skip(); err != nil {
			break
		}
		if n := string(name); n != "apiVersion" && n != "kind" {
			if len(out) > 0 {
				out = append(out, ',')
			}
			out = append(out, s.Data[begin:s.Pos]...)
		}
		more, err = s.Next('}')
	}
	if err != nil {
		return s.Data[1:] // cannot be: it was parsed
	}
	return append(out, '}')
}

// WithContent returns the object with other content, as another version shows it.
// Its key, version, labels and selectable fields do not change. Errors: those of
// Canonical, and *DecodeError.
func (o *Object) WithContent(tree map[string]any) (*Object, error) {
	raw, err := Canonical(tree)
	if err != nil {
		return nil, err
	}
	other, err := parse(raw, nil)
	if err != nil {
		return nil, err
	}
	o = o.read()
	other.paths, other.values = o.paths, o.values
	if o.rv != 0 {
		other.stamp(o.rv, false) // Canonical leaves it out
	}
	return other, nil
}

// WithValue returns the object with another stored form, which Canonical has made, under its
// resourceVersion. Its labels and selectable fields are read again, and it shares the texts that
// the object shares. Errors: *DecodeError.
func (o *Object) WithValue(value []byte) (*Object, error) {
	other, err := parse(value, o.paths)
	if err != nil {
		return nil, err
	}
	if o.rv != 0 {
		other.stamp(o.rv, false)
	}
	if len(o.shared) == 0 {
		return other, nil
	}
	raw, shared := other.split(func(text []byte) *texts.Text {
		for _, s := range o.shared {
			if bytes.Equal(s.Bytes, text) {
				return s.Text
			}
		}
		return nil
	}, 0)
	if shared != nil {
		other.raw, other.shared = raw, shared
	}
	return other, nil
}

// empty says that the object is {}.
func (o *Object) empty() bool {
	inside := scan.Scanner{Data: o.raw, Pos: 1}
	return inside.Peek() == '}'
}

// splice replaces raw[from:to], in a fresh copy of the bytes unless they are its own, and moves
// the offsets that lie behind. The caller sets those that lie at the place itself. Everything
// that is shared lies behind the place.
func (o *Object) splice(from, to int, b []byte, own bool) {
	by := len(b) - (to - from)
	if o.at.metadata > 0 && from >= o.metadataEnd() {
		o.at.after += by
	}
	if own {
		o.raw = slices.Replace(o.raw, from, to, b...)
	} else {
		o.raw = slices.Concat(o.raw[:from], b, o.raw[to:])
	}
	for _, at := range []*int{
		&o.at.apiVersion, &o.at.apiVersionEnd, &o.at.metadata,
		&o.at.rv, &o.at.rvEnd, &o.at.cut, &o.at.cutEnd, &o.at.managed,
	} {
		if *at > from && *at >= to {
			*at += by
		}
	}
}
