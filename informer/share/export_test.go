package share

import (
	"context"

	"github.com/gapless-io/gapless/informer"
)

// Begun adds a handler of which a call begins before the informer has returned its
// registration. meanwhile is called during that call, with its context.
func Begun[T informer.Object](l *Lease[T], handle func(context.Context, informer.Event[T]) error,
	meanwhile func(within context.Context, err error),
) *informer.Registration {
	return l.add(nil, func(c *calls[T], _ []informer.HandleOption) *informer.Registration {
		within, end, err := c.begin(context.Background())
		if err == nil {
			defer end()
		}
		meanwhile(within, err)
		return l.informer.Handle(handle)
	})
}
