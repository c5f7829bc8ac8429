package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apiserver/pkg/warning"
)

// mayBeStale reports whether a read of the most recent state must not be passed on before it is known
// that upstream is there: Config.ServeStale is set, and the mirror's watch is not open.
func (c *collection) mayBeStale() bool {
	if !c.relay.cfg.ServeStale {
		return false
	}
	reads := c.reads.Load()
	return reads == nil || reads.Status().State != "watching" || c.relay.Away() != nil
}

// stale returns nil for a read of the most recent state that is served although it is not known whether
// the mirror has it, because upstream does not answer: with Config.ServeStale, and a warning to the
// client. Otherwise it returns the error.
func (c *collection) stale(ctx context.Context, h *history, err error) error {
	away, is := errors.AsType[*awayError](err)
	if !is || away.refused() || !c.relay.cfg.ServeStale {
		return err
	}
	age := "of an unknown age"
	if at := c.relay.contact(c.resource); !at.IsZero() {
		age = fmt.Sprintf("%d seconds old", int(time.Since(at)/time.Second))
	}
	warning.AddWarning(ctx, "",
		fmt.Sprintf("the API server does not answer: this is the last known state, %s, up to resourceVersion %d",
			age, h.log.Reached()))
	return nil
}
