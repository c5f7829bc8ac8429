package attempt_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer/internal/attempt"
	"github.com/gapless-io/gapless/informer/internal/transition"
	"github.com/gapless-io/gapless/kube"
)

// silent is a stream that says nothing until its request ends.
type silent struct {
	ctx    context.Context //nolint:containedctx // the request's
	closed bool
}

func (s *silent) Next() (client.Frame, error) {
	<-s.ctx.Done()
	return client.Frame{}, context.Cause(s.ctx)
}

func (s *silent) Ready() bool { return false }

func (s *silent) Close() error {
	s.closed = true
	return nil
}

func TestARequestWithoutAnAnswerTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		_, err := attempt.Open(t.Context(), time.Minute, func(ctx context.Context) (client.Stream, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		if kube.Classify(err) != kube.OutcomeTimeout || time.Since(begun) != transition.OpenDeadline {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

func TestASilentWatchTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &silent{}
		a, err := attempt.Open(t.Context(), time.Minute, func(ctx context.Context) (client.Stream, error) {
			s.ctx = ctx
			return s, nil
		})
		if err != nil {
			t.Fatalf("open the watch: %v", err)
		}
		begun := time.Now()
		_, err = a.Next(begun.Add(10 * time.Second))
		r, err := a.Ended(err)
		if r.Kind != transition.ResultSilent || err != nil || time.Since(begun) != 10*time.Second {
			t.Errorf("%+v, %v after %v", r, err, time.Since(begun))
		}
		if a.Close(); !s.closed {
			t.Error("the stream was not closed")
		}
	})
}

func TestAnEndOfAWatchIsNotAnError(t *testing.T) {
	a, err := attempt.Open(t.Context(), time.Minute, func(ctx context.Context) (client.Stream, error) {
		return &silent{ctx: ctx}, nil
	})
	if err != nil {
		t.Fatalf("open the watch: %v", err)
	}
	defer a.Close()
	if r, err := a.Ended(io.EOF); r.Kind != transition.ResultClosed || err != nil {
		t.Errorf("%+v, %v", r, err)
	}
	broken := io.ErrUnexpectedEOF
	if r, err := a.Ended(broken); r.Kind != transition.ResultFailed || r.Outcome != kube.OutcomeDisconnected ||
		!errors.Is(err, broken) {
		t.Errorf("%+v, %v", r, err)
	}
}
