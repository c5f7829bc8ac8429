package layout

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/jsontree"
	"github.com/gapless-io/gapless/internal/wire"
)

// codec converts the values of a built-in resource.
type codec struct {
	resource *kinds.Resource
	// encode makes the value in etcd of one in the store.
	encode func(value []byte) ([]byte, error)
	// versions are the ones that can be read. The key is apiVersion and kind.
	versions map[typeMeta]version
	// standard is the version that kube-apiserver writes.
	standard typeMeta
	// keep gives a value in etcd what the one before has and values in the store do not show; nil: they show all.
	keep   func(now, before []byte) ([]byte, error)
	finish func(content map[string]any, fill func()) // see finishing
}

type typeMeta struct{ apiVersion, kind string }

// version reads a version of a kind.
type version struct {
	// fromProtobuf and fromJSON make a tree in this version; fromProtobuf is nil for a kind that is stored in
	// JSON only.
	fromProtobuf, fromJSON func(data []byte) (map[string]any, error)
	// appendProtobuf is kinds.Resource.AppendProtobuf; nil if there is none, or the codec's finish adds to it.
	appendProtobuf func(b, message []byte) ([]byte, bool)
	// convert makes of it one in the version of the resource; nil: it is in that already.
	convert func(content map[string]any) (map[string]any, error)
}

// Encode returns what kube-apiserver would have in etcd for a value of the store: the protobuf envelope with
// its storage version for built-in kinds, JSON for definitions and custom resources. before returns the value in etcd
// that this one replaces, nil if that is not known; it is nil for a creation, and called only for kinds that
// have fields there which the version served does not have. It does not keep value. Errors: *ValueError, *KeyError,
// those of before.
func (l *Layout) Encode(key string, value []byte, before func() ([]byte, error)) ([]byte, error) {
	name, _, _ := strings.Cut(key, "/")
	b := l.byName[name]
	if b == nil {
		if plural, group, found := strings.Cut(name, "."); !found || !custom(group, plural) {
			return nil, &KeyError{Key: key}
		}
		// Upstream's encoder sorts all members and ends the line; the members are the same.
		return append(bytes.Clone(value), '\n'), nil
	}
	stored, err := b.codec.encode(value)
	if err != nil {
		return nil, &ValueError{Key: key, Err: err}
	}
	if b.codec.keep == nil || before == nil {
		return stored, nil
	}
	was, err := before()
	if err != nil || was == nil {
		return stored, err
	}
	if stored, err = b.codec.keep(stored, was); err != nil {
		return nil, &ValueError{Key: key, Err: err}
	}
	return stored, nil
}

// Decode is AppendDecoded to nothing.
func (l *Layout) Decode(key string, stored []byte) ([]byte, error) {
	return l.AppendDecoded(nil, key, stored)
}

// AppendDecoded appends to b the value of the store for one that kube-apiserver has in etcd: protobuf or JSON, in any
// version that can be converted to that in which this server stores the resource, with the defaults that
// kube-apiserver fills in when it reads it. It does not keep stored. Errors: *ValueError, *KeyError; b may have been
// written to then.
func (l *Layout) AppendDecoded(b []byte, key string, stored []byte) ([]byte, error) {
	name, _, _ := strings.Cut(key, "/")
	var content map[string]any
	var err error
	if known := l.byName[name]; known != nil {
		if value, ok := known.codec.appendPlain(b, stored); ok {
			return value, nil
		}
		content, err = known.codec.decode(stored)
	} else {
		plural, group, found := strings.Cut(name, ".")
		if !found || !custom(group, plural) {
			return nil, &KeyError{Key: key}
		}
		content, err = l.decodeCustom(kinds.GroupResource{Group: group, Resource: plural}, stored)
	}
	if err != nil {
		return nil, &ValueError{Key: key, Err: err}
	}
	if metadata, is := content["metadata"].(map[string]any); is {
		delete(metadata, "selfLink") // of releases before 1.20
	}
	value, err := wire.Canonical(content)
	if err != nil {
		return nil, &ValueError{Key: key, Err: err}
	}
	if b == nil {
		return value, nil
	}
	return append(b, value...), nil
}

// decodeCustom reads an object of a custom resource, in the version in which it is. Its definition may not be
// in force yet.
func (l *Layout) decodeCustom(gr kinds.GroupResource, stored []byte) (map[string]any, error) {
	switch formOf(stored) {
	case jsonForm:
	case encryptedForm:
		return nil, ErrEncrypted
	case cborForm:
		return nil, ErrCBOR
	case protobufForm, unknownForm:
		return nil, ErrCorrupt
	}
	content, err := jsontree.Decode(stored)
	if err != nil {
		return nil, fmt.Errorf("read JSON: %w", err)
	}
	apiVersion, _ := content["apiVersion"].(string)
	kind, _ := content["kind"].(string)
	want := kind
	if r, defined := l.live.Load().Storage(gr); defined {
		want = r.Kind
	}
	if group, _, _ := strings.Cut(apiVersion, "/"); group != gr.Group || kind == "" || kind != want {
		return nil, &VersionError{APIVersion: apiVersion, Kind: kind, Want: cmp.Or(want, gr.String())}
	}
	return content, nil
}

// Stale reports whether a value in etcd is of another version than the one that is written now. That of a custom
// resource is a part of the value in the store, so that a write of another one is a change. Errors: *ValueError.
func (l *Layout) Stale(key string, stored []byte) (bool, error) {
	name, _, _ := strings.Cut(key, "/")
	b := l.byName[name]
	if b == nil {
		return false, nil
	}
	is, _, err := b.codec.head(stored)
	if err != nil {
		return false, &ValueError{Key: key, Err: err}
	}
	return is != b.codec.standard, nil
}

// head returns the version of a value of a built-in resource, and its envelope if it is in protobuf.
func (c *codec) head(stored []byte) (is typeMeta, e envelope, err error) {
	switch formOf(stored) {
	case protobufForm:
		if e, err = open(stored); err == nil {
			is = c.typeMeta(e)
		}
	case jsonForm:
		apiVersion, kind, wrong := kinds.Head(stored)
		if wrong != nil {
			return is, e, fmt.Errorf("read JSON: %w", wrong)
		}
		is = typeMeta{apiVersion, kind}
	case encryptedForm:
		err = ErrEncrypted
	case cborForm:
		err = ErrCBOR
	case unknownForm:
		err = ErrCorrupt
	}
	return is, e, err
}

// appendPlain is decode and wire.Canonical in one step, for a value that can be read without a tree. It returns false
// for any other.
func (c *codec) appendPlain(b, stored []byte) ([]byte, bool) {
	if formOf(stored) != protobufForm {
		return b, false
	}
	e, err := open(stored)
	if err != nil {
		return b, false
	}
	read := c.versions[c.typeMeta(e)].appendProtobuf
	if read == nil {
		return b, false
	}
	if b == nil {
		b = make([]byte, 0, len(stored)+len(stored)/4) // JSON takes a little more
	}
	return read(b, e.message)
}

// decode reads a value of a built-in resource.
func (c *codec) decode(stored []byte) (map[string]any, error) {
	is, e, err := c.head(stored)
	if err != nil {
		return nil, err
	}
	v, known := c.versions[is]
	if !known {
		return nil, &VersionError{APIVersion: is.apiVersion, Kind: is.kind, Want: c.resource.Kind}
	}
	var content map[string]any
	switch {
	case formOf(stored) == jsonForm:
		content, err = v.fromJSON(stored)
	case v.fromProtobuf == nil:
		err = ErrCorrupt // kube-apiserver has it in JSON
	default:
		content, err = v.fromProtobuf(e.message)
	}
	if err == nil && v.convert != nil {
		content, err = v.convert(content)
	}
	if err != nil {
		return nil, err
	}
	c.finish(content, func() { err = c.resource.Type.Default(&unstructured.Unstructured{Object: content}) })
	return content, err
}

// typeMeta returns what an envelope says about its object. One that says nothing holds the standard version.
func (c *codec) typeMeta(e envelope) typeMeta {
	if len(e.apiVersion) == 0 && len(e.kind) == 0 ||
		string(e.apiVersion) == c.standard.apiVersion && string(e.kind) == c.standard.kind {
		return c.standard
	}
	return typeMeta{string(e.apiVersion), string(e.kind)}
}
