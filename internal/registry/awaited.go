package registry

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/internal/registry/strategy"
)

// A write stops between its steps when its client has left or its time is over: nobody waits for the
// answer, and others may wait for the processor. The steps themselves are bounded (docs/limits.md).

// whileAwaited ends a write after track, which is before it is validated.
func whileAwaited(ctx context.Context, track strategy.Track) strategy.Track {
	return func(u, old *unstructured.Unstructured) ([]byte, error) {
		managed, err := track(u, old)
		if err == nil {
			err = context.Cause(ctx)
		}
		return managed, err
	}
}
