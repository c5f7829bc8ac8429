// Package attempt watches over one request of a reflector.
//
// It has one noun, the [Attempt]: an open watch with a dog that ends it when there is
// no sign of life. What ended a request becomes the [course.Result] that says so.
package attempt

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer/internal/course"
	"github.com/gapless-io/gapless/kube"
)

// Why a request was ended from this side. They are causes of a context.
var (
	ErrSilent   = errors.New("no sign of life from the server")
	ErrFinished = errors.New("the request is finished")
	errNotOpen  = errors.New("the server did not answer")
)

// Stream is what the reflector's source opens.
type Stream interface {
	Next() (client.Frame, error)
	Ready() bool
	Close() error
}

// Attempt is one open watch, used by one goroutine.
type Attempt struct {
	stream Stream
	ctx    context.Context //nolint:containedctx // the request's own, whose cause says who ended it
	cancel context.CancelCauseFunc
	dog    *time.Timer // cancels with ErrSilent
	begun  time.Time
	frames int

	Until   time.Time // when the server will have ended it
	Marked  bool      // a bookmark came
	Reached string    // the position, for the result
}

// Open calls open with a context of the attempt's own and waits for it, at most
// course.OpenDeadline. The server is taken to end the watch after timeout. On an error
// there is nothing to close.
func Open(ctx context.Context, timeout time.Duration, open func(context.Context) (Stream, error)) (*Attempt, error) {
	begun := time.Now()
	own, cancel := context.WithCancelCause(ctx)
	dog := time.AfterFunc(course.OpenDeadline, func() { cancel(errNotOpen) })
	stream, err := open(own)
	dog.Stop()
	if err != nil {
		if cause := context.Cause(own); cause != nil && ctx.Err() == nil {
			err = &timeoutError{cause}
		}
		cancel(ErrFinished)
		return nil, err
	}
	a := &Attempt{stream: stream, ctx: own, cancel: cancel, begun: begun, Until: begun.Add(timeout)}
	a.dog = time.AfterFunc(time.Hour, func() { a.cancel(ErrSilent) })
	a.dog.Stop()
	return a, nil
}

// Next waits for a frame, at most until deadline.
func (a *Attempt) Next(deadline time.Time) (client.Frame, error) {
	a.dog.Reset(time.Until(deadline))
	f, err := a.stream.Next()
	a.dog.Stop()
	if err == nil {
		a.frames++
	}
	return f, err
}

// Ready says that Next will not have to wait for the network.
func (a *Attempt) Ready() bool { return a.stream.Ready() }

// Close ends the request.
func (a *Attempt) Close() {
	a.dog.Stop()
	a.cancel(ErrFinished)
	_ = a.stream.Close() // the request is over; there is nothing to lose
}

// Ended makes a result of what ended the stream, and returns err where it says more.
func (a *Attempt) Ended(err error) (course.Result, error) {
	r := course.Result{Opened: true, Frames: a.frames, Bookmarks: a.Marked, Lived: time.Since(a.begun), RV: a.Reached}
	switch {
	case errors.Is(context.Cause(a.ctx), ErrSilent):
		r.Kind = course.ResultSilent
		return r, nil
	case errors.Is(err, io.EOF):
		// An end in the middle of something has another error (client.Watch).
		r.Kind = course.ResultClosed
		return r, nil
	}
	f, err := a.Failed(err)
	r.Kind, r.Outcome, r.RetryAfter = f.Kind, f.Outcome, f.RetryAfter
	return r, err
}

// Failed makes a result of an error that ends the attempt.
func (a *Attempt) Failed(err error) (course.Result, error) { return Failed(a.ctx, err) }

// Failed makes a result of an error of a request with the context ctx.
func Failed(ctx context.Context, err error) (course.Result, error) {
	if cause := context.Cause(ctx); errors.Is(cause, ErrSilent) {
		err = &timeoutError{cause}
	}
	r := course.Result{Kind: course.ResultFailed, Outcome: kube.Classify(err)}
	r.RetryAfter, _ = kube.RetryDelay(err)
	return r, err
}

// timeoutError is a deadline of ours.
type timeoutError struct{ cause error }

func (e *timeoutError) Error() string { return e.cause.Error() }
func (e *timeoutError) Unwrap() error { return e.cause }

// Timeout and Temporary make it a net.Error, which kube.Classify knows.
func (e *timeoutError) Timeout() bool   { return true }
func (e *timeoutError) Temporary() bool { return true }
