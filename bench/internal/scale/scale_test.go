package scale_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/gapless-io/gapless/bench/internal/scale"
)

var costs = scale.Costs{
	Write: 100 * time.Microsecond, Serial: 15 * time.Microsecond, Mirror: 50 * time.Microsecond,
	Event: 20 * time.Microsecond, Idle: 35e3,
}

func TestPlanHasAsManyServersAsTheLoadNeeds(t *testing.T) {
	eight := scale.Machine{Processors: 8, Share: 0.5, Memory: 4e9}
	for name, c := range map[string]struct {
		load scale.Load
		want []int // servers of each tier
	}{
		"one server":        {scale.Load{Watchers: 1000, Changes: 1, Within: time.Second}, []int{1}},
		"bounded by delay":  {scale.Load{Watchers: 1_000_000, Changes: 1, Within: 100 * time.Millisecond}, []int{1, 25}},
		"bounded by CPU":    {scale.Load{Watchers: 1_000_000, Changes: 10, Within: 100 * time.Millisecond}, []int{1, 51}},
		"bounded by memory": {scale.Load{Watchers: 1_000_000, Changes: 0.01, Within: time.Hour}, []int{1, 9}},
		"relays before them": {
			scale.Load{Watchers: 1_000_000, Changes: 1000, Within: 100 * time.Millisecond}, []int{1, 26, 5077},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tiers, err := scale.Plan(costs, c.load, eight)
			if err != nil {
				t.Fatalf("plan: %v", err)
			}
			watchers := 1
			for i, tier := range tiers {
				if i >= len(c.want) || tier.Servers != c.want[i] || len(tiers) != len(c.want) {
					t.Fatalf("%+v, want %v servers", tiers, c.want)
				}
				if tier.Used > eight.Share*1.001 || tier.Memory > eight.Memory || tier.Servers < watchers {
					t.Errorf("tier %d has too much to do: %+v", i, tier)
				}
				watchers = tier.Servers
			}
			if last := tiers[len(tiers)-1]; last.Servers*last.Watchers < c.load.Watchers {
				t.Errorf("%+v are not enough", last)
			}
		})
	}
}

func TestWhatNoTreeCanDoIsRefused(t *testing.T) {
	two := scale.Machine{Processors: 2, Share: 0.5, Memory: 1e9}
	for _, c := range []struct {
		load scale.Load
		want error
	}{
		{scale.Load{Watchers: 1, Changes: 100_000, Within: time.Second}, scale.ErrWrites},
		{scale.Load{Watchers: 1, Changes: 20_000, Within: time.Second}, scale.ErrServer},
		{scale.Load{Watchers: 10, Changes: 1, Within: time.Microsecond}, scale.ErrServer},
	} {
		if tiers, err := scale.Plan(costs, c.load, two); !errors.Is(err, c.want) {
			t.Errorf("%+v: %+v, %v, want %v", c.load, tiers, err, c.want)
		}
	}
	if _, err := scale.Plan(costs, scale.Load{}, two); err == nil {
		t.Error("an empty load is planned")
	}
}

// TestPlayAgreesWithQueueingTheory: one server with one processor and one watcher is a queue M/G/1, of which the mean time
// is known (Pollaczek and Khinchine).
func TestPlayAgreesWithQueueingTheory(t *testing.T) {
	one := scale.Machine{Processors: 1, Share: 0.6, Memory: 1e9}
	c := scale.Costs{Write: 0, Event: time.Millisecond, Idle: 1}
	for _, rate := range []float64{1, 300, 600} {
		l := scale.Load{Watchers: 1, Changes: rate, Within: time.Second}
		tiers, err := scale.Plan(c, l, one)
		if err != nil {
			t.Fatalf("plan: %v", err)
		}
		const n = 200_000
		got := scale.Play(c, tiers, l, one, n, 1)
		used := rate / 1000
		variance := 0.25 * (1 - 11*math.Exp(-5)) // of 0.5 + min(exponential, 5)/2, near enough
		wait := used * (1 + variance) / (2 * (1 - used))
		// The median of waiting and working is below the mean, and above the least piece of work.
		if mean := 1 + wait; got.Events != n || got.P50.Seconds()*1000 > mean || got.P50 < time.Millisecond/2 {
			t.Errorf("%v/s: %+v, the mean is %.2f ms", rate, got, mean)
		}
		if used < 0.1 && got.P99 > 4*time.Millisecond || used > 0.5 && got.P99 < 3*time.Millisecond {
			t.Errorf("%v/s: %+v", rate, got)
		}
	}
}

func TestATierDelaysByWhatItsWatchersCost(t *testing.T) {
	eight := scale.Machine{Processors: 8, Share: 0.5, Memory: 8e9}
	l := scale.Load{Watchers: 200_000, Changes: 1, Within: 100 * time.Millisecond}
	tiers, err := scale.Plan(costs, l, eight)
	if err != nil || len(tiers) != 2 {
		t.Fatalf("plan: %+v, %v", tiers, err)
	}
	got := scale.Play(costs, tiers, l, eight, 5, 1)
	all := time.Duration(tiers[1].Watchers) * costs.Event / 8 // until the last has it
	if got.Most < all*9/10 || got.P50 < all*4/10 || got.P50 > all*7/10 {
		t.Errorf("%+v, but the last tier takes %v", got, all)
	}
	if again := scale.Play(costs, tiers, l, eight, 5, 1); again != got {
		t.Errorf("the same seed: %+v and %+v", got, again)
	}
}
