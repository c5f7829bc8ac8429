package relay_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless/informer/listwatchtest"
	"github.com/gapless-io/gapless/internal/apiserver"
)

// TestARelayThatEndsWaitsForNoAnswerOfUpstream ends a relay while a reader waits for upstream to say how
// far it is.
func TestARelayThatEndsWaitsForNoAnswerOfUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := newScripted()
		world.Put("a", 0)
		s := serve(t, world)
		if err := s.relay.WaitReady(t.Context()); err != nil {
			t.Fatalf("wait until it is ready: %v", err)
		}
		asked := false
		world.Fail(func(r listwatchtest.Request) listwatchtest.Fault {
			hang := !r.Watch && r.Limit == 1
			asked = asked || hang
			return listwatchtest.Fault{Hang: hang}
		})
		target, _ := s.target()
		read := make(chan error)
		go func() { // this test waits for it
			_, err := s.relay.Reader().List(t.Context(), target, options(""))
			read <- err
		}()
		wait(t.Context(), time.Second)
		synctest.Wait()
		if !asked {
			t.Fatal("upstream was not asked")
		}
		began := time.Now()
		s.stop()
		err := <-read
		if _, passed := errors.AsType[*apiserver.FallbackError](err); !passed {
			t.Errorf("the reader got %v, want to be passed on", err)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("the end took %v of virtual time, want none", took)
		}
	})
}
