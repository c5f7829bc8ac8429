package etcd

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestACallIsGivenUpByWhatReadsSay: one that only its member does not answer, and one that nobody answers, at which it
// is of no use to ask what came of it.
func TestACallIsGivenUpByWhatReadsSay(t *testing.T) {
	for name, test := range map[string]struct{ read, want error }{
		"its member is silent": {nil, errNoAnswer},
		"reads are refused":    {errors.New("refused"), errNoAnswer},
		"nobody answers":       {errReadTimeout, errNoAnswers},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &Store{reads: newReads()}
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				go func() { // ends with ctx
					for {
						select {
						case <-s.reads.asked:
						case <-ctx.Done():
							return
						}
						r := s.reads.take()
						r.err = test.read
						close(r.done)
					}
				}()
				quick, end := s.attended(ctx)
				<-time.After(attendAfter / 2)
				if quick.Err() != nil {
					t.Errorf("a call is given up at once: %v", context.Cause(quick))
				}
				end()
				slow, end := s.attended(ctx)
				defer end()
				select {
				case <-slow.Done():
					if err := context.Cause(slow); !errors.Is(err, test.want) {
						t.Errorf("a call is given up with %v, want %v", err, test.want)
					}
				case <-time.After(time.Hour):
					t.Error("a call without an answer is not given up")
				}
			})
		})
	}
}
