package informer

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer/internal/origin"
)

// Identity says what a source brings. Two sources whose identities are equal, by ==,
// bring the same objects and keep them alike: one informer does for both. The reverse
// does not hold: nobody can compare functions, so a source with a Transform, or by
// From, has an identity of its own, which it shares with its copies only.
type Identity struct {
	server  origin.Server
	objects string       // which of them
	form    reflect.Type // T
	encoded bool
	own     *byte // nil: all can be compared

	// What follows tells files of different sources apart, from one program to the next.
	home    string // where the server is
	altered int    // how often what cannot be compared was added
}

// Identity returns the source's identity.
func (s Source[T]) Identity() Identity { return s.identity }

// Name is what the source is called in logs and errors: its resource and namespace,
// or the name that From got.
func (s Source[T]) Name() string { return s.name }

// identityOf is that of a source by For.
func identityOf[T Object](cfg *rest.Config, gvr schema.GroupVersionResource, o sourceOptions) Identity {
	shard := ""
	if o.shard != nil {
		shard = o.shard.String()
	}
	objects := fmt.Sprintf("%q %q %q %q %q %t %t", client.Collection{GroupVersionResource: gvr}.Path(), o.namespaces,
		o.narrow.LabelSelector, o.narrow.FieldSelector, shard, o.strip, o.metadata)
	return Identity{server: origin.Of(cfg), objects: objects, form: reflect.TypeFor[T](), home: homeOf(cfg)}
}

// altered is the identity of a source that does with i what cannot be compared.
func altered[T Object](i Identity) Identity {
	i.form, i.own = reflect.TypeFor[T](), new(byte)
	i.altered++
	return i
}

// SameOptions says whether options make the same informer of a source. Functions
// cannot be compared: options with OnError or Metrics are the same as no others.
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
