// Package layout has the places and the forms in which kube-apiserver keeps objects in etcd, so that both
// servers can use one etcd: the keys, and what the values are.
//
// A [Layout] converts both ways. keys.go has the keys, envelope.go and value.go the encodings, versions.go the
// versions of built-in kinds that are, or were, stored in another version than this server's own,
// convert.go those with other fields, and definition.go CustomResourceDefinitions.
//
// The storage versions are those of kube-apiserver 1.37 without --emulated-version and
// --min-compatibility-version. Encryption is not done here: [ErrEncrypted] says what to do.
package layout

import (
	"strings"

	"github.com/gapless-io/gapless/internal/kinds"
)

// Layout converts between the keys and values of this server's store and those that kube-apiserver has in
// etcd. It is immutable and safe for concurrent use.
type Layout struct {
	prefix string // with a slash at the end
	live   *kinds.Live
	// byName has the built-in resources by the first part of their keys in the store, byPath by the part of
	// their keys in etcd that stands between the prefix and the names.
	byName, byPath map[string]*builtIn
}

// builtIn is a built-in resource that stores objects.
type builtIn struct {
	name       string // "services", the first part of keys in the store
	path       string // "services/specs", the part of keys in etcd
	namespaced bool
	codec      codec
}

// New returns the layout below a prefix, the value of --etcd-prefix. The built-in kinds are those that live
// holds now.
func New(prefix string, live *kinds.Live) *Layout {
	l := &Layout{
		prefix: "/" + strings.Trim(prefix, "/") + "/", live: live,
		byName: map[string]*builtIn{}, byPath: map[string]*builtIn{},
	}
	if l.prefix == "//" {
		l.prefix = "/"
	}
	catalog, older := live.Load(), others()
	for _, r := range catalog.Stored() {
		if r.Custom {
			continue
		}
		b := &builtIn{name: r.GR().String(), path: pathOf(r.GR()), namespaced: r.Namespaced, codec: codecOf(catalog, r, older)}
		l.byName[b.name], l.byPath[b.path] = b, b
	}
	return l
}

// unnamed stands for custom resources in what Known returns, and formOfUnnamed is changed by whoever changes which keys
// they have.
const unnamed, formOfUnnamed = "*", "group/plural/names 1"

// Known says which resources are known by name, and what stands in their keys between the prefix and the names;
// "*" is for all others, the custom resources. They are known by the form of their keys, with a definition or
// without. A log that was written with another layout lacks objects.
func (l *Layout) Known() map[string]string {
	known := map[string]string{unnamed: formOfUnnamed}
	for name, b := range l.byName {
		known[name] = b.path + "/"
		if b.namespaced {
			known[name] += "namespace/"
		}
	}
	return known
}
