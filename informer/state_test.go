package informer

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/kube"
)

// TestNextSaysWhatFollows is the reflector's whole life, case by case.
func TestNextSaysWhatFollows(t *testing.T) {
	const ms = time.Millisecond
	watching := state{phase: phaseWatching, rv: "9"}
	listing := state{phase: phaseListing, rv: "9"}
	first := state{phase: phaseListing}
	streaming := state{phase: phaseStreaming, rv: "9"}
	with := func(s state, change func(*state)) state {
		change(&s)
		return s
	}
	waiting := func(s state, then phase, failures int) state {
		s.phase, s.then, s.failures = phaseWaiting, then, failures
		return s
	}
	fails := func(o kube.Outcome) result { return result{kind: resultFailed, outcome: o} }
	wait := func(d time.Duration, why IncidentKind) step {
		return step{do: doWait, wait: d, spread: d / 2, incident: why}
	}
	now := func(why IncidentKind) step { return step{do: doWait, spread: herdJitter, incident: why} }

	for _, c := range []struct {
		name  string
		from  state
		r     result
		want  state
		steps step
	}{
		// The first state.
		{"start asks for a streaming list", state{}, result{kind: resultStart}, state{phase: phaseStreaming}, step{do: doStream}},
		{"start without streaming lists takes what the cache has", state{noStream: true}, result{kind: resultStart}, with(first, func(s *state) { s.noStream = true }), step{do: doList, rv: "0", limit: pageSize}},
		{"a second start goes on from the position", state{phase: phaseStopped, rv: "9"}, result{kind: resultStart}, watching, step{do: doWatch, rv: "9"}},
		{"a list leads to a watch", first, result{kind: resultListed, rv: "9"}, watching, step{do: doWatch, rv: "9"}},
		{"an end bookmark leads on in the same stream", state{phase: phaseStreaming}, result{kind: resultStreamed, rv: "9"}, watching, step{do: doRead, rv: "9"}},
		{"a list does not reset the backoff", with(first, func(s *state) { s.failures = 3 }), result{kind: resultListed, rv: "9"}, with(watching, func(s *state) { s.failures = 3 }), step{do: doWatch, rv: "9"}},

		// 410 in its three places, and on a continue token.
		{"410 in the stream: the state again, at once, not older", watching, fails(kube.OutcomeExpired), with(waiting(watching, phaseStreaming, 1), func(s *state) { s.regains = 1 }), now(Gone)},
		{"410 after an outage: at once too", with(watching, func(s *state) { s.failures = 6 }), fails(kube.OutcomeExpired), with(waiting(watching, phaseStreaming, 6), func(s *state) { s.regains = 1 }), now(Gone)},
		{"410 again without health: quorum, with backoff", with(watching, func(s *state) { s.regains, s.failures = 1, 1 }), fails(kube.OutcomeExpired), with(waiting(watching, phaseStreaming, 2), func(s *state) { s.regains, s.quorum = 2, true }), wait(1600*ms, Gone)},
		{"410 on a list: quorum at once", listing, fails(kube.OutcomeExpired), with(waiting(listing, phaseStreaming, 1), func(s *state) { s.quorum = true }), now(Gone)},
		{"410 on a quorum list: backoff", with(listing, func(s *state) { s.quorum, s.noStream = true, true }), fails(kube.OutcomeExpired), with(waiting(listing, phaseListing, 1), func(s *state) { s.quorum, s.noStream = true, true }), wait(800*ms, Gone)},
		{"410 on a streaming list: quorum at once", streaming, fails(kube.OutcomeExpired), with(waiting(streaming, phaseStreaming, 1), func(s *state) { s.quorum = true }), now(Gone)},
		{"410 on a page: all at once, without pages", first, result{kind: resultFailed, outcome: kube.OutcomeExpired, page: 2}, with(waiting(first, phaseListing, 1), func(s *state) { s.unpaged = true }), now(Gone)},
		{"the wait ends in a list without pages", with(waiting(first, phaseListing, 1), func(s *state) { s.unpaged = true }), result{kind: resultElapsed}, state{phase: phaseListing, then: phaseListing, failures: 1, unpaged: true}, step{do: doList, rv: "0"}},
		{"quorum is a list without a version, in pages", with(waiting(listing, phaseListing, 1), func(s *state) { s.quorum = true }), result{kind: resultElapsed}, with(listing, func(s *state) { s.then, s.failures, s.quorum = phaseListing, 1, true }), step{do: doList, limit: pageSize}},
		{"a re-list is not older than the position, whole", waiting(listing, phaseListing, 1), result{kind: resultElapsed}, with(listing, func(s *state) { s.then, s.failures = phaseListing, 1 }), step{do: doList, rv: "9"}},

		// Too large.
		{"too large in a watch: watch again", watching, fails(kube.OutcomeTooLarge), with(waiting(watching, phaseWatching, 1), func(s *state) { s.ahead = 1 }), wait(800*ms, TooLarge)},
		{"too large three times: the server's state", with(watching, func(s *state) { s.ahead = 2 }), fails(kube.OutcomeTooLarge), with(waiting(watching, phaseStreaming, 1), func(s *state) { s.quorum = true }), wait(800*ms, TooLarge)},
		{"too large in a list: quorum at once, whatever Retry-After", listing, result{kind: resultFailed, outcome: kube.OutcomeTooLarge, retryAfter: time.Second}, with(waiting(listing, phaseStreaming, 1), func(s *state) { s.quorum = true }), now(TooLarge)},

		// Ends of a watch.
		{"a clean end: watch again at once", watching, result{kind: resultClosed, rv: "12", frames: 3, lived: time.Minute}, with(watching, func(s *state) { s.rv = "12" }), step{do: doWatch, rv: "12"}},
		{"a clean end without events after a while: the same", watching, result{kind: resultClosed, rv: "9", lived: 5 * time.Second}, watching, step{do: doWatch, rv: "9"}},
		{"an end after one event in no time: paced", watching, result{kind: resultClosed, rv: "12", frames: 1, lived: 100 * ms}, with(waiting(watching, phaseWatching, 0), func(s *state) { s.rv = "12" }), step{do: doWait, wait: 900 * ms, spread: herdJitter}},
		{"a very short watch: backoff and watch, no list", watching, result{kind: resultClosed, rv: "9", lived: 10 * ms}, with(waiting(watching, phaseWatching, 1), func(s *state) { s.quick = 1 }), wait(800*ms, ShortWatch)},
		{"three of them in a row: a 410 that was not said", with(watching, func(s *state) { s.quick, s.failures = 2, 2 }), result{kind: resultClosed, rv: "9", lived: 10 * ms}, with(waiting(watching, phaseStreaming, 2), func(s *state) { s.regains = 1 }), now(SilentGone)},
		{"a break after events: watch again almost at once", with(watching, func(s *state) { s.failures = 4 }), result{kind: resultFailed, outcome: kube.OutcomeDisconnected, rv: "12", frames: 2, lived: time.Minute}, with(waiting(watching, phaseWatching, 1), func(s *state) { s.rv = "12" }), now(Disconnected)},
		{"a break without a sign of health: backoff grows", with(watching, func(s *state) { s.failures = 4 }), result{kind: resultFailed, outcome: kube.OutcomeDisconnected, lived: time.Second}, waiting(watching, phaseWatching, 5), wait(12800*ms, Disconnected)},
		{"the backoff ends at 30 s", with(watching, func(s *state) { s.failures = 40 }), fails(kube.OutcomeRefused), waiting(watching, phaseWatching, 41), wait(30*time.Second, Refused)},
		{"silence: watch again", watching, result{kind: resultSilent, rv: "9", lived: 2 * time.Minute}, with(waiting(watching, phaseWatching, 1), func(s *state) { s.silent = 1 }), now(Silent)},
		{"silence twice: the cadence is not believed", with(watching, func(s *state) { s.silent, s.cadence, s.failures = 1, true, 1 }), result{kind: resultSilent, lived: 2 * time.Minute}, with(waiting(watching, phaseWatching, 2), func(s *state) { s.silent = 2 }), wait(1600*ms, Silent)},
		{"bookmarks are remembered", watching, result{kind: resultClosed, rv: "12", frames: 1, bookmarks: true, lived: time.Minute}, with(watching, func(s *state) { s.rv, s.cadence = "12", true }), step{do: doWatch, rv: "12"}},
		{"a bookmark before the position: the server's state", watching, result{kind: resultWentBack, rv: "9", frames: 1, lived: time.Minute}, with(waiting(watching, phaseStreaming, 1), func(s *state) { s.quorum, s.regains = true, 1 }), now(WentBack)},
		{"a state before the position is said", with(listing, func(s *state) { s.quorum = true }), result{kind: resultListed, rv: "5"}, state{phase: phaseWatching, rv: "5"}, step{do: doWatch, rv: "5", incident: WentBack}},

		// Refusals.
		{"429 waits as long as asked", watching, result{kind: resultFailed, outcome: kube.OutcomeTooManyRequests, retryAfter: 7 * time.Second}, waiting(watching, phaseWatching, 1), step{do: doWait, wait: 7 * time.Second, spread: 400 * ms, incident: Throttled}},
		{"429 on a list", listing, result{kind: resultFailed, outcome: kube.OutcomeTooManyRequests, retryAfter: 7 * time.Second}, waiting(listing, phaseListing, 1), step{do: doWait, wait: 7 * time.Second, spread: 400 * ms, incident: Throttled}},
		{"429 on a streaming list", streaming, result{kind: resultFailed, outcome: kube.OutcomeTooManyRequests}, waiting(streaming, phaseStreaming, 1), wait(800*ms, Throttled)},
		{"connection refused: watch again", watching, fails(kube.OutcomeRefused), waiting(watching, phaseWatching, 1), wait(800*ms, Refused)},
		{"connection refused at the start", state{phase: phaseStreaming}, fails(kube.OutcomeRefused), waiting(state{}, phaseStreaming, 1), wait(800*ms, Refused)},
		{"403 on a watch", watching, fails(kube.OutcomeForbidden), waiting(watching, phaseWatching, 1), wait(800*ms, Denied)},
		{"401 on a list", listing, fails(kube.OutcomeUnauthorized), waiting(listing, phaseListing, 1), wait(800*ms, Denied)},
		{"404 on a streaming list is no reason to list", streaming, fails(kube.OutcomeNotFound), waiting(streaming, phaseStreaming, 1), wait(800*ms, NotServed)},
		{"404 on a watch", watching, fails(kube.OutcomeNotFound), waiting(watching, phaseWatching, 1), wait(800*ms, NotServed)},
		{"500 in the stream", watching, result{kind: resultFailed, outcome: kube.OutcomeServerError, frames: 1, rv: "12", lived: 200 * ms}, with(waiting(watching, phaseWatching, 1), func(s *state) { s.rv = "12" }), step{do: doWait, wait: 800 * ms, spread: herdJitter, incident: ServerError}},
		{"400 on a watch: the version is not taken", watching, fails(kube.OutcomeInvalid), with(waiting(watching, phaseStreaming, 1), func(s *state) { s.quorum = true }), wait(800*ms, Rejected)},
		{"400 on a list not older than: without the version", listing, fails(kube.OutcomeInvalid), with(waiting(listing, phaseStreaming, 1), func(s *state) { s.quorum = true }), now(Rejected)},

		// Servers that do not know streaming lists.
		{"422: LIST at once, and remembered", state{phase: phaseStreaming}, fails(kube.OutcomeInvalid), state{phase: phaseListing, noStream: true}, step{do: doList, rv: "0", limit: pageSize, incident: NoStreamingList}},
		{"no end bookmark: LIST, and remembered", state{phase: phaseStreaming}, result{kind: resultNoEnd}, with(waiting(state{noStream: true}, phaseListing, 1), func(*state) {}), now(NoEndBookmark)},
		{"silence before the end bookmark: the same", state{phase: phaseStreaming}, result{kind: resultSilent, frames: 7}, waiting(state{noStream: true}, phaseListing, 1), now(NoEndBookmark)},
		{"remembered after 410", with(watching, func(s *state) { s.noStream = true }), fails(kube.OutcomeExpired), with(waiting(watching, phaseListing, 1), func(s *state) { s.noStream, s.regains = true, 1 }), now(Gone)},
		{"one cut before the end bookmark: stream again", state{phase: phaseStreaming}, result{kind: resultClosed, frames: 2}, waiting(state{cuts: 1}, phaseStreaming, 1), wait(800*ms, Disconnected)},
		{"two of them: LIST this time", state{phase: phaseStreaming, cuts: 1}, result{kind: resultClosed, frames: 2}, waiting(state{cuts: 2}, phaseListing, 1), now(NoEndBookmark)},
		{"and the next time a stream again", state{phase: phaseListing, cuts: 2}, result{kind: resultListed, rv: "9"}, watching, step{do: doWatch, rv: "9"}},

		// What cannot be read.
		{"a broken frame: watch again from the position", watching, fails(kube.OutcomeDecode), with(waiting(watching, phaseWatching, 1), func(s *state) { s.broken = 1 }), wait(800*ms, Undecodable)},
		{"three at one position: the state again", with(watching, func(s *state) { s.broken = 2 }), fails(kube.OutcomeDecode), waiting(watching, phaseStreaming, 1), wait(800*ms, Undecodable)},
		{"a broken list: list again", listing, fails(kube.OutcomeDecode), waiting(listing, phaseListing, 1), wait(800*ms, Undecodable)},

		// The end.
		{"stop while watching keeps the position", watching, result{kind: resultStopped, rv: "12", frames: 1}, state{phase: phaseStopped, rv: "12"}, step{do: doStop}},
		{"stop while waiting", waiting(watching, phaseWatching, 3), result{kind: resultStopped}, with(waiting(watching, phaseWatching, 3), func(s *state) { s.phase = phaseStopped }), step{do: doStop}},
		{"stop while streaming", state{phase: phaseStreaming}, result{kind: resultStopped}, state{phase: phaseStopped}, step{do: doStop}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, st := next(c.from, c.r)
			want := c.want
			if got.phase != phaseWaiting {
				want.then = got.then // a leftover without a meaning
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(state{})); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.steps, st, cmp.AllowUnexported(step{})); diff != "" {
				t.Errorf("step (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNextIsTotal feeds every result to every phase: there is always a next step, a
// wait is never negative or unbounded, and only a stop stops.
func TestNextIsTotal(t *testing.T) {
	outcomes := []kube.Outcome{kube.OutcomeUnknown, kube.OutcomeOK}
	for o := kube.OutcomeExpired; o <= kube.OutcomeCanceled; o++ {
		outcomes = append(outcomes, o)
	}
	for _, p := range []phase{phaseIdle, phaseListing, phaseStreaming, phaseWatching, phaseWaiting, phaseStopped} {
		for kind := resultStart; kind <= resultStopped; kind++ {
			for _, o := range outcomes {
				for _, rv := range []string{"", "9"} {
					s := state{phase: p, then: phaseWatching, rv: rv, failures: 50}
					got, st := next(s, result{kind: kind, outcome: o, rv: "9"})
					at := fmt.Sprintf("phase %v, rv %q, result %d, outcome %v", p, rv, kind, o)
					if st.do == 0 || (st.do == doStop) != (kind == resultStopped) {
						t.Errorf("%s: do %v", at, st.do)
					}
					if st.wait < 0 || st.wait > maxBackoff || (st.do == doWait) != (got.phase == phaseWaiting) {
						t.Errorf("%s: wait %v in phase %v", at, st.wait, got.phase)
					}
				}
			}
		}
	}
}
