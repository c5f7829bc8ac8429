package strategy

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/internal/kinds"
)

// Given is what the server has given to a new object, and what plugins do not see of it: upstream
// asks them before an object has a UID and, by generateName, a name. Its status is there, but what
// they make of it is dropped. Nil is nothing.
type Given struct {
	name      string
	meta      map[string]any
	status    any
	hasStatus bool
	keep      bool // the status is the client's
}

// Hide removes from u, a new object for the target of a request, what the server has given it.
func Hide(t kinds.Target, u *unstructured.Unstructured) *Given {
	g := &Given{name: u.GetName(), meta: map[string]any{}, keep: !t.Resource.HasStatus || t.Resource.StatusOnCreate}
	g.status, g.hasStatus = u.Object["status"]
	meta := metadata(u.Object)
	for _, name := range []string{"uid", "creationTimestamp", "generation"} {
		if value, has := meta[name]; has {
			g.meta[name] = value
			delete(meta, name)
		}
	}
	if generated := u.GetGenerateName() != "" && t.Name == ""; generated {
		u.SetName("")
	}
	return g
}

// Restore gives u what Hide has removed, and takes back what plugins have made of it; a name that
// they have given it stays.
func (g *Given) Restore(u *unstructured.Unstructured) {
	if g == nil {
		return
	}
	maps.Copy(metadata(u.Object), g.meta)
	if u.GetName() == "" {
		u.SetName(g.name)
	}
	if g.keep {
		return
	}
	delete(u.Object, "status")
	if g.hasStatus {
		u.Object["status"] = g.status
	}
}
