package metadata

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// MatchNamespace fills in the namespace of the request, or refuses another one
// (apiserver rest.EnsureObjectNamespaceMatchesRequestNamespace).
func MatchNamespace(t kinds.Target, u *unstructured.Unstructured) error {
	expected := t.Key().Namespace
	switch u.GetNamespace() {
	case expected:
	case "":
		u.SetNamespace(expected)
	default:
		if expected != "" {
			return wire.BadRequest("the namespace of the provided object does not match the namespace sent on the request")
		}
		u.SetNamespace("")
	}
	return nil
}

// MatchName refuses an update whose body names another object than its path
// (apiserver handlers.checkName).
func MatchName(t kinds.Target, u *unstructured.Unstructured) error {
	if u.GetName() == "" {
		return wire.BadRequest("the name of the object (%s based on URL) was undeterminable: name must be provided", t.Name)
	}
	if u.GetName() != t.Name {
		return wire.BadRequest("the name of the object (%s) does not match the name on the URL (%s)", u.GetName(), t.Name)
	}
	return nil
}

// MatchPath is [MatchNamespace], and [MatchName].
func MatchPath(t kinds.Target, u *unstructured.Unstructured) error {
	if err := MatchNamespace(t, u); err != nil {
		return err
	}
	return MatchName(t, u)
}
