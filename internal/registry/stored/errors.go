package stored

import (
	"errors"
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// Failure turns an error of the store into an error for the client: 500 with the reason
// when the disk may have lost data, 503 with Retry-After when a write is refused for a
// temporary reason, and has no effect.
func Failure(err error) error {
	if e, is := errors.AsType[*store.TooLargeError](err); is {
		status := wire.TooLargeBody(int64(e.Limit))
		status.Cause = err
		return status
	}
	if e, is := errors.AsType[*store.FutureRevisionError](err); is {
		return &kube.TooLargeResourceVersionError{
			Requested: kube.ResourceVersion(e.Requested), Current: kube.ResourceVersion(e.Current),
		}
	}
	if e, is := errors.AsType[*store.PoisonedError](err); is {
		return wire.Internal(e)
	}
	if e, is := errors.AsType[*store.UnreadableError](err); is {
		return wire.Internal(e)
	}
	if errors.Is(err, store.ErrOutcomeUnknown) { // also if a refusal is the reason why nobody knows: clients repeat after 503
		return wire.Internal(err)
	}
	if e, is := errors.AsType[*store.UnavailableError](err); is {
		status := wire.Unavailable(e.Error(), time.Second)
		status.Cause = err
		return status
	}
	switch {
	case errors.Is(err, store.ErrClosed):
		status := wire.Unavailable("the server is shutting down: its store is closed", time.Second)
		status.Cause = err
		return status
	case errors.Is(err, store.ErrInvalid):
		return wire.BadRequest("%v", err)
	}
	return err
}

// expired says that the store has removed what a request needs.
func expired(e *store.CompactedError, kind kube.ExpiredKind) error {
	out := &kube.ExpiredError{
		Requested: kube.ResourceVersion(e.Requested), Oldest: kube.ResourceVersion(e.Floor),
		Reason: e.Reason, RemovedAt: e.RemovedAt, Kind: kind,
	}
	if !e.FloorTime.IsZero() {
		out.OldestAge, out.OldestTime = time.Since(e.FloorTime), e.FloorTime
	}
	return out
}
