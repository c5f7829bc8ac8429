package informer_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/listwatchtest"
	"github.com/gapless-io/gapless/kube"
)

func TestInvalidTuningIsAnErrorOfRun(t *testing.T) {
	for want, opt := range map[string]informer.Option{
		"the least backoff is 0s":                informer.Backoff(0, time.Second),
		"the largest backoff of 1s is less":      informer.Backoff(time.Minute, time.Second),
		"the deadline of a streaming list is 0s": informer.SyncDeadline(0),
		"the watchdog's silence is -1m0s":        informer.Watchdog(-time.Minute),
	} {
		i := newServer().informer(opt)
		if err := i.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
		if err := i.WaitSynced(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
}

func TestBackoffUsesTheConfiguredDurations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Fail(func(request) fault { return fault{Refuse: true} })
		play(t, w, func(i *informer.Informer[*thing]) {
			after(time.Hour)
			// 2, 4, 8 and then 10 s, each up to half of it longer: 12.5 s on average.
			if n := len(w.Requests()); n < 260 || n > 320 {
				t.Errorf("%d requests in an hour", n)
			}
		}, informer.Backoff(2*time.Second, 10*time.Second))
	})
}

func TestStreamingListsUseTheConfiguredDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		w.Fail(listwatchtest.Faults(fault{NoEnd: true}))
		play(t, w, func(i *informer.Informer[*thing]) {
			after(4 * time.Second)
			if n := len(w.Requests()); n != 1 {
				t.Errorf("%d requests before the deadline", n)
			}
			after(1250 * time.Millisecond)
			if s := i.Status(); s.Objects != 1 || s.Incidents[informer.NoEndBookmark] != 1 {
				t.Errorf("%+v", s)
			}
		}, informer.SyncDeadline(5*time.Second))
	})
}

func TestTheWatchdogUsesTheConfiguredSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		// The object, its end bookmark, one bookmark; then nothing, for ever.
		w.Fail(listwatchtest.Faults(fault{End: "silent", After: 3}))
		play(t, w, func(i *informer.Informer[*thing]) {
			after(3*time.Minute + 59*time.Second)
			if n := i.Status().Incidents[informer.Silent]; n != 0 {
				t.Errorf("%d silent watches after three minutes of silence", n)
			}
			after(2 * time.Second)
			if s := i.Status(); s.Incidents[informer.Silent] != 1 || s.Watches != 1 || s.Lists != 1 {
				t.Errorf("%+v", s)
			}
		}, informer.Watchdog(3*time.Minute))
	})
}

// TestEachSilentWatchIsReplacedLaterThanTheOneBefore: a server that stops sending
// bookmarks is not dialled more often than its watches would end.
func TestEachSilentWatchIsReplacedLaterThanTheOneBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		first := true
		w.Fail(func(request) fault {
			f := fault{End: "silent"}
			if first {
				f.After, first = 3, false
			}
			return f
		})
		var noted times
		begun := time.Now()
		i := w.informer(informer.OnError(func(in informer.Incident) { noted.add(in.At) }))
		run(t, i, func() {
			after(2 * time.Hour)
			var at []time.Duration
			for _, moment := range noted.list() {
				at = append(at, moment.Sub(begun))
			}
			for n, least := range []time.Duration{
				60 * time.Second, 90 * time.Second, 3 * time.Minute, 5 * time.Minute, 5 * time.Minute,
			} {
				before := time.Duration(0)
				if n > 0 {
					before = at[n-1]
				}
				if gap := at[n] - before; gap < least {
					t.Errorf("silence %d was noticed after %v", n, gap)
				}
			}
			s := i.Status()
			if n := len(at); n < 10 || n > 26 || s.Lists != 1 || s.Incidents[informer.Silent] != int64(n) {
				t.Errorf("%d silent watches in two hours: %+v", n, s)
			}
			w.Fail(nil)
			w.Put("b", 2)
			after(11 * time.Minute)
			if i.Len() != 2 {
				t.Errorf("%d objects when all is well again", i.Len())
			}
		})
	})
}

func TestStop4xxGivesUpBeforeTheFirstStateOnly(t *testing.T) {
	for name, c := range map[string]struct {
		faults  func(request) fault
		outcome kube.Outcome
		asked   int
	}{
		"401": {func(request) fault { return fault{Status: 401, Reason: "Unauthorized"} }, kube.OutcomeUnauthorized, 1},
		"403": {func(request) fault { return fault{Status: 403, Reason: "Forbidden"} }, kube.OutcomeForbidden, 1},
		"404": {func(request) fault { return fault{Status: 404, Reason: "NotFound"} }, kube.OutcomeNotFound, 1},
		// A streaming list, LIST from the cache, LIST without a version.
		"405": {func(request) fault { return fault{Status: 405, Reason: "MethodNotAllowed"} }, kube.OutcomeInvalid, 3},
		"406 on lists": {func(r request) fault {
			if r.Watch {
				return fault{Status: 422, Reason: "Invalid"}
			}
			return fault{Status: 406, Reason: "NotAcceptable"}
		}, kube.OutcomeInvalid, 3},
		"403 after a while": {
			listwatchtest.Faults(fault{Status: 503}, fault{Status: 503}, fault{Status: 403, Reason: "Forbidden"}),
			kube.OutcomeForbidden, 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newServer()
				w.Fail(c.faults)
				i := w.informer(informer.Stop4xx())
				called := make(chan struct{})
				i.Handle(func(context.Context, event) error { close(called); return nil })
				err := i.Run(t.Context())
				if kube.Classify(err) != c.outcome || len(w.Requests()) != c.asked {
					t.Errorf("%v after %v", err, kinds(w))
				}
				if s := i.Status(); s.State != "stopped" || s.Last == nil || s.Last.Next != "stop" ||
					!errors.Is(err, s.Last.Err) {
					t.Errorf("status %+v", s)
				}
				// It can be run again, and then does better.
				w.Fail(nil)
				w.Put("a", 1)
				run(t, i, func() { <-called })
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		w.Fail(listwatchtest.Faults(fault{End: "eof", After: 2}, fault{Status: 404}, fault{Status: 403}, fault{Status: 410},
			fault{Status: 401}))
		play(t, w, func(i *informer.Informer[*thing]) {
			after(time.Minute)
			w.Put("b", 1)
			after(time.Second)
			if s := i.Status(); s.Objects != 2 || s.Incidents[informer.Denied] != 2 || s.Incidents[informer.NotServed] != 1 {
				t.Errorf("after the first state: %+v", s)
			}
		}, informer.Stop4xx())
	})
}

func TestANamespaceThatGivesUpStopsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, theirs := newServer(), newServer()
		mine.Put("a", 1)
		theirs.Fail(func(request) fault { return fault{Delay: time.Minute, Status: 403, Reason: "Forbidden"} })
		source := informer.From("things", nil, informer.JSON[*thing]()).Several(map[string]informer.Backend{
			"default": mine.backend(), "other": theirs.backend(),
		})
		err := informer.New(source, informer.Stop4xx()).Run(t.Context())
		if kube.Classify(err) != kube.OutcomeForbidden {
			t.Error(err)
		}
	})
}
