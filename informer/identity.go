package informer

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer/internal/identity"
)

// Identity identifies what a source reads. Two sources whose identities are equal, by
// ==, read the same objects and store them alike, so one informer can serve both. The
// reverse does not hold: functions cannot be compared, so a source with a Transform, or
// by From, has an identity that it shares only with its copies.
type Identity struct {
	server  identity.Server
	objects string       // which objects
	form    reflect.Type // T
	encoded bool
	own     *byte // distinguishes sources with functions; nil: there are none

	// These distinguish the snapshot files of different sources.
	home    string // the server
	altered int    // how often a function was added
}

// Identity returns the source's identity.
func (s Source[T]) Identity() Identity { return s.identity }

// identityOf returns the identity of a source by For.
func identityOf[T Object](cfg *rest.Config, gvr schema.GroupVersionResource, o sourceOptions) Identity {
	shard := ""
	if o.shard != nil {
		shard = o.shard.String()
	}
	objects := fmt.Sprintf("%q %q %q %q %q %t %t", client.Collection{GroupVersionResource: gvr}.Path(), o.namespaces,
		o.narrow.LabelSelector, o.narrow.FieldSelector, shard, o.strip, o.metadata)
	return Identity{server: identity.Of(cfg), objects: objects, form: reflect.TypeFor[T](), home: identity.Home(cfg)}
}

// altered returns the identity of a source that passes the objects of i to a function.
func altered[T Object](i Identity) Identity {
	i.form, i.own = reflect.TypeFor[T](), new(byte)
	i.altered++
	return i
}

// SameOptions reports whether options configure an informer alike. Functions cannot be
// compared: options with OnError or Metrics are different from all others.
func SameOptions(a, b []Option) bool {
	var x, y options
	for _, opt := range a {
		opt(&x)
	}
	for _, opt := range b {
		opt(&y)
	}
	return sameSetting(reflect.ValueOf(x), reflect.ValueOf(y))
}

// sameSetting reports whether two settings of one type are the same. Functions, maps and channels
// cannot be compared: they are the same only where both are nil.
func sameSetting(a, b reflect.Value) bool {
	switch a.Kind() { //nolint:exhaustive // what is left is compared by ==, or not at all
	case reflect.Func, reflect.Map, reflect.Chan:
		return a.IsNil() && b.IsNil()
	case reflect.Struct:
		for i := range a.NumField() {
			if !sameSetting(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !sameSetting(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	}
	return a.Comparable() && b.Comparable() && a.Equal(b)
}
