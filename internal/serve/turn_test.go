package serve_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/gapless-io/gapless/internal/serve"
)

func TestWorkRunsInEachTermOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn := serve.NewTurn()
		ctx, stop := context.WithCancel(t.Context())
		running, runs := 0, 0
		done := make(chan struct{})
		go func() { // it ends with ctx
			defer close(done)
			_ = turn.Run(ctx, func(ctx context.Context) error { // it has no error
				running, runs = running+1, runs+1
				<-ctx.Done()
				running--
				return nil
			})
		}()
		for term := range 3 {
			synctest.Wait()
			if running != 0 || runs != term || turn.Leads() {
				t.Fatalf("before term %d: %d works run, %d have begun, leads: %v", term, running, runs, turn.Leads())
			}
			leading, end := context.WithCancel(ctx)
			held := make(chan error)
			go func() { held <- turn.Hold(leading) }() // it ends with leading
			synctest.Wait()
			if running != 1 || !turn.Leads() {
				t.Fatalf("in term %d: %d works run, leads: %v", term, running, turn.Leads())
			}
			end()
			if err := <-held; err != nil || running != 0 {
				t.Fatalf("term %d ended with %v while %d works run", term, err, running)
			}
		}
		stop()
		<-done
	})
}

func TestATermEndsWhenItsWorkHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn := serve.NewTurn()
		release, done := make(chan struct{}), make(chan struct{})
		ctx, stop := context.WithCancel(t.Context())
		go func() { // it ends with ctx
			defer close(done)
			_ = turn.Run(ctx, func(context.Context) error { // it has no error
				<-release
				return nil
			})
		}()
		leading, end := context.WithCancel(ctx)
		held := make(chan error, 1)
		go func() { held <- turn.Hold(leading) }() // it ends with leading and the work
		synctest.Wait()
		end()
		synctest.Wait()
		select {
		case err := <-held:
			t.Errorf("the term has ended while its work runs: %v", err)
			held <- err
		default:
		}
		close(release)
		if err := <-held; err != nil {
			t.Errorf("end a term: %v", err)
		}
		stop()
		<-done
	})
}

func TestWorkThatEndsEarlyRunsAgainInTheNextTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn := serve.NewTurn()
		ctx, stop := context.WithCancel(t.Context())
		runs := 0
		done := make(chan struct{})
		go func() { // it ends with ctx
			defer close(done)
			_ = turn.Run(ctx, func(context.Context) error { // it has no error
				runs++
				return nil
			})
		}()
		for term := range 2 {
			leading, end := context.WithCancel(ctx)
			held := make(chan error)
			go func() { held <- turn.Hold(leading) }() // it ends with leading
			synctest.Wait()
			if runs != term+1 {
				t.Errorf("in term %d the work has run %d times", term, runs)
			}
			end()
			if err := <-held; err != nil {
				t.Errorf("end a term: %v", err)
			}
		}
		stop()
		<-done
	})
}

func TestWorkThatFailsIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn := serve.NewTurn()
		leading, end := context.WithCancel(t.Context())
		held := make(chan error)
		go func() { held <- turn.Hold(leading) }() // it ends with leading
		want := errors.New("it is broken")
		if err := turn.Run(t.Context(), func(context.Context) error { return want }); !errors.Is(err, want) {
			t.Errorf("run work that fails: %v, want %v", err, want)
		}
		end()
		if err := <-held; err != nil {
			t.Errorf("end a term: %v", err)
		}
	})
}
