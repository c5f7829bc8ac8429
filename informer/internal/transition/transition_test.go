package transition

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gapless-io/gapless/informer/internal/incident"
	"github.com/gapless-io/gapless/kube"
)

const ms = time.Millisecond

var (
	watching  = State{Phase: Watching, RV: "9"}
	listing   = State{Phase: Listing, RV: "9"}
	first     = State{Phase: Listing}
	streaming = State{Phase: Streaming, RV: "9"}
)

// nextCase is one row of the table.
type nextCase struct {
	name  string
	from  State
	r     Result
	want  State
	steps Step
}

func with(s State, change func(*State)) State {
	change(&s)
	return s
}

func waiting(s State, then Phase, failures int) State {
	s.Phase, s.Then, s.failures = Waiting, then, failures
	return s
}

func doubting(s State) State { return with(s, func(s *State) { s.ask = pageSize }) }

func picky(s *State) { s.Tuning = Defaults(); s.Tuning.Stop4xx = true }

func fails(o kube.Outcome) Result { return Result{Kind: ResultFailed, Outcome: o} }

func after(d time.Duration, why incident.Kind) Step {
	return Step{Do: DoWait, Wait: d, Spread: d / 2, Incident: why}
}

func now(why incident.Kind) Step { return Step{Do: DoWait, Spread: herdJitter, Incident: why} }

// TestNextFollowsTheTable is the reflector's whole life, case by case.
func TestNextFollowsTheTable(t *testing.T) {
	random := cmpopts.IgnoreFields(Step{}, "Extra", "Timeout")
	for _, c := range slices.Concat(
		startCases(), expiredCases(), tooLargeCases(), endCases(), refusalCases(),
		probeCases(), givingUpCases(), unsupportedCases(), undecodableCases(), stopCases(),
	) {
		t.Run(c.name, func(t *testing.T) {
			got, st := Next(c.from, c.r)
			want := c.want
			if got.Phase != Waiting {
				want.Then = got.Then // a leftover without a meaning
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(State{}),
				cmpopts.IgnoreFields(State{}, "Seed", "quiet")); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.steps, st, random); diff != "" {
				t.Errorf("step (-want +got):\n%s", diff)
			}
		})
	}
}

// startCases are about the first state.
func startCases() []nextCase {
	return []nextCase{
		{"start asks for a streaming list", State{}, Result{Kind: ResultStart}, State{Phase: Streaming}, Step{Do: DoStream}},
		{
			"start without streaming lists takes what the cache has",
			State{NoStream: true},
			Result{Kind: ResultStart},
			with(first, func(s *State) { s.NoStream = true }),
			Step{Do: DoList, RV: "0", Limit: pageSize},
		},
		{
			"a second start goes on from the position",
			State{Phase: Stopped, RV: "9"},
			Result{Kind: ResultStart},
			with(watching, func(s *State) { s.ask = 1 }),
			Step{Do: DoWatch, RV: "9", Probe: 1},
		},
		{"a list leads to a watch", first, Result{Kind: ResultListed, RV: "9"}, watching, Step{Do: DoWatch, RV: "9"}},
		{
			"an end bookmark leads on in the same stream",
			State{Phase: Streaming},
			Result{Kind: ResultStreamed, RV: "9"},
			watching,
			Step{Do: DoRead, RV: "9"},
		},
		{
			"a list does not reset the backoff", with(first, func(s *State) { s.failures = 3 }),
			Result{Kind: ResultListed, RV: "9"},
			with(watching, func(s *State) { s.failures = 3 }),
			Step{Do: DoWatch, RV: "9"},
		},
	}
}

// expiredCases have a 410 in its three places, and on a continue token.
func expiredCases() []nextCase {
	return []nextCase{
		{
			"410 in the stream: the state again, at once, not older", watching, fails(kube.OutcomeExpired),
			with(waiting(watching, Streaming, 1), func(s *State) { s.regains = 1 }), now(incident.Gone),
		},
		{
			"410 after an outage: at once too", with(watching, func(s *State) { s.failures = 6 }), fails(kube.OutcomeExpired),
			with(waiting(watching, Streaming, 6), func(s *State) { s.regains = 1 }), now(incident.Gone),
		},
		{
			"410 again without health: quorum, with backoff", with(watching, func(s *State) { s.regains, s.failures = 3, 1 }),
			fails(kube.OutcomeExpired), with(waiting(watching, Streaming, 2), func(s *State) { s.regains, s.quorum = 4, true }),
			after(1600*ms, incident.Gone),
		},
		{
			"410 again after a short watch: quorum at once", with(watching, func(s *State) { s.regains, s.failures = 2, 3 }),
			fails(kube.OutcomeExpired), with(waiting(watching, Streaming, 3), func(s *State) { s.regains, s.quorum = 3, true }),
			now(incident.Gone),
		},
		{
			"410 on a list: quorum at once", listing, fails(kube.OutcomeExpired),
			with(waiting(listing, Streaming, 1), func(s *State) { s.quorum = true }), now(incident.Gone),
		},
		{
			"410 on a quorum list: backoff", with(listing, func(s *State) { s.quorum, s.NoStream = true, true }),
			fails(kube.OutcomeExpired), with(waiting(listing, Listing, 1), func(s *State) { s.quorum, s.NoStream = true, true }),
			after(800*ms, incident.Gone),
		},
		{
			"410 on a streaming list: quorum at once", streaming, fails(kube.OutcomeExpired),
			with(waiting(streaming, Streaming, 1), func(s *State) { s.quorum, s.misses = true, 1 }), now(incident.Gone),
		},
		{
			"410 on a page: all at once, without pages", first,
			Result{Kind: ResultFailed, Outcome: kube.OutcomeExpired, Page: 2},
			with(waiting(first, Listing, 1), func(s *State) { s.unpaged = true }), now(incident.Gone),
		},
		{
			"the wait ends in a list without pages", with(waiting(first, Listing, 1), func(s *State) { s.unpaged = true }),
			Result{Kind: ResultElapsed},
			State{Phase: Listing, Then: Listing, failures: 1, unpaged: true},
			Step{Do: DoList, RV: "0"},
		},
		{
			"quorum is a list without a version, in pages",
			with(waiting(listing, Listing, 1), func(s *State) { s.quorum = true }),
			Result{Kind: ResultElapsed},
			with(listing, func(s *State) { s.Then, s.failures, s.quorum = Listing, 1, true }),
			Step{Do: DoList, Limit: pageSize},
		},
		{
			"a re-list is not older than the position, whole", waiting(listing, Listing, 1),
			Result{Kind: ResultElapsed},
			with(listing, func(s *State) { s.Then, s.failures = Listing, 1 }),
			Step{Do: DoList, RV: "9"},
		},

		{
			"410 on the first list: quorum at once", first, fails(kube.OutcomeExpired),
			with(waiting(State{}, Streaming, 1), func(s *State) { s.quorum = true }), now(incident.Gone),
		},
		{
			"410 on a page though there should be none: quorum at once, which is the last way",
			with(first, func(s *State) { s.unpaged, s.NoStream = true, true }),
			Result{Kind: ResultFailed, Outcome: kube.OutcomeExpired, Page: 2},
			with(waiting(State{}, Listing, 1), func(s *State) { s.unpaged, s.NoStream, s.quorum = true, true, true }),
			now(incident.Gone),
		},
		{
			"400 on a continue token: all at once, without pages", first,
			Result{Kind: ResultFailed, Outcome: kube.OutcomeInvalid, Page: 1},
			with(waiting(first, Listing, 1), func(s *State) { s.unpaged = true }), now(incident.Rejected),
		},
		{
			"a start whose position was refused reads the state",
			State{Phase: Stopped, RV: "9", quorum: true},
			Result{Kind: ResultStart},
			with(streaming, func(s *State) { s.quorum = true }),
			Step{Do: DoStream},
		},
	}
}

// tooLargeCases are about versions that the server has not reached.
func tooLargeCases() []nextCase {
	return []nextCase{
		{
			"too large in a watch: watch again", watching, fails(kube.OutcomeTooLarge),
			with(waiting(watching, Watching, 1), func(s *State) { s.ahead = 1 }), after(800*ms, incident.TooLarge),
		},
		{
			"too large three times: the server's state", with(watching, func(s *State) { s.ahead = 2 }),
			fails(kube.OutcomeTooLarge),
			with(waiting(watching, Streaming, 1), func(s *State) { s.quorum, s.Anew, s.regains = true, true, 1 }),
			after(800*ms, incident.TooLarge),
		},
		{
			"too large in a list: quorum at once, whatever Retry-After", listing,
			Result{Kind: ResultFailed, Outcome: kube.OutcomeTooLarge, RetryAfter: time.Second},
			with(waiting(listing, Streaming, 1), func(s *State) { s.quorum = true }), now(incident.TooLarge),
		},
	}
}

// endCases are ends of a watch.
func endCases() []nextCase {
	return []nextCase{
		{
			"a clean end: watch again at once", watching,
			Result{Kind: ResultClosed, RV: "12", Frames: 3, Lived: time.Minute, Opened: true},
			with(watching, func(s *State) { s.RV = "12" }),
			Step{Do: DoWatch, RV: "12"},
		},
		{
			"a clean end without events after a while: the same", watching,
			Result{Kind: ResultClosed, RV: "9", Lived: 5 * time.Second, Opened: true},
			watching,
			Step{Do: DoWatch, RV: "9"},
		},
		{
			"an end after one event in no time: paced", watching,
			Result{Kind: ResultClosed, RV: "12", Frames: 1, Lived: 100 * ms, Opened: true},
			with(waiting(watching, Watching, 0), func(s *State) { s.RV = "12" }),
			Step{Do: DoWait, Wait: 900 * ms, Spread: herdJitter},
		},
		{
			"a very short watch: backoff and watch, no list", watching,
			Result{Kind: ResultClosed, RV: "9", Lived: 10 * ms, Opened: true},
			with(waiting(watching, Watching, 1), func(s *State) { s.quick = 1 }), after(800*ms, incident.ShortWatch),
		},
		{
			"three of them in a row: a 410 that was not said", with(watching, func(s *State) { s.quick, s.failures = 2, 2 }),
			Result{Kind: ResultClosed, RV: "9", Lived: 10 * ms, Opened: true},
			with(waiting(watching, Streaming, 2), func(s *State) { s.regains = 1 }), now(incident.SilentGone),
		},
		{
			"a break after events: watch again almost at once", with(watching, func(s *State) { s.failures = 4 }),
			Result{Kind: ResultFailed, Outcome: kube.OutcomeDisconnected, RV: "12", Frames: 2, Lived: time.Minute, Opened: true},
			with(waiting(watching, Watching, 1), func(s *State) { s.RV = "12" }), now(incident.Disconnected),
		},
		{
			"a break without a sign of health: backoff grows", with(watching, func(s *State) { s.failures = 4 }),
			Result{Kind: ResultFailed, Outcome: kube.OutcomeDisconnected, Lived: time.Second, Opened: true},
			waiting(watching, Watching, 5), after(12800*ms, incident.Disconnected),
		},
		{
			"the backoff ends at 30 s", with(watching, func(s *State) { s.failures = 40 }), fails(kube.OutcomeRefused),
			doubting(waiting(watching, Watching, 41)), after(30*time.Second, incident.Refused),
		},
		{
			"silence: watch again", watching,
			Result{Kind: ResultSilent, RV: "9", Lived: 2 * time.Minute, Opened: true},
			with(waiting(watching, Watching, 0), func(s *State) { s.silent, s.ask = 1, 1 }), now(incident.Silent),
		},
		{
			"silence again: at once too, and the backoff is as it was",
			with(watching, func(s *State) { s.silent, s.Cadence, s.failures = 1, true, 3 }),
			Result{Kind: ResultSilent, Lived: 2 * time.Minute, Opened: true},
			with(waiting(watching, Watching, 3), func(s *State) { s.silent, s.Cadence, s.ask = 2, true, 1 }),
			now(incident.Silent),
		},
		{
			"silence after events: at once, and it was well",
			with(watching, func(s *State) { s.silent, s.failures, s.regains = 2, 3, 1 }),
			Result{Kind: ResultSilent, RV: "12", Frames: 3, Lived: 2 * time.Minute, Opened: true},
			with(waiting(watching, Watching, 0), func(s *State) { s.RV, s.silent, s.ask = "12", 1, 1 }), now(incident.Silent),
		},
		{
			"bookmarks are remembered", watching,
			Result{Kind: ResultClosed, RV: "12", Frames: 1, Bookmarks: true, Lived: time.Minute, Opened: true},
			with(watching, func(s *State) { s.RV, s.Cadence = "12", true }),
			Step{Do: DoWatch, RV: "12"},
		},
		{
			"a bookmark before the position: the server's state", watching,
			Result{Kind: ResultWentBack, RV: "9", Frames: 1, Lived: time.Minute, Opened: true},
			with(waiting(watching, Streaming, 1), func(s *State) { s.quorum, s.Back, s.Anew, s.regains = true, true, true, 1 }),
			now(incident.WentBack),
		},
		{
			"a state before the position is said", with(listing, func(s *State) { s.quorum = true }),
			Result{Kind: ResultListed, RV: "5"},
			State{Phase: Watching, RV: "5"},
			Step{Do: DoWatch, RV: "5", Incident: incident.WentBack},
		},
	}
}

// refusalCases are answers that refuse a request.
func refusalCases() []nextCase {
	return []nextCase{
		{
			"429 waits as long as asked", watching,
			Result{Kind: ResultFailed, Outcome: kube.OutcomeTooManyRequests, RetryAfter: 7 * time.Second},
			waiting(watching, Watching, 1),
			Step{Do: DoWait, Wait: 7 * time.Second, Spread: 400 * ms, Incident: incident.Throttled},
		},
		{
			"429 on a list", listing,
			Result{Kind: ResultFailed, Outcome: kube.OutcomeTooManyRequests, RetryAfter: 7 * time.Second},
			waiting(listing, Listing, 1),
			Step{Do: DoWait, Wait: 7 * time.Second, Spread: 400 * ms, Incident: incident.Throttled},
		},
		{
			"429 on a streaming list", streaming,
			Result{Kind: ResultFailed, Outcome: kube.OutcomeTooManyRequests},
			waiting(streaming, Streaming, 1), after(800*ms, incident.Throttled),
		},
		{
			"connection refused: watch again", watching, fails(kube.OutcomeRefused), doubting(waiting(watching, Watching, 1)),
			after(800*ms, incident.Refused),
		},
		{
			"connection refused at the start",
			State{Phase: Streaming},
			fails(kube.OutcomeRefused),
			waiting(State{}, Streaming, 1), after(800*ms, incident.Refused),
		},
		{
			"403 on a watch", watching, fails(kube.OutcomeForbidden), doubting(waiting(watching, Watching, 1)),
			after(800*ms, incident.Denied),
		},
		{"401 on a list", listing, fails(kube.OutcomeUnauthorized), waiting(listing, Listing, 1), after(800*ms, incident.Denied)},
		{
			"404 on a streaming list is no reason to list", streaming, fails(kube.OutcomeNotFound),
			waiting(streaming, Streaming, 1), after(800*ms, incident.NotServed),
		},
		{
			"404 on a watch", watching, fails(kube.OutcomeNotFound), doubting(waiting(watching, Watching, 1)),
			after(800*ms, incident.NotServed),
		},
		{
			"500 in the stream", watching,
			Result{Kind: ResultFailed, Outcome: kube.OutcomeServerError, Frames: 1, RV: "12", Lived: 200 * ms, Opened: true},
			with(waiting(watching, Watching, 1), func(s *State) { s.RV = "12" }),
			Step{Do: DoWait, Wait: 800 * ms, Spread: herdJitter, Incident: incident.ServerError},
		},
		{
			"400 on a watch: the version is not taken", watching, fails(kube.OutcomeInvalid),
			with(waiting(watching, Streaming, 1), func(s *State) { s.quorum, s.Anew, s.regains = true, true, 1 }),
			after(800*ms, incident.Rejected),
		},
		{
			"400 on a list not older than: without the version", listing, fails(kube.OutcomeInvalid),
			with(waiting(listing, Streaming, 1), func(s *State) { s.quorum = true }), now(incident.Rejected),
		},

		{
			"a year of Retry-After is ten minutes", watching,
			Result{Kind: ResultFailed, Outcome: kube.OutcomeTooManyRequests, RetryAfter: 365 * 24 * time.Hour},
			waiting(watching, Watching, 1),
			Step{Do: DoWait, Wait: maxRetryAfter, Spread: 400 * ms, Incident: incident.Throttled},
		},
		{
			"a refusal that took long is no sign of health", with(watching, func(s *State) { s.failures = 2 }),
			Result{Kind: ResultFailed, Outcome: kube.OutcomeServerError, Lived: 40 * time.Second},
			doubting(waiting(watching, Watching, 3)), after(3200*ms, incident.ServerError),
		},
	}
}
