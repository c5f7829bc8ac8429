package registry

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/internal/registry/strategy"
)

// uniqueAfter removes owner references that stand twice in an object once plugins have seen it, and
// warns about them: a plugin or a patch has made them.
func uniqueAfter(ctx context.Context, track strategy.Track) strategy.Track {
	return func(u, old *unstructured.Unstructured) ([]byte, error) {
		managed, err := track(u, old)
		if err == nil {
			warn(ctx, strategy.UniqueOwners(u, strategy.Admitted))
		}
		return managed, err
	}
}
