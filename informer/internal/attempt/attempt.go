// Package attempt enforces the deadlines of one request of a reflector.
//
// An [Attempt] is an open watch with a watchdog that closes it when it is silent for too long.
// How a request ended becomes a [transition.Result].
package attempt

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer/internal/transition"
	"github.com/gapless-io/gapless/kube"
)

// Why the client ended a request. They are causes of its context.
var (
	ErrSilent   = errors.New("the server was silent for too long")
	ErrFinished = errors.New("the request is finished")
	errNotOpen  = errors.New("the server did not answer")
)

// Attempt is one open watch, used by one goroutine.
type Attempt struct {
	stream   client.Stream
	ctx      context.Context //nolint:containedctx // the request's own, whose cause says who ended it
	cancel   context.CancelCauseFunc
	watchdog *time.Timer // cancels with ErrSilent
	begun    time.Time
	frames   int

	Until   time.Time // when the server is to end it
	Marked  bool      // a bookmark came
	Gap     bool      // an event did not follow from the cache's state
	Reached string    // the position, for the result
}

// Open calls open with a context of its own and waits for it, at most
// transition.OpenDeadline. The server was asked to end the watch after timeout.
func Open(ctx context.Context, timeout time.Duration, open func(context.Context) (client.Stream, error)) (*Attempt, error) {
	begun := time.Now()
	own, cancel := context.WithCancelCause(ctx)
	watchdog := time.AfterFunc(transition.OpenDeadline, func() { cancel(errNotOpen) })
	stream, err := open(own)
	watchdog.Stop()
	if err != nil {
		if cause := context.Cause(own); cause != nil && ctx.Err() == nil {
			err = &timeoutError{cause}
		}
		cancel(ErrFinished)
		return nil, err
	}
	a := &Attempt{stream: stream, ctx: own, cancel: cancel, begun: begun, Until: begun.Add(timeout)}
	a.watchdog = time.AfterFunc(time.Hour, func() { a.cancel(ErrSilent) })
	a.watchdog.Stop()
	return a, nil
}

// Next waits for a frame, at most until deadline.
func (a *Attempt) Next(deadline time.Time) (client.Frame, error) {
	a.watchdog.Reset(time.Until(deadline))
	f, err := a.stream.Next()
	a.watchdog.Stop()
	if err == nil {
		a.frames++
	}
	return f, err
}

// Ready reports whether Next returns without waiting for the network.
func (a *Attempt) Ready() bool { return a.stream.Ready() }

// Lived is how long ago the request was made.
func (a *Attempt) Lived() time.Duration { return time.Since(a.begun) }

// Close ends the request.
func (a *Attempt) Close() {
	a.watchdog.Stop()
	a.cancel(ErrFinished)
	_ = a.stream.Close() // the request is over; there is nothing to lose
}

// Ended returns the result for the end of the stream, and err if it adds information.
func (a *Attempt) Ended(err error) (transition.Result, error) {
	r := transition.Result{Opened: true, Frames: a.frames, Bookmarks: a.Marked, Gap: a.Gap, Lived: a.Lived(), RV: a.Reached}
	switch {
	case errors.Is(context.Cause(a.ctx), ErrSilent):
		r.Kind = transition.ResultSilent
		return r, nil
	case errors.Is(err, io.EOF):
		// The end of an incomplete frame is another error (client.Watch).
		r.Kind = transition.ResultClosed
		return r, nil
	}
	f, err := a.Failed(err)
	r.Kind, r.Outcome, r.RetryAfter = f.Kind, f.Outcome, f.RetryAfter
	return r, err
}

// Failed returns the result for an error that ends the attempt.
func (a *Attempt) Failed(err error) (transition.Result, error) { return Failed(a.ctx, err) }

// Failed returns the result for an error of a request with the context ctx.
func Failed(ctx context.Context, err error) (transition.Result, error) {
	if cause := context.Cause(ctx); errors.Is(cause, ErrSilent) {
		err = &timeoutError{cause}
	}
	r := transition.Result{Kind: transition.ResultFailed, Outcome: kube.Classify(err)}
	if why := kube.WhyExpired(err); why != nil && why.Reason == kube.ReasonReplaced {
		r.Kind = transition.ResultWentBack
	}
	r.RetryAfter, _ = kube.RetryDelay(err)
	return r, err
}

// timeoutError is a deadline that the client set.
type timeoutError struct{ cause error }

func (e *timeoutError) Error() string { return e.cause.Error() }
func (e *timeoutError) Unwrap() error { return e.cause }

// Timeout and Temporary make it a net.Error, which kube.Classify knows.
func (e *timeoutError) Timeout() bool   { return true }
func (e *timeoutError) Temporary() bool { return true }
