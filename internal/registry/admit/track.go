package admit

import (
	"context"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry/strategy"
)

// After returns a step of [strategy.Create] and [strategy.Update] that asks the plugins after
// track: what they change has no manager, as upstream.
func (r *Review) After(ctx context.Context, track strategy.Track) strategy.Track {
	if r == nil {
		return track
	}
	return func(u, old *unstructured.Unstructured) ([]byte, error) {
		managed, err := track(u, old)
		if err == nil {
			err = strategy.PutManaged(u, managed)
		}
		switch {
		case err != nil:
			return nil, err
		case old == nil:
			return nil, r.admitNew(ctx, u)
		}
		changed, err := r.Admit(ctx, u, old)
		if changed && err == nil {
			err = strategy.Restrict(r.Target, u, old)
		}
		return nil, err
	}
}

// admitNew is Admit for a new object. Upstream asks before the server has given it a UID and,
// by generateName, a name, and drops the status afterwards.
func (r *Review) admitNew(ctx context.Context, u *unstructured.Unstructured) error {
	given := hide(u, r.Target.Resource)
	name := u.GetName()
	if generated := u.GetGenerateName() != "" && r.Target.Name == ""; generated {
		u.SetName("")
	}
	_, err := r.Admit(ctx, u, nil)
	given.restore(u)
	if u.GetName() == "" {
		u.SetName(name)
	}
	return err
}

// given is what the server has given to a new object.
type given struct {
	meta      map[string]any
	status    any
	hasStatus bool
	keep      bool // the status is the client's
}

func hide(u *unstructured.Unstructured, resource *kinds.Resource) given {
	g := given{meta: map[string]any{}, keep: !resource.HasStatus || resource.StatusOnCreate}
	g.status, g.hasStatus = u.Object["status"]
	if meta, is := u.Object["metadata"].(map[string]any); is {
		for _, name := range []string{"uid", "creationTimestamp", "generation"} {
			if value, has := meta[name]; has {
				g.meta[name] = value
				delete(meta, name)
			}
		}
	}
	return g
}

func (g given) restore(u *unstructured.Unstructured) {
	meta, is := u.Object["metadata"].(map[string]any)
	if !is {
		meta = map[string]any{}
		u.Object["metadata"] = meta
	}
	maps.Copy(meta, g.meta)
	if g.keep {
		return
	}
	delete(u.Object, "status")
	if g.hasStatus {
		u.Object["status"] = g.status
	}
}
