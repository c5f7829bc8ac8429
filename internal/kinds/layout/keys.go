package layout

import (
	"fmt"
	"strings"

	"github.com/gapless-io/gapless/internal/kinds"
)

// pathOf returns the part of the keys of a built-in resource that stands before the names: mostly its
// plural, without the group (kubernetes pkg/kubeapiserver SpecialDefaultResourcePrefixes). The servers for
// definitions and for APIServices, which kube-apiserver contains, have the group in it.
func pathOf(gr kinds.GroupResource) string {
	switch gr {
	case kinds.GroupResource{Resource: "replicationcontrollers"}:
		return "controllers"
	case kinds.GroupResource{Resource: "endpoints"}:
		return "services/endpoints"
	case kinds.GroupResource{Resource: "nodes"}:
		return "minions"
	case kinds.GroupResource{Resource: "services"}:
		return "services/specs"
	case kinds.GroupResource{Group: "networking.k8s.io", Resource: "ingresses"}:
		return "ingress"
	case kinds.Definitions(), kinds.GroupResource{Group: aggregated, Resource: "apiservices"}:
		return gr.Group + "/" + gr.Resource
	}
	return gr.Resource
}

// aggregated is the group of APIServices. Another resource of it is no custom one, although its keys look so.
const aggregated = "apiregistration.k8s.io"

// Key returns the key in etcd of an object's key in the store: "/registry/services/specs/default/a" for
// "services/default/a". The name of a resource with a slash, "services/", gives what all its keys begin
// with. Errors: *KeyError for what is no key of an object.
func (l *Layout) Key(key string) (string, error) {
	name, object, found := strings.Cut(key, "/")
	if !found {
		return "", &KeyError{Key: key}
	}
	if b := l.byName[name]; b != nil {
		return l.prefix + b.path + "/" + object, nil
	}
	plural, group, found := strings.Cut(name, ".")
	if !found || !custom(group, plural) {
		return "", &KeyError{Key: key}
	}
	return l.prefix + group + "/" + plural + "/" + object, nil
}

// StoreKey returns the key in the store of a key in etcd. known is false for what is no object of a resource
// that this server serves, or could serve once there is a definition: a custom resource is known by the form
// of its key alone, since objects may be read before the definitions are.
func (l *Layout) StoreKey(etcdKey string) (key string, known bool) {
	rest, is := strings.CutPrefix(etcdKey, l.prefix)
	if !is {
		return "", false
	}
	first := strings.IndexByte(rest, '/')
	if first <= 0 {
		return "", false
	}
	if b := l.byPath[rest[:first]]; b != nil {
		return b.key(rest[first+1:])
	}
	second := strings.IndexByte(rest[first+1:], '/')
	if second <= 0 {
		return "", false
	}
	second += first + 1
	if b := l.byPath[rest[:second]]; b != nil {
		return b.key(rest[second+1:])
	}
	group, plural, object := rest[:first], rest[first+1:second], rest[second+1:]
	if !custom(group, plural) || !names(object, 1) && !names(object, 2) {
		return "", false
	}
	name := plural + "." + group
	if l.byName[name] != nil {
		return "", false // a definition of a built-in resource has no effect
	}
	return name + "/" + object, true
}

func (b *builtIn) key(object string) (key string, known bool) {
	parts := 1
	if b.namespaced {
		parts = 2
	}
	if !names(object, parts) {
		return "", false
	}
	return b.name + "/" + object, true
}

// custom reports whether a resource can be a custom one: only these have a dot in their group's name, and
// the group in their keys.
func custom(group, plural string) bool {
	return group != aggregated && strings.Contains(group, ".") && kinds.IsSubdomain(group) && kinds.IsLabel(plural)
}

// names reports whether the last part of a key is that many names: of a namespace and an object, or of an
// object. A name is a valid segment of a path (apimachinery content.IsPathSegmentName).
func names(object string, parts int) bool {
	for ; parts > 1; parts-- {
		name, rest, found := strings.Cut(object, "/")
		if !found || !segment(name) {
			return false
		}
		object = rest
	}
	return segment(object)
}

func segment(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/%")
}

// KeyError is a key in the store that no object of this server has.
type KeyError struct{ Key string }

// Error says which key it is.
func (e *KeyError) Error() string { return fmt.Sprintf("%q is not the key of an object", e.Key) }
