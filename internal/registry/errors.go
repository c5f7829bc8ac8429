package registry

import (
	"errors"
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/kube"
)

// errInitializing is upstream's text for a server that has not read its storage.
const errInitializing = "storage is (re)initializing"

// storeError turns what a store returns into what a client is told. A disk that
// fails is 500 with the reason; reads go on.
func storeError(err error) error {
	if e, is := errors.AsType[*store.TooLargeError](err); is {
		status := kube.TooLargeBody(int64(e.Limit))
		status.Cause = err
		return status
	}
	if e, is := errors.AsType[*store.FutureRevisionError](err); is {
		return &kube.TooLargeResourceVersionError{
			Requested: kube.ResourceVersion(e.Requested), Current: kube.ResourceVersion(e.Current),
		}
	}
	if e, is := errors.AsType[*store.PoisonedError](err); is {
		return kube.Internal(e)
	}
	if e, is := errors.AsType[*store.NoSpaceError](err); is {
		return kube.Internal(e)
	}
	switch {
	case errors.Is(err, store.ErrClosed):
		status := kube.Unavailable("the server is shutting down: its store is closed", time.Second)
		status.Cause = err
		return status
	case errors.Is(err, store.ErrInvalid):
		return kube.BadRequest("%v", err)
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
		out.OldestAge = time.Since(e.FloorTime)
	}
	return out
}
