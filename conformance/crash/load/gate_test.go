package load

import (
	"context"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestClosedGateAdmitsNoneAndWaitsForRunningOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		entered, closed := false, false
		go func() { entered = g.enter(t.Context()) == nil }() // ends once the gate opens
		synctest.Wait()
		if entered {
			t.Fatal("somebody entered a closed gate")
		}
		g.open()
		synctest.Wait()
		if !entered {
			t.Fatal("nobody entered an open gate")
		}
		go func() { closed = g.close(t.Context()) == nil }() // ends once the gate is empty
		synctest.Wait()
		if closed {
			t.Fatal("the gate closed with somebody inside")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := g.enter(ctx); err == nil {
			t.Error("somebody entered a gate that is closing")
		}
		g.leave()
		synctest.Wait()
		if !closed {
			t.Error("the gate did not close after the last one had left")
		}
	})
}
