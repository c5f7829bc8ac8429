package transition

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gapless-io/gapless/kube"
)

var (
	seed = flag.Uint64("seed", 0, "replay one walk (0: as many as -walks)")
	many = flag.Uint64("walks", 500, "how many walks each test takes")
)

var outcomes = func() []kube.Outcome {
	var all []kube.Outcome
	for o := kube.OutcomeUnknown; o <= kube.OutcomeCanceled; o++ {
		all = append(all, o)
	}
	return all
}()

// possible are the results that can come in each phase, without numbers.
var possible = func() map[Phase][]Result {
	all := map[Phase][]Result{}
	for p := Idle; p <= Stopped; p++ {
		all[p] = results(p)
	}
	return all
}()

// results are those that can come in a phase, without numbers.
func results(p Phase) []Result {
	var all []Result
	add := func(kinds ...Kind) {
		for _, k := range kinds {
			all = append(all, Result{Kind: k})
		}
	}
	switch p {
	case Idle, Stopped:
		add(ResultStart)
	case Waiting:
		add(ResultElapsed)
	case Listing:
		all = append(all, Result{Kind: ResultListed, RV: "9"}, Result{Kind: ResultListed, RV: "5"})
		add(ResultWentBack)
	case Streaming:
		all = append(all, Result{Kind: ResultStreamed, RV: "9"}, Result{Kind: ResultStreamed, RV: "5"})
		add(ResultSilent, ResultClosed, ResultWentBack)
	case Watching:
		add(ResultSilent, ResultClosed, ResultWentBack, ResultGap)
	}
	if p == Listing || p == Streaming || p == Watching {
		for _, o := range outcomes[2:] { // a failure is neither unknown to Classify nor OK
			all = append(all, Result{Kind: ResultFailed, Outcome: o})
		}
		all = append(all, Result{Kind: ResultFailed})
	}
	return all
}

// check says what is wrong with a step, whatever it follows from.
func check(from State, r Result, s State, st Step) error {
	phase := [...]Phase{
		DoList: Listing, DoStream: Streaming, DoWatch: Watching, DoRead: Watching, DoWait: Waiting, DoStop: Stopped,
	}
	most := max(from.Tuned().BackoffMost, min(r.RetryAfter, maxRetryAfter), watchPace*time.Duration(1+r.Asked))
	switch {
	case st.Do == 0 || phase[st.Do] != s.Phase:
		return fmt.Errorf("%v in phase %v", st.Do, s.Phase)
	case (st.Do == DoStop) != (r.Kind == ResultStopped || st.GiveUp), st.GiveUp && !from.Tuning.Stop4xx:
		return fmt.Errorf("%v, give up %t", st.Do, st.GiveUp)
	case st.Wait < 0 || st.Wait > most || st.Extra < 0 || st.Extra > st.Spread ||
		st.Spread > max(from.Tuned().BackoffMost/2, herdJitter):
		return fmt.Errorf("wait %v and %v of %v", st.Wait, st.Extra, st.Spread)
	case s.Phase == Waiting && s.Then != Listing && s.Then != Streaming && s.Then != Watching:
		return fmt.Errorf("then %v", s.Then)
	case (st.Do == DoWatch || st.Do == DoRead) && (s.RV == "" || st.RV != s.RV):
		return fmt.Errorf("watch from %q at %q", st.RV, s.RV)
	case (st.Do == DoWatch || st.Do == DoStream) != (st.Timeout >= MinWatchTimeout && st.Timeout < 2*MinWatchTimeout):
		return fmt.Errorf("timeout %v", st.Timeout)
	case from.Synced() && !s.Synced():
		return fmt.Errorf("the position is forgotten")
	case st.Probe != 0 && (st.Do != DoWatch || st.Probe != 1 && st.Probe != pageSize):
		return fmt.Errorf("%v compares %d objects", st.Do, st.Probe)
	case s.Back && !s.Anew, s.Phase == Watching && (s.Back || s.Anew):
		return fmt.Errorf("back %t, anew %t in phase %v", s.Back, s.Anew, s.Phase)
	case from.NoStream &&
		(!s.NoStream || st.Do == DoStream || s.Phase == Waiting && s.Then == Streaming && from.Then != Streaming):
		return fmt.Errorf("streaming lists are tried again")
	case r.Kind == ResultFailed && from.Phase != Waiting && from.Phase != Idle && from.Phase != Stopped && st.Incident == 0:
		return fmt.Errorf("%v is not reported", r.Outcome)
	case s.Tuning != from.Tuning:
		return fmt.Errorf("the tuning changed")
	}
	return nil
}

// TestNextIsTotal feeds every result, possible or not, to every state that differs
// in what the table looks at.
func TestNextIsTotal(t *testing.T) {
	t.Parallel()
	n := 0
	for _, p := range []Phase{Idle, Listing, Streaming, Watching, Waiting, Stopped} {
		for bits := range 1 << 9 {
			is := func(bit int) bool { return bits>>bit&1 == 1 }
			pick := func(bit, v int) int { return v * (bits >> bit & 1) }
			s := State{
				Phase: p, Then: Listing, quorum: is(1), unpaged: is(2), NoStream: is(3), Cadence: is(3),
				failures: pick(4, 50), quick: pick(5, 2), misses: pick(6, 2), broken: pick(5, 2), ahead: pick(5, 2),
				silent: pick(6, 9), regains: pick(7, 7),
				ask: int64(pick(4, pageSize)), missed: is(5), gaps: pick(6, 40), rested: time.Duration(pick(7, int(time.Hour))),
			}
			if p != Watching {
				s.Back, s.Anew = is(6) && is(7), is(7)
			}
			if is(0) {
				s.RV = "7"
			}
			if is(8) {
				s.Tuning = Defaults()
				s.Tuning.Stop4xx = true
			}
			if s.NoStream && p == Streaming || p == Watching && !s.Synced() {
				continue // these states cannot occur
			}
			for kind := ResultStart; kind <= ResultStopped; kind++ {
				with := outcomes
				if kind != ResultFailed {
					with = outcomes[:3] // the table must not look at them
				}
				for _, o := range with {
					for _, more := range []Result{
						{},
						{RV: "9", Frames: 1, Bookmarks: true, Opened: true},
						{RV: "5", Page: 1, Lived: time.Hour, Opened: true},
						{RetryAfter: 1 << 62},
						{RetryAfter: -1, Lived: time.Second},
						{ListNow: true},
					} {
						r := more
						r.Kind, r.Outcome = kind, o
						got, st := Next(s, r)
						if err := check(s, r, got, st); err != nil {
							t.Fatalf("%+v\nafter %+v:\n%v", s, r, err)
						}
						n++
					}
				}
			}
		}
	}
	t.Logf("%d pairs", n)
}

// walker follows the table in virtual time.
type walker struct {
	rng      *rand.Rand
	s        State
	st       Step
	now      time.Duration
	requests int
	pages    int // how many requests of a comparison count, at most
}

func newWalker(t *testing.T, rng *rand.Rand, s State) *walker {
	t.Helper()
	w := &walker{rng: rng, s: s}
	if err := w.take(Result{Kind: ResultStart}); err != nil {
		t.Fatalf("apply the result: %v", err)
	}
	return w
}

// take takes one step.
func (w *walker) take(r Result) error {
	from := w.s
	if r.Kind == ResultGap && !from.MayReread(r.Lived) {
		r.Kind = ResultClosed // the reflector reads on until the watch ends
	}
	w.requests += min(r.Asked, w.pages)
	w.s, w.st = Next(w.s, r)
	w.now += r.Lived
	switch w.st.Do {
	case DoList, DoStream, DoWatch:
		w.requests++
	case DoWait:
		w.now += w.st.Wait + w.st.Extra
	case DoRead, DoStop:
	}
	if err := check(from, r, w.s, w.st); err != nil {
		return fmt.Errorf("%+v\nafter %+v: %w", from, r, err)
	}
	return nil
}

// anything is a result that can come now. Without health nothing is said, and no watch
// lives for long.
func (w *walker) anything(health bool) Result {
	all := possible[w.s.Phase]
	r := all[w.rng.IntN(len(all))]
	if w.s.Phase == Watching || w.s.Phase == Streaming {
		r.Lived = []time.Duration{0, 0, time.Millisecond, time.Second}[w.rng.IntN(4)]
	}
	if r.Kind == ResultSilent {
		r.Lived = time.Minute
	}
	r.Opened = r.Kind == ResultSilent || r.Kind == ResultClosed || r.Kind == ResultWentBack || r.Kind == ResultGap
	r.Probed = r.Opened && w.rng.IntN(2) == 0
	if w.st.Probe > 0 && r.Opened {
		r.Asked = 1 + w.rng.IntN(2)*w.rng.IntN(20)
	}
	r.Gap = r.Kind == ResultGap || r.Opened && w.rng.IntN(8) == 0
	if r.Kind == ResultFailed {
		r.Page = w.rng.IntN(2)
		if w.rng.IntN(8) == 0 {
			r.RetryAfter = time.Duration(w.rng.IntN(100)) * time.Second
		}
	}
	if health && w.s.Phase == Watching {
		r.Frames, r.Opened = w.rng.IntN(3), true
		r.Bookmarks = r.Frames > 1
		r.RV = []string{"", "9", "10"}[w.rng.IntN(3)]
		if w.rng.IntN(3) == 0 {
			r.Lived = time.Duration(w.rng.IntN(600)) * time.Second
		}
	}
	return r
}

// plan is a server that always does the same: for each phase a few results, in turn.
type plan map[Phase][]Result

func (p plan) next(w *walker, health bool) Result {
	all := p[w.s.Phase]
	if all == nil {
		for range 1 + w.rng.IntN(4) {
			all = append(all, w.anything(health))
		}
	}
	p[w.s.Phase] = append(all[1:], all[0])
	return all[0]
}

// walks calls f with as many random sources as -walks says and says how to replay one
// that fails.
func walks(t *testing.T, f func(t *testing.T, rng *rand.Rand)) {
	t.Helper()
	first, last := uint64(1), *many
	if *seed != 0 {
		first, last = *seed, *seed
	}
	for n := first; n <= last; n++ {
		f(t, rand.New(rand.NewPCG(n, 4)))
		if t.Failed() {
			t.Fatalf("replay with -run %s -seed %d", t.Name(), n)
		}
	}
}

// TestEveryStateLeadsToAWatchOnAHealthyServer: from wherever failures led, at most
// one wait, one list and one watch.
func TestEveryStateLeadsToAWatchOnAHealthyServer(t *testing.T) {
	t.Parallel()
	walks(t, func(t *testing.T, rng *rand.Rand) {
		w := newWalker(t, rng, State{Seed: rng.Uint64(), NoStream: rng.IntN(3) == 0})
		for range rng.IntN(200) {
			r := w.anything(rng.IntN(2) == 0)
			if rng.IntN(20) == 0 {
				r = Result{Kind: ResultStopped}
			}
			if err := w.take(r); err != nil {
				t.Fatalf("apply the result: %v", err)
			}
		}
		begun, steps, waits := w.now, 0, 0
		waited := w.st.Wait + w.st.Extra // counted already
		for w.st.Do != DoRead && w.st.Do != DoWatch {
			var r Result
			switch w.st.Do {
			case DoList:
				r = Result{Kind: ResultListed, RV: "20"}
			case DoStream:
				r = Result{Kind: ResultStreamed, RV: "20"}
			case DoWait:
				r, waits = Result{Kind: ResultElapsed}, waits+1
			case DoStop:
				r = Result{Kind: ResultStart}
			case DoRead, DoWatch:
			}
			if err := w.take(r); err != nil {
				t.Fatalf("apply the result: %v", err)
			}
			if steps++; steps > 4 {
				t.Fatalf("not watching after %d steps: %+v", steps, w.s)
			}
		}
		if took := waited + w.now - begun; waits > 1 || took > 145*time.Second || !w.s.Synced() {
			t.Fatalf("watching after %v and %d waits: %+v", took, waits, w.s)
		}
		// And it stays: a day of watches that the server ends is a day without a list.
		for range 100 {
			if err := w.take(Result{Kind: ResultClosed, Opened: true, Lived: 10 * time.Minute, Frames: 1, RV: "30"}); err != nil {
				t.Fatalf("apply the result: %v", err)
			}
			if w.st.Do != DoWatch || w.st.Incident != 0 {
				t.Fatalf("%+v", w.st)
			}
		}
		if w.s.failures+w.s.quick+w.s.ahead+w.s.broken+w.s.silent+w.s.regains+w.s.gaps != 0 {
			t.Fatalf("a failure is not forgotten: %+v", w.s)
		}
	})
}

// TestAFailingServerGetsABoundedRateOfRequests searches for the most requests that a server
// can bring upon itself, among those that keep doing the same.
func TestAFailingServerGetsABoundedRateOfRequests(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		health bool
		per    time.Duration // a request, at least, in the long run
		pages  int
	}{
		{"without health", false, maxBackoff / 4, 2}, // as list, watch and comparison, which counts as two
		{"whatever happens", true, 800 * time.Millisecond, 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			densest := time.Duration(1 << 62)
			walks(t, func(t *testing.T, rng *rand.Rand) {
				s := State{Seed: rng.Uint64(), NoStream: rng.IntN(2) == 0}
				if rng.IntN(2) == 0 {
					s.RV = "9"
				}
				w, p := newWalker(t, rng, s), plan{}
				w.pages = c.pages
				// A walk that comes below the bound goes on: waits are random.
				const warm, steps, most = 60, 300, 30000
				per := time.Duration(0)
				for n := 1; n < warm+steps || per < c.per && n < most; n++ {
					if n == warm {
						w.now, w.requests = 0, 0
					}
					if err := w.take(p.next(w, c.health)); err != nil {
						t.Fatalf("apply the result: %v", err)
					}
					per = w.now / time.Duration(max(w.requests, 1))
				}
				densest = min(densest, per)
				if per < c.per {
					t.Errorf("%d requests in %v, one in %v:\n%+v", w.requests, w.now, per, p)
				}
			})
			t.Logf("at worst one request in %v", densest)
		})
	}
}

// TestADayOfOutageCosts2310Requests: client-go 0.37 makes 4 526 requests in the same day.
func TestADayOfOutageCosts2310Requests(t *testing.T) {
	for name, s := range map[string]State{"at the start": {}, "while watching": {Phase: Stopped, RV: "9"}} {
		for _, o := range []kube.Outcome{
			kube.OutcomeRefused, kube.OutcomeServerError, kube.OutcomeTimeout, kube.OutcomeForbidden, kube.OutcomeExpired,
			kube.OutcomeTooLarge, kube.OutcomeInvalid, kube.OutcomeDecode, kube.OutcomeTooManyRequests,
		} {
			w := newWalker(t, nil, s)
			for w.now < 24*time.Hour {
				r := Result{Kind: ResultFailed, Outcome: o}
				if w.st.Do == DoWait {
					r = Result{Kind: ResultElapsed}
				}
				if err := w.take(r); err != nil {
					t.Fatalf("apply the result: %v", err)
				}
			}
			if w.requests < 2000 || w.requests > 2400 {
				t.Errorf("%s, %v: %d requests in a day", name, o, w.requests)
			}
			t.Logf("%s, %v: %d requests", name, o, w.requests)
		}
	}
}
