package relay_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gapless-io/gapless/informer/listwatchtest"
	"github.com/gapless-io/gapless/kube"
)

// follower lists at the relay and watches it, and lists again after any error.
type follower struct {
	served *served
	state  map[string]string
	expiry int
}

func (f *follower) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := f.once(ctx); kube.Classify(err) == kube.OutcomeExpired {
			f.expiry++
		}
		wait(ctx, time.Second)
	}
}

func (f *follower) once(ctx context.Context) error {
	target, served := f.served.target()
	if !served {
		return nil
	}
	reader := f.served.relay.Reader()
	l, err := reader.List(ctx, target, options("0"))
	if err != nil {
		return err
	}
	state := map[string]string{}
	for o, err := range l.Items {
		if err != nil {
			return err
		}
		state[o.Key().Name] = o.ResourceVersion().String()
	}
	f.state = state
	w, err := reader.Watch(ctx, target, options(l.ResourceVersion.String()))
	if err != nil {
		return err
	}
	defer w.Close()
	for {
		events, err := w.Next(ctx)
		if err != nil {
			return err
		}
		for _, e := range events {
			if e.Type == kube.Deleted {
				delete(f.state, e.Object.Key().Name)
			} else {
				f.state[e.Object.Key().Name] = e.Object.ResourceVersion().String()
			}
		}
	}
}

// TestUpstreamsThatLieAreFollowedOrPassedThrough plays upstreams that send broken objects, lists without
// end, old states, histories that go back and much else. When they have become honest, a reader of
// the relay has what they have.
func TestUpstreamsThatLieAreFollowedOrPassedThrough(t *testing.T) { playSeeds(t, playLies) }

func playLies(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	world := newScripted()
	world.BookmarkEvery = time.Duration(1+rng.IntN(60)) * time.Second
	world.SilentAhead = rng.IntN(2) == 0
	faults := &listwatchtest.Random{Rand: rand.New(rand.NewPCG(seed, 1)), Rate: rng.Float64() * 0.6}
	world.Fail(faults.Next)
	s := serve(t, world)
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
	defer cancel()
	f := &follower{served: s, state: map[string]string{}}
	ended := make(chan struct{})
	go func() { // it ends with ctx
		f.run(ctx)
		close(ended)
	}()
	changing, stop := context.WithTimeout(ctx, 25*time.Minute)
	defer stop()
	for changing.Err() == nil {
		some, end := context.WithTimeout(changing, 5*time.Minute)
		change(some, world, rng, false)
		end()
		if rng.IntN(2) == 0 {
			world.Rewind(listwatchtest.Rewind{Back: 1 + rng.IntN(30), Beyond: rng.IntN(2) * rng.IntN(50), Refused: 1 + rng.IntN(4)})
		}
	}
	world.Heal()
	world.Restart()
	for range 20 {
		world.Put("last", rng.IntN(100))
		wait(ctx, 20*time.Second)
	}
	<-ended
	status := s.relay.Status()
	s.stop()
	want := map[string]string{}
	for _, o := range world.Objects() {
		want[o.Key.Name] = fmt.Sprint(o.RV)
	}
	if !maps.Equal(want, f.state) {
		t.Errorf("a reader has %v, upstream %v; the mirror: %+v, %d times 410", f.state, want, status, f.expiry)
	}
}
