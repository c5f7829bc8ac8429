package informer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/listwatchtest"
)

// onceOnAWatch gives the first watch this fault, and nothing else any.
func onceOnAWatch(f fault) func(request) fault {
	done := false
	return func(r request) fault {
		if done || !r.Watch {
			return fault{}
		}
		done = true
		return f
	}
}

// TestEachWatchFailureIsOneIncidentAndOnlyA410Lists: each way in which a watch can
// fail is reported to OnError, counted, logged and measured once. Only a rejected resource
// version leads to a list.
func TestEachWatchFailureIsOneIncidentAndOnlyA410Lists(t *testing.T) {
	for _, c := range []struct {
		name  string
		f     fault
		kind  informer.IncidentKind
		lists int64
	}{
		{"connection refused", fault{Refuse: true}, informer.Refused, 1},
		{"no answer", fault{Hang: true}, informer.Disconnected, 1},
		{"answer 401", fault{Status: 401, Reason: "Unauthorized"}, informer.Denied, 1},
		{"answer 403", fault{Status: 403, Reason: "Forbidden"}, informer.Denied, 1},
		{"answer 404", fault{Status: 404, Reason: "NotFound"}, informer.NotServed, 1},
		{"answer 429", fault{Status: 429, Reason: "TooManyRequests"}, informer.Throttled, 1},
		{"answer 429 with Retry-After", fault{Status: 429, Reason: "TooManyRequests", RetryAfter: 3}, informer.Throttled, 1},
		{"answer 500", fault{Status: 500, Reason: "InternalError"}, informer.ServerError, 1},
		{"answer 503 with Retry-After", fault{Status: 503, Reason: "ServiceUnavailable", RetryAfter: 3}, informer.ServerError, 1},
		{"answer 504, too large resource version", fault{Status: 504, Reason: "Timeout", TooLarge: true}, informer.TooLarge, 1},
		{"answer 410", fault{Status: 410, Reason: "Expired"}, informer.Gone, 2},
		{"answer 400, version not taken", fault{Status: 400, Reason: "BadRequest"}, informer.Rejected, 2},
		{"ERROR 410", fault{End: "410"}, informer.Gone, 2},
		{"ERROR 429", fault{End: "429"}, informer.Throttled, 1},
		{"ERROR 500", fault{End: "500"}, informer.ServerError, 1},
		{"ERROR 504, too large resource version", fault{End: "504"}, informer.TooLarge, 1},
		{"cut", fault{End: "cut"}, informer.Disconnected, 1},
		{"cut in a frame", fault{End: "half"}, informer.Disconnected, 1},
		{"a frame that is no JSON", fault{End: "garbage"}, informer.Undecodable, 1},
		{"closed at once", fault{End: "eof"}, informer.ShortWatch, 1},
		{"dead after a bookmark", fault{End: "silent", After: 1}, informer.Silent, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newServer()
				w.Put("a", 1)
				w.Fail(onceOnAWatch(c.f))
				var incidents []informer.Incident
				var log bytes.Buffer
				var m meter
				i := w.informer(informer.NoStreamingLists(), informer.Metrics(m.record),
					informer.OnError(func(in informer.Incident) { incidents = append(incidents, in) }),
					informer.Logger(slog.New(slog.NewTextHandler(&log, nil))))
				run(t, i, func() {
					after(61 * time.Second) // some faults come with the next frame
					w.Put("a", 2)
					after(4 * time.Minute)
					if diff := cmp.Diff(w.state(t), cached(i)); diff != "" {
						t.Error(diff)
					}
					s := i.Status()
					if s.Lists != c.lists || s.State != "watching" {
						t.Errorf("%d lists, want %d; it is %s", s.Lists, c.lists, s.State)
					}
					if diff := cmp.Diff(map[informer.IncidentKind]int64{c.kind: 1}, s.Incidents); diff != "" {
						t.Errorf("status (-want +got):\n%s", diff)
					}
				})
				if len(incidents) != 1 || incidents[0].Kind != c.kind || incidents[0].Next == "" || incidents[0].RV != "1001" {
					t.Errorf("incidents: %v", incidents)
				}
				if n := m.totals["informer_incidents_total{kind="+c.kind.String()+"}"]; n != 1 {
					t.Errorf("measured %v", m.totals)
				}
				if n := strings.Count(log.String(), "kind="+c.kind.String()); n != 1 {
					t.Errorf("the log:\n%s", log.String())
				}
			})
		})
	}
}

// times are times that a server notes and a test reads.
type times struct {
	mu sync.Mutex
	// mu guards all.
	all []time.Time
}

func (l *times) add(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, at)
}

func (l *times) list() []time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

// moments is a fault function that also notes when requests come.
func moments(at *times, next func(request) fault) func(request) fault {
	return func(r request) fault {
		at.add(time.Now())
		return next(r)
	}
}

// gaps are the times between requests.
func gaps(at []time.Time) []time.Duration {
	var all []time.Duration
	for n := 1; n < len(at); n++ {
		all = append(all, at[n].Sub(at[n-1]))
	}
	return all
}

// TestA410IsFollowedByAListAtOnce: within 250 ms, also after an outage. client-go waits for
// 0.8 to 1.6 s, and longer after an outage.
func TestA410IsFollowedByAListAtOnce(t *testing.T) {
	for name, outage := range map[string]int{"out of nothing": 0, "after an outage": 8} {
		for _, streams := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, streams=%t", name, streams), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newServer()
					w.Put("a", 1)
					watches := 0
					var at times
					var opts []informer.Option
					w.Fail(moments(&at, func(r request) fault {
						switch {
						case !r.Watch || r.Initial:
							return fault{End: "eof", After: 3} // one bookmark later, of a streaming list
						case watches < outage:
							watches++
							return fault{Refuse: true}
						case watches == outage:
							watches++
							return fault{Status: 410, Reason: "Expired"}
						}
						return fault{}
					}))
					if !streams {
						opts = append(opts, informer.NoStreamingLists())
					}
					play(t, w, func(i *informer.Informer[*thing]) {
						after(5 * time.Minute)
						if s := i.Status(); s.Gone != 1 || s.Lists != 2 {
							t.Errorf("status %+v", s)
						}
					}, opts...)
					if all := gaps(at.list()); len(all) < outage+2 || all[outage+1] >= 250*time.Millisecond {
						t.Errorf("requests are %v apart", all)
					}
				})
			})
		}
	}
}

// TestWatchesAskForBookmarksAndEndAtRandom: after 5 to 10 minutes, so that clients do not
// reconnect at the same moment.
func TestWatchesAskForBookmarksAndEndAtRandom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		play(t, w, func(*informer.Informer[*thing]) { after(12 * time.Hour) })
		var all []int
		for _, r := range w.Requests() {
			if !r.Bookmarks || r.Seconds < 300 || r.Seconds >= 600 {
				t.Errorf("asked %+v", r)
			}
			all = append(all, r.Seconds)
		}
		if least, most := slices.Min(all), slices.Max(all); len(all) < 72 || least > 400 || most < 500 {
			t.Errorf("%d watches of %d to %d s", len(all), least, most)
		}
	})
}

// TestRetryAfterIsRespected in headers, Statuses and ERROR events.
func TestRetryAfterIsRespected(t *testing.T) {
	for _, c := range []struct {
		name  string
		f     fault
		opts  []informer.Option
		which int // the request that is refused
		want  time.Duration
	}{
		{"a streaming list", fault{Status: 429, Reason: "TooManyRequests", RetryAfter: 7}, nil, 0, 7 * time.Second},
		{
			"a list",
			fault{Status: 429, Reason: "TooManyRequests", RetryAfter: 7},
			[]informer.Option{informer.NoStreamingLists()},
			0, 7 * time.Second,
		},
		{
			"a watch",
			fault{Status: 429, Reason: "TooManyRequests", RetryAfter: 40},
			[]informer.Option{informer.NoStreamingLists()},
			1, 40 * time.Second,
		},
		{
			"503",
			fault{Status: 503, Reason: "ServiceUnavailable", RetryAfter: 40},
			[]informer.Option{informer.NoStreamingLists()},
			1, 40 * time.Second,
		},
		{"in the stream", fault{End: "429", RetryAfter: 7}, []informer.Option{informer.NoStreamingLists()}, 1, 7 * time.Second},
		{"a year", fault{Status: 429, Reason: "TooManyRequests", RetryAfter: 365 * 24 * 3600}, nil, 0, 10 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newServer()
				w.Put("a", 1)
				var at times
				n := 0
				w.Fail(moments(&at, func(request) fault {
					n++
					if n == c.which+1 {
						return c.f
					}
					return fault{}
				}))
				play(t, w, func(i *informer.Informer[*thing]) {
					after(11 * time.Minute)
					if got := gaps(at.list())[c.which]; got < c.want || got > c.want+time.Second {
						t.Errorf("came back after %v", got)
					}
					if diff := cmp.Diff(w.state(t), cached(i)); diff != "" {
						t.Error(diff)
					}
				}, c.opts...)
			})
		})
	}
}

// TestAnOutageOfADayCosts2310Requests: the pause starts at 0.8 s and doubles up to 30 s,
// plus a random part of up to half of it. It is not reset before a watch succeeds.
// client-go resets it every two minutes and sends 4 526 requests.
func TestAnOutageOfADayCosts2310Requests(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, c := range []struct {
		name        string
		opts        []informer.Option
		least, most time.Duration
		from, to    int
	}{
		{"by default", nil, 800 * time.Millisecond, 30 * time.Second, 2200, 2400},
		{"as asked for", []informer.Option{informer.Backoff(time.Second, 5*time.Minute)}, time.Second, 5 * time.Minute, 220, 245},
	} {
		for name, f := range map[string]fault{
			"refused": {Refuse: true}, "410": {Status: 410, Reason: "Expired"},
			"too large": {Status: 504, Reason: "Timeout", TooLarge: true},
			"forbidden": {Status: 403, Reason: "Forbidden"}, "cut": {End: "cut"},
		} {
			t.Run(c.name+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newServer()
					w.Put("a", 1)
					var at times
					w.Fail(moments(&at, func(request) fault { return f }))
					play(t, w, func(*informer.Informer[*thing]) { after(24 * time.Hour) }, c.opts...)
					if n := len(at.list()); n < c.from || n > c.to {
						t.Errorf("%d requests", n)
					}
					base, another := c.least, name == "410" || name == "too large"
					for n, d := range gaps(at.list()) {
						if another && d < 250*time.Millisecond {
							another = false // the version was refused: at once without one, but that once
							continue
						}
						if d < base || d >= base+base/2 {
							t.Fatalf("pause %d is %v, want %v and up to half of it more", n, d, base)
						}
						base = min(2*base, c.most)
					}
				})
			})
		}
	}
}

// TestASuccessfulListDoesNotResetTheBackoff: the server answers each list and rejects each
// watch. The pauses grow and there is no second list; a successful watch resets the pause.
func TestASuccessfulListDoesNotResetTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		var well atomic.Bool
		var at times
		w.Fail(moments(&at, func(r request) fault {
			if r.Watch && !well.Load() {
				return fault{Refuse: true}
			}
			return fault{}
		}))
		play(t, w, func(i *informer.Informer[*thing]) {
			after(10 * time.Minute)
			all := gaps(at.list())
			if last := all[len(all)-1]; last < 30*time.Second || len(all) > 30 || i.Status().Lists != 1 {
				t.Errorf("%d lists, requests are %v apart", i.Status().Lists, all)
			}
			well.Store(true)
			after(2 * time.Minute)
			well.Store(false)
			before := len(at.list())
			after(11 * time.Minute) // the watch has ended
			all = gaps(at.list())[before:]
			if all[0] > 1200*time.Millisecond || all[len(all)-1] < 10*all[0] {
				t.Errorf("after a healthy watch the requests are %v apart", all)
			}
		}, informer.NoStreamingLists())
	})
}

// TestAnUndecodableObjectCausesNoFurtherRequests: client-go would list again and again.
func TestAnUndecodableObjectCausesNoFurtherRequests(t *testing.T) {
	for name, opts := range map[string][]informer.Option{"LIST": {informer.NoStreamingLists()}, "streaming": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newServer()
				w.Put("good", 1)
				w.Put("bad", "one")
				play(t, w, func(i *informer.Informer[*thing]) {
					for n := range 60 {
						after(10 * time.Minute)
						w.Put("good", n)
					}
					after(time.Second)
					s := i.Status()
					if s.Lists != 1 || s.Undecodable != 1 || s.Objects != 1 || s.Incidents[informer.Undecodable] != 1 ||
						len(s.Incidents) != 1 {
						t.Errorf("status %+v", s)
					}
					if s.Last == nil || s.Last.Key != key("bad") || s.Last.RV != "1002" {
						t.Errorf("incident %v", s.Last)
					}
					if o, _ := i.Get(key("good")); o.Value != 59 {
						t.Errorf("the other one is %v", o)
					}
				}, opts...)
			})
		})
	}
}

// TestUnknownEventTypesAreReportedAndSkipped: the events after them are applied, the
// connection is kept, and they do not change the resource version.
func TestUnknownEventTypesAreReportedAndSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := listwatchtest.Script{OnWatch: func(ctx context.Context, _ request, say func(...string)) error {
			say(listwatchtest.Frame("ADDED", object("a", 1, 1, 1)), listwatchtest.InitialEventsEnd("1"))
			sleep(ctx, time.Second)
			say(
				listwatchtest.Frame("SURPRISE", object("b", 2, 50, 1)),
				listwatchtest.Frame("ADDED", `{"kind":"Table","apiVersion":"meta.k8s.io/v1","rows":[]}`),
				listwatchtest.Frame("ADDED", `{"kind":"Status","apiVersion":"v1","status":"Success"}`),
				listwatchtest.Frame("BOOKMARK", `{"kind":"Thing","metadata":{}}`),
				"{\"type\":\"ADDED\"}\n", "17\n",
			)
			sleep(ctx, time.Second)
			say(listwatchtest.Frame("ADDED", object("c", 3, 3, 1)))
			<-ctx.Done()
			return nil
		}}
		i := scripted(server)
		run(t, i, func() {
			after(1500 * time.Millisecond)
			if s := i.Status(); s.RV != "1" || s.Incidents[informer.Undecodable] != 6 {
				t.Errorf("status %+v", s)
			}
			after(time.Minute)
			if s := i.Status(); s.RV != "3" || s.Objects != 2 || s.Streams != 1 || s.Watches != 0 {
				t.Errorf("status %+v", s)
			}
		})
	})
}

// TestAFailedTransformIsReportedAndKeepsTheOldState: Status says that there is a newer state.
func TestAFailedTransformIsReportedAndKeepsTheOldState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		unlucky := errors.New("no luck")
		var last informer.Incident
		source := w.source().Transform(func(o *thing) (*thing, error) {
			if o.Value == 13 {
				return nil, unlucky
			}
			return o, nil
		})
		rec := newRecorder()
		i := informer.New(source, informer.OnError(func(in informer.Incident) { last = in }))
		i.Handle(rec.handle)
		run(t, i, func() {
			after(time.Second)
			w.Put("a", 13)
			after(time.Second)
			if o, _ := i.Get(key("a")); o.Value != 1 || i.Status().Undecodable != 1 {
				t.Errorf("it is %v, %+v", o, i.Status())
			}
			if last.Kind != informer.Undecodable || last.Key != key("a") || !errors.Is(last.Err, unlucky) {
				t.Errorf("incident %v", last)
			}
			w.Put("a", 2)
			after(time.Second)
			if s := i.Status(); s.Undecodable != 0 || s.Lists != 1 {
				t.Errorf("status %+v", s)
			}
		})
		if diff := cmp.Diff([]string{"Added a 1 initial", "Modified a 2"}, rec.lines()); diff != "" {
			t.Error(diff)
		}
	})
}
