package transition

import (
	"time"

	"github.com/gapless-io/gapless/informer/internal/incident"
	"github.com/gapless-io/gapless/kube"
)

// probeCases are about whether the server still has the history that the cache was read from.
func probeCases() []nextCase {
	return []nextCase{
		{
			"after an outage the next watch asks", doubting(waiting(watching, Watching, 1)),
			Result{Kind: ResultElapsed},
			doubting(with(watching, func(s *State) { s.failures = 1 })),
			Step{Do: DoWatch, RV: "9", Probe: pageSize},
		},
		{
			"the answer says nothing against it", doubting(watching),
			Result{Kind: ResultClosed, RV: "12", Frames: 1, Probed: true, Lived: time.Minute, Opened: true},
			with(watching, func(s *State) { s.RV = "12" }),
			Step{Do: DoWatch, RV: "12"},
		},
		{
			"no answer: the next watch asks again", doubting(watching),
			Result{Kind: ResultClosed, RV: "12", Frames: 1, Lived: time.Minute, Opened: true},
			doubting(with(watching, func(s *State) { s.RV = "12" })),
			Step{Do: DoWatch, RV: "12", Probe: pageSize},
		},
		{
			"the answer is of another history", doubting(watching),
			Result{Kind: ResultWentBack, Probed: true, Opened: true},
			with(waiting(watching, Streaming, 1), func(s *State) { s.quorum, s.Back, s.Anew, s.regains = true, true, true, 1 }),
			now(incident.WentBack),
		},
		{
			"a whole watch without an event", watching,
			Result{Kind: ResultClosed, Lived: MinWatchTimeout, Opened: true},
			with(watching, func(s *State) { s.ask = 1 }),
			Step{Do: DoWatch, RV: "9", Probe: 1},
		},
		{
			"many short ones without an event, together as long",
			with(watching, func(s *State) { s.quiet = MinWatchTimeout - time.Minute }),
			Result{Kind: ResultClosed, Lived: time.Minute, Opened: true},
			with(watching, func(s *State) { s.ask = 1 }),
			Step{Do: DoWatch, RV: "9", Probe: 1},
		},
		{
			"a list shows that the history went back", with(listing, func(s *State) { s.quorum = true }),
			Result{Kind: ResultWentBack},
			with(waiting(listing, Streaming, 1), func(s *State) { s.quorum, s.Back, s.Anew = true, true, true }),
			now(incident.WentBack),
		},
		{
			"it does so again", with(streaming, func(s *State) { s.quorum, s.Back, s.Anew = true, true, true }),
			Result{Kind: ResultWentBack},
			with(waiting(streaming, Streaming, 1), func(s *State) { s.quorum, s.Back, s.Anew = true, true, true }),
			after(800*ms, incident.WentBack),
		},
		{
			"the state that was asked for then",
			with(streaming, func(s *State) { s.quorum, s.Back, s.Anew, s.ask, s.missed = true, true, true, 1, true }),
			Result{Kind: ResultStreamed, RV: "5"},
			State{Phase: Watching, RV: "5"},
			Step{Do: DoRead, RV: "5"},
		},
		{
			"an event that does not follow: the state again, not older", watching,
			Result{Kind: ResultGap, Gap: true, RV: "12", Frames: 3, Lived: time.Minute, Opened: true},
			with(waiting(watching, Streaming, 1), func(s *State) { s.RV, s.Anew, s.gaps, s.regains = "12", true, 1, 1 }),
			now(incident.Gap),
		},
		{
			"one that has to wait is remembered", with(watching, func(s *State) { s.gaps = 3 }),
			Result{Kind: ResultClosed, Gap: true, RV: "12", Frames: 3, Lived: time.Minute, Opened: true},
			with(watching, func(s *State) { s.RV, s.missed, s.gaps, s.rested = "12", true, 3, time.Minute }),
			Step{Do: DoWatch, RV: "12"},
		},
		{
			"ten minutes without one", with(watching, func(s *State) { s.gaps, s.rested = 3, 8*time.Minute }),
			Result{Kind: ResultClosed, RV: "12", Frames: 3, Lived: 2 * time.Minute, Opened: true},
			with(watching, func(s *State) { s.RV = "12" }),
			Step{Do: DoWatch, RV: "12"},
		},
	}
}

// givingUpCases: only Stop4xx gives up, and only before the first state.
func givingUpCases() []nextCase {
	return []nextCase{
		{
			"403 at the start", with(State{Phase: Streaming}, picky), fails(kube.OutcomeForbidden),
			with(State{Phase: Stopped}, picky),
			Step{Do: DoStop, GiveUp: true, Incident: incident.Denied},
		},
		{
			"401 at the start", with(first, picky), fails(kube.OutcomeUnauthorized), with(State{Phase: Stopped}, picky),
			Step{Do: DoStop, GiveUp: true, Incident: incident.Denied},
		},
		{
			"404 at the start", with(first, picky), fails(kube.OutcomeNotFound), with(State{Phase: Stopped}, picky),
			Step{Do: DoStop, GiveUp: true, Incident: incident.NotServed},
		},
		{
			"404 later", with(watching, picky), fails(kube.OutcomeNotFound),
			with(doubting(waiting(watching, Watching, 1)), picky), after(800*ms, incident.NotServed),
		},
		{
			"403 on a re-list", with(listing, picky), fails(kube.OutcomeForbidden), with(waiting(listing, Listing, 1), picky),
			after(800*ms, incident.Denied),
		},
		{
			"400 on a streaming list: there is LIST", with(State{Phase: Streaming}, picky), fails(kube.OutcomeInvalid),
			with(State{Phase: Listing, NoStream: true}, picky),
			Step{Do: DoList, RV: "0", Limit: pageSize, Incident: incident.NoStreamingList},
		},
		{
			"a streaming list whose source wants it: LIST at once, this time", streaming,
			Result{Kind: ResultFailed, Outcome: kube.OutcomeServerError, ListNow: true},
			listing,
			Step{Do: DoList, RV: "9", Incident: incident.NoStreamingList},
		},
		{
			"Stop4xx waits for that LIST", with(State{Phase: Streaming}, picky),
			Result{Kind: ResultFailed, Outcome: kube.OutcomeForbidden, ListNow: true},
			with(first, picky),
			Step{Do: DoList, RV: "0", Limit: pageSize, Incident: incident.NoStreamingList},
		},
		{
			"400 on LIST: there is LIST without a version", with(State{Phase: Listing, NoStream: true}, picky),
			fails(kube.OutcomeInvalid), with(waiting(State{NoStream: true, quorum: true}, Listing, 1), picky),
			now(incident.Rejected),
		},
		{
			"400 on that: nothing is left", with(State{Phase: Listing, NoStream: true, quorum: true}, picky),
			fails(kube.OutcomeInvalid), with(State{Phase: Stopped, NoStream: true, quorum: true}, picky),
			Step{Do: DoStop, GiveUp: true, Incident: incident.Rejected},
		},
		{
			"503 at the start is waited for", with(first, picky), fails(kube.OutcomeServerError),
			with(waiting(first, Listing, 1), picky), after(800*ms, incident.ServerError),
		},
	}
}

// unsupportedCases are about servers that do not know streaming lists.
func unsupportedCases() []nextCase {
	return []nextCase{
		{
			"422: LIST at once, and remembered",
			State{Phase: Streaming},
			fails(kube.OutcomeInvalid),
			State{Phase: Listing, NoStream: true},
			Step{Do: DoList, RV: "0", Limit: pageSize, Incident: incident.NoStreamingList},
		},
		{
			"no end bookmark: LIST, and remembered",
			State{Phase: Streaming},
			Result{Kind: ResultSilent, Frames: 7},
			waiting(State{NoStream: true}, Listing, 1), now(incident.NoEndBookmark),
		},
		{
			"remembered after 410", with(watching, func(s *State) { s.NoStream = true }), fails(kube.OutcomeExpired),
			with(waiting(watching, Listing, 1), func(s *State) { s.NoStream, s.regains = true, 1 }), now(incident.Gone),
		},
		{
			"one cut before the end bookmark: stream again",
			State{Phase: Streaming},
			Result{Kind: ResultClosed, Frames: 2},
			waiting(State{misses: 1}, Streaming, 1), after(800*ms, incident.Disconnected),
		},
		{
			"one connection that breaks: the same",
			State{Phase: Streaming},
			Result{Kind: ResultFailed, Outcome: kube.OutcomeDisconnected, Frames: 2},
			waiting(State{misses: 1}, Streaming, 1),
			after(800*ms, incident.Disconnected),
		},
		{
			"one server that cannot say how recent it is: the same",
			State{Phase: Streaming},
			fails(kube.OutcomeTooLarge),
			waiting(State{misses: 1}, Streaming, 1), after(800*ms, incident.TooLarge),
		},
		{
			"three of them: LIST this time",
			State{Phase: Streaming, misses: 2},
			Result{Kind: ResultClosed, Frames: 2},
			waiting(State{misses: 3}, Listing, 1), after(800*ms, incident.NoEndBookmark),
		},
		{
			"three of any kind: the same",
			State{Phase: Streaming, misses: 2},
			fails(kube.OutcomeServerError),
			waiting(State{misses: 3}, Listing, 1), after(800*ms, incident.ServerError),
		},
		{
			"and the next time a stream again",
			State{Phase: Listing, misses: 3},
			Result{Kind: ResultListed, RV: "9"},
			watching,
			Step{Do: DoWatch, RV: "9"},
		},
	}
}

// undecodableCases are about what cannot be read.
func undecodableCases() []nextCase {
	return []nextCase{
		{
			"a broken frame: watch again from the position", watching, fails(kube.OutcomeDecode),
			with(waiting(watching, Watching, 1), func(s *State) { s.broken = 1 }), after(800*ms, incident.Undecodable),
		},
		{
			"three at one position: the state again", with(watching, func(s *State) { s.broken = 2 }), fails(kube.OutcomeDecode),
			with(waiting(watching, Streaming, 1), func(s *State) { s.regains = 1 }), after(800*ms, incident.Undecodable),
		},
		{
			"events that come again before the broken frame are no other position",
			with(watching, func(s *State) { s.broken = 2 }),
			Result{Kind: ResultFailed, Outcome: kube.OutcomeDecode, RV: "9", Frames: 2, Opened: true},
			with(waiting(watching, Streaming, 1), func(s *State) { s.regains = 1 }), after(800*ms, incident.Undecodable),
		},
		{
			"a list without a version is broken", listing,
			Result{Kind: ResultListed},
			waiting(listing, Listing, 1),
			after(800*ms, incident.Undecodable),
		},
		{
			"a broken list: list again", listing, fails(kube.OutcomeDecode), waiting(listing, Listing, 1),
			after(800*ms, incident.Undecodable),
		},
	}
}

// stopCases are about the end.
func stopCases() []nextCase {
	return []nextCase{
		{
			"stop while watching keeps the position", watching,
			Result{Kind: ResultStopped, RV: "12", Frames: 1},
			State{Phase: Stopped, RV: "12"},
			Step{Do: DoStop},
		},
		{
			"stop while waiting", waiting(watching, Watching, 3),
			Result{Kind: ResultStopped},
			with(waiting(watching, Watching, 3), func(s *State) { s.Phase = Stopped }),
			Step{Do: DoStop},
		},
		{"stop while streaming", State{Phase: Streaming}, Result{Kind: ResultStopped}, State{Phase: Stopped}, Step{Do: DoStop}},
	}
}
