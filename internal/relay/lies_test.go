package relay_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
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
			world.Rewind(listwatchtest.Rewind{
				Back: 1 + rng.IntN(30), Beyond: rng.IntN(2) * rng.IntN(50), Refused: 1 + rng.IntN(4),
			})
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

// contradicting answers lists with an object that is newer than the list while on is set.
type contradicting struct {
	scripted

	on *atomic.Bool
}

func (c contradicting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !c.on.Load() || r.URL.Path != "/api/v1/things" || r.URL.Query().Get("watch") != "" {
		c.scripted.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"kind":"ThingList","apiVersion":"v1","metadata":{"resourceVersion":"50"},"items":[`+
		`{"kind":"Thing","apiVersion":"v1","metadata":{"name":"a","namespace":"default","uid":"u","resourceVersion":"60"}}]}`)
}

// TestAnUpstreamThatContradictedItselfIsMirroredAgain: what could not be recorded is given back.
func TestAnUpstreamThatContradictedItselfIsMirroredAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := contradicting{newScripted(), new(atomic.Bool)}
		world.Put("a", 1)
		world.on.Store(true)
		s := serve(t, world)
		defer s.stop()
		f := &follower{served: s}
		once := func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_ = f.once(ctx) // it ends with ctx, or because nothing is mirrored
		}
		wait(t.Context(), 20*time.Second)
		once()
		if status := s.relay.Status(); len(status) != 1 || status[0].Problem == "" || f.state != nil {
			t.Fatalf("status %+v, state %v; want that the resource is not mirrored", status, f.state)
		}
		world.on.Store(false)
		wait(t.Context(), 2*time.Minute)
		once()
		if want := strconv.Itoa(world.RV()); len(f.state) != 1 || f.state["a"] != want {
			t.Errorf("a reader has %v, want a at %s; status %+v", f.state, want, s.relay.Status())
		}
	})
}
