package limit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless/internal/apiserver/limit"
)

// held takes n units a number of times, and returns how often it got them.
func held(t *testing.T, p *limit.Places, user string, n, times int) (got int, release []func()) {
	t.Helper()
	for range times {
		give, err := p.Take(t.Context(), user, n)
		switch {
		case err == nil:
			got++
			release = append(release, give)
		case !errors.Is(err, limit.ErrFull):
			t.Fatal(err)
		}
	}
	return got, release
}

func TestNoUserGetsAllPlaces(t *testing.T) {
	p := limit.NewPlaces(12, 0, 0)
	alice, release := held(t, p, "alice", 1, 20)
	bob, _ := held(t, p, "bob", 1, 20)
	carol, _ := held(t, p, "carol", 1, 20)
	dave, _ := held(t, p, "dave", 1, 20)
	if alice != 6 || bob != 4 || carol != 2 || dave != 0 {
		t.Errorf("alice has %d, bob %d, carol %d, dave %d; want a half, a third, what is left, nothing", alice, bob, carol, dave)
	}
	for _, give := range release {
		give()
	}
	if again, _ := held(t, p, "dave", 1, 20); again != 3 {
		t.Errorf("dave has %d after alice left; want a quarter", again)
	}
}

func TestRequestLargerThanAShareRunsAlone(t *testing.T) {
	p := limit.NewPlaces(12, 0, 0)
	got, release := held(t, p, "alice", 50, 2)
	if got != 1 {
		t.Fatalf("got %d of what is larger than all, want 1", got)
	}
	if bob, _ := held(t, p, "bob", 1, 1); bob != 0 {
		t.Errorf("bob has %d while all is taken", bob)
	}
	release[0]()
	if bob, _ := held(t, p, "bob", 1, 1); bob != 1 {
		t.Errorf("bob has %d afterwards, want 1", bob)
	}
}

func TestWaiterWithTheFewestPlacesIsServedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := limit.NewPlaces(2, time.Minute, 1)
		_, alice := held(t, p, "alice", 1, 1)
		_, bob := held(t, p, "bob", 1, 1)
		order := make(chan string, 2)
		for _, user := range []string{"alice", "carol"} {
			go func() { // ends when it is served
				give, err := p.Take(t.Context(), user, 1)
				if err != nil {
					t.Errorf("take over the state: %v", err)
					return
				}
				order <- user
				give()
			}()
			synctest.Wait()
		}
		if got, _ := held(t, p, "carol", 1, 1); got != 0 {
			t.Error("a second one of carol's waits where one may")
		}
		bob[0]()
		if first := <-order; first != "carol" {
			t.Errorf("%s was served first", first)
		}
		alice[0]()
		if second := <-order; second != "alice" {
			t.Errorf("%s was served second", second)
		}
	})
}

func TestWaiterTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := limit.NewPlaces(1, 3*time.Second, 1)
		_, release := held(t, p, "alice", 1, 1)
		began := time.Now()
		if _, err := p.Take(t.Context(), "bob", 1); !errors.Is(err, limit.ErrFull) || time.Since(began) != 3*time.Second {
			t.Errorf("%v after %v, want ErrFull after 3s", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("left"))
		defer cancel()
		if _, err := p.Take(ctx, "bob", 1); err == nil || err.Error() != "left" {
			t.Errorf("%v, want the cause of the context", err)
		}
		release[0]()
		if got, _ := held(t, p, "bob", 1, 1); got != 1 {
			t.Error("the place is lost")
		}
	})
}

func TestWaitersWithEquallyManyPlacesAreServedInTheOrderTheyCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := limit.NewPlaces(1, time.Minute, 1)
		_, release := held(t, p, "alice", 1, 1)
		order := make(chan string, 20)
		for i := range 20 {
			go func() { // ends when it is served
				name := string(rune('a' + i))
				give, err := p.Take(t.Context(), name, 1)
				if err != nil {
					t.Errorf("take over the state: %v", err)
					return
				}
				order <- name
				give()
			}()
			synctest.Wait()
		}
		if taken, waiting := p.Use(); taken != 1 || waiting != 20 {
			t.Errorf("%d taken, %d waiting", taken, waiting)
		}
		release[0]()
		for i := range 20 {
			if got, want := <-order, string(rune('a'+i)); got != want {
				t.Errorf("%s is served at the turn of %s", got, want)
			}
		}
		synctest.Wait()
		if taken, waiting := p.Use(); taken != 0 || waiting != 0 {
			t.Errorf("%d taken, %d waiting at the end", taken, waiting)
		}
	})
}

// Small requests of many users come as often as places become free.
func TestALargeRequestIsNotOvertakenForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all, large = 12, 6
		p := limit.NewPlaces(all, time.Minute, 1)
		served := map[string]chan func(){"large": make(chan func(), 1), "small": make(chan func(), 3*all)}
		ask := func(name, kind string, n int) {
			go func() { // ends when it is served
				give, err := p.Take(t.Context(), name, n)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				served[kind] <- give
			}()
			synctest.Wait()
		}
		came := 0
		for range all {
			came++
			ask(fmt.Sprint(came), "small", 1)
		}
		ask("large", "large", large)
		freed := 0
		for ; freed < all && len(served["large"]) == 0; freed++ {
			came++
			ask(fmt.Sprint(came), "small", 1)
			(<-served["small"])()
			synctest.Wait()
		}
		if len(served["large"]) == 0 || freed != large {
			t.Fatalf("%d large ones are served after %d places became free", len(served["large"]), freed)
		}
		(<-served["large"])()
		for range came - freed { // the others follow
			(<-served["small"])()
		}
		if taken, waiting := p.Use(); taken != 0 || waiting != 0 {
			t.Errorf("%d taken, %d waiting at the end", taken, waiting)
		}
	})
}

func TestListsCountByTheirObjects(t *testing.T) {
	for objects, want := range map[int]int{0: 1, 1: 1, 100: 1, 101: 2, 999: 10, 10_000: 10, 1 << 40: 10} {
		if got := limit.Seats(objects); got != want {
			t.Errorf("a list of %d objects counts as %d requests, want %d", objects, got, want)
		}
	}
}

// One user's work that takes long does not keep others from a processor, on any machine.
func TestNoUserHoldsTheLastProcessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.NewLoad(limit.Requests{}, limit.NewRefusals())
		for range 3 {
			ctx, leave := context.WithCancel(t.Context())
			ended := make(chan struct{})
			for range 40 {
				go func() { // ends when it has left
					if give, err := l.Take(ctx, l.Processors, "alice"); err == nil {
						<-ended
						give()
					}
				}()
			}
			synctest.Wait()
			give, err := l.Take(t.Context(), l.Processors, "bob")
			if err != nil {
				t.Errorf("bob, while alice has all that she may have: %v", err)
			} else {
				give()
			}
			leave()
			close(ended)
			synctest.Wait()
		}
	})
}

// Upstream's clients send as many at once as they have, and retry what was refused.
func TestABurstOfCostlyRequestsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.NewLoad(limit.Requests{}, limit.NewRefusals())
		const burst, each = 100, 100 * time.Millisecond
		ended := make(chan error, burst)
		for range burst {
			go func() { // ends with its work
				costly, err := l.Take(t.Context(), l.Costly, "alice")
				if err == nil {
					defer costly()
					var give func()
					if give, err = l.Take(t.Context(), l.Processors, "alice"); err == nil {
						<-time.After(each)
						give()
					}
				}
				ended <- err
			}()
		}
		synctest.Wait()
		if give, err := l.Take(t.Context(), l.Writing, "alice"); err != nil {
			t.Errorf("a small request beside the burst: %v", err)
		} else {
			give()
		}
		began, served := time.Now(), 0
		for range burst {
			switch err := <-ended; {
			case err == nil:
				served++
			case time.Since(began) < 5*time.Second:
				t.Errorf("refused after %v: %v", time.Since(began), err)
			}
		}
		if served < burst/2 {
			t.Errorf("%d of %d were served", served, burst)
		}
	})
}
