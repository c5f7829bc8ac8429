package transition

import (
	"strings"
	"testing"
	"time"

	"github.com/gapless-io/gapless/kube"
)

func TestInvalidTuningIsAnError(t *testing.T) {
	if err := (Tuning{}).Validate(); err != nil {
		t.Errorf("nothing set: %v", err)
	}
	if err := Defaults().Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	for _, c := range []struct {
		name   string
		change func(*Tuning)
		want   string
	}{
		{"no least backoff", func(t *Tuning) { t.BackoffLeast = 0 }, "the least backoff is 0s"},
		{"a negative one", func(t *Tuning) { t.BackoffLeast = -time.Second }, "the least backoff is -1s"},
		{"no largest backoff", func(t *Tuning) { t.BackoffMost = 0 }, "the largest backoff is 0s"},
		{
			"the largest below the least", func(t *Tuning) { t.BackoffMost = time.Millisecond },
			"1ms is less than the least, 800ms",
		},
		{"no deadline", func(t *Tuning) { t.SyncDeadline = 0 }, "the deadline of a streaming list is 0s"},
		{"no silence", func(t *Tuning) { t.Silence = -1 }, "the watchdog's silence is -1ns"},
	} {
		tuning := Defaults()
		c.change(&tuning)
		if err := tuning.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", c.name, err, c.want)
		}
	}
}

func TestBackoffGrowsFromItsMinimumToItsMaximum(t *testing.T) {
	s := State{Phase: Listing, Tuning: Defaults()}
	s.Tuning.BackoffLeast, s.Tuning.BackoffMost = time.Second, 5*time.Second
	var got []time.Duration
	for range 5 {
		var st Step
		s.Phase = Listing
		s, st = Next(s, Result{Kind: ResultFailed, Outcome: kube.OutcomeRefused})
		got = append(got, st.Wait)
		if st.Extra < 0 || st.Extra >= st.Spread || st.Spread != st.Wait/2 {
			t.Errorf("%+v", st)
		}
	}
	for n, want := range []time.Duration{1, 2, 4, 5, 5} {
		if got[n] != want*time.Second {
			t.Errorf("pauses %v", got)
		}
	}
	long := State{Phase: Listing, Tuning: Tuning{BackoffLeast: 1 << 60, BackoffMost: 1<<63 - 1}, failures: 1000}
	if _, st := Next(long, Result{Kind: ResultFailed}); st.Wait != 1<<63-1 {
		t.Errorf("a backoff of centuries is %v", st.Wait)
	}
}

func TestTheWatchdogFollowsTheBookmarkIntervals(t *testing.T) {
	now := time.Unix(0, 0)
	until := now.Add(7 * time.Minute)
	for _, c := range []struct {
		name   string
		s      State
		marked bool
		want   time.Duration
	}{
		{"without bookmarks only the watch's end counts", State{}, false, 7*time.Minute + WatchGrace},
		{"an earlier watch had bookmarks", State{Cadence: true}, false, 90 * time.Second},
		{"this watch has bookmarks", State{}, true, 90 * time.Second},
		{"twice the silence after a silent watch", State{Cadence: true, silent: 1}, false, 3 * time.Minute},
		{"four times after two", State{Cadence: true, silent: 2}, false, 6 * time.Minute},
		{"at most until the watch's end", State{Cadence: true, silent: 100}, false, 7*time.Minute + WatchGrace},
		{"the configured silence after a bookmark", State{Cadence: true, silent: 100}, true, 90 * time.Second},
		{"a silence longer than the watch", State{Tuning: Tuning{Silence: time.Hour}}, true, 7*time.Minute + WatchGrace},
	} {
		if got := c.s.Deadline(now, until, c.marked).Sub(now); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestReflectorsWithDifferentSeedsActAtDifferentTimes(t *testing.T) {
	const n = 1000
	slots := map[time.Duration]int{}
	for seed := range uint64(n) {
		_, st := Next(State{Phase: Watching, RV: "9", Seed: seed << 32}, Result{Kind: ResultFailed, Outcome: kube.OutcomeExpired})
		slots[st.Extra*10/st.Spread]++
		again, _ := Next(State{Seed: seed}, Result{})
		if same, _ := Next(State{Seed: seed}, Result{}); again != same {
			t.Error("the same seed went another way")
		}
	}
	for slot, hits := range slots {
		if hits < n/20 || hits > n/5 {
			t.Errorf("%d of %d reflectors in tenth %d of the spread", hits, n, slot)
		}
	}
}
