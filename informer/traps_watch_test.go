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
)

// onceOnAWatch gives the first watch this fault, and nothing else any.
func onceOnAWatch(f fault) func(request) fault {
	done := false
	return func(r request) fault {
		if done || !r.watch {
			return fault{}
		}
		done = true
		return f
	}
}

// TestEachEndOfAWatchIsAnIncidentAndOnlyA410IsARelist: each way in which a watch can be
// refused or end early is told to OnError, counted, logged and measured, once. The
// state is read again where the position is refused, and nowhere else.
func TestEachEndOfAWatchIsAnIncidentAndOnlyA410IsARelist(t *testing.T) {
	for _, c := range []struct {
		name  string
		f     fault
		kind  informer.IncidentKind
		lists int64
	}{
		{"connection refused", fault{refuse: true}, informer.Refused, 1},
		{"no answer", fault{hang: true}, informer.Disconnected, 1},
		{"answer 401", fault{status: 401, reason: "Unauthorized"}, informer.Denied, 1},
		{"answer 403", fault{status: 403, reason: "Forbidden"}, informer.Denied, 1},
		{"answer 404", fault{status: 404, reason: "NotFound"}, informer.NotServed, 1},
		{"answer 429", fault{status: 429, reason: "TooManyRequests"}, informer.Throttled, 1},
		{"answer 429 with Retry-After", fault{status: 429, reason: "TooManyRequests", retryAfter: 3}, informer.Throttled, 1},
		{"answer 500", fault{status: 500, reason: "InternalError"}, informer.ServerError, 1},
		{"answer 503 with Retry-After", fault{status: 503, reason: "ServiceUnavailable", retryAfter: 3}, informer.ServerError, 1},
		{"answer 504, too large resource version", fault{status: 504, reason: "Timeout", tooLarge: true}, informer.TooLarge, 1},
		{"answer 410", fault{status: 410, reason: "Expired"}, informer.Gone, 2},
		{"answer 400, version not taken", fault{status: 400, reason: "BadRequest"}, informer.Rejected, 2},
		{"ERROR 410", fault{end: "410"}, informer.Gone, 2},
		{"ERROR 429", fault{end: "429"}, informer.Throttled, 1},
		{"ERROR 500", fault{end: "500"}, informer.ServerError, 1},
		{"ERROR 504, too large resource version", fault{end: "504"}, informer.TooLarge, 1},
		{"cut", fault{end: "cut"}, informer.Disconnected, 1},
		{"cut in a frame", fault{end: "half"}, informer.Disconnected, 1},
		{"a frame that is no JSON", fault{end: "garbage"}, informer.Undecodable, 1},
		{"closed at once", fault{end: "eof"}, informer.ShortWatch, 1},
		{"dead after a bookmark", fault{end: "silent", after: 1}, informer.Silent, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.put("a", 1)
				w.fail(onceOnAWatch(c.f))
				var told []informer.Incident
				var log bytes.Buffer
				var m meter
				i := w.informer(informer.NoStreamingLists(), informer.Metrics(m.record),
					informer.OnError(func(in informer.Incident) { told = append(told, in) }),
					informer.Logger(slog.New(slog.NewTextHandler(&log, nil))))
				run(t, i, func() {
					after(61 * time.Second) // some faults come with the next frame
					w.put("a", 2)
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
				if len(told) != 1 || told[0].Kind != c.kind || told[0].Next == "" || told[0].RV != "1001" {
					t.Errorf("told %v", told)
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

// TestA410IsFollowedByAListAtOnce: within 250 ms, also when the server was away before.
// client-go waits for 0.8 to 1.6 s, and longer after an outage.
func TestA410IsFollowedByAListAtOnce(t *testing.T) {
	for name, outage := range map[string]int{"out of nothing": 0, "after an outage": 8} {
		for _, streams := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, streams=%t", name, streams), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld()
					w.put("a", 1)
					watches := 0
					var at times
					var opts []informer.Option
					w.fail(moments(&at, func(r request) fault {
						switch {
						case !r.watch || r.initial:
							return fault{end: "eof", after: 3} // one bookmark later, of a streaming list
						case watches < outage:
							watches++
							return fault{refuse: true}
						case watches == outage:
							watches++
							return fault{status: 410, reason: "Expired"}
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

// TestWatchesAskForBookmarksAndEndAtRandom: for 5 to 10 minutes, so that not all
// clients come back at the same moment.
func TestWatchesAskForBookmarksAndEndAtRandom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.put("a", 1)
		play(t, w, func(*informer.Informer[*thing]) { after(12 * time.Hour) })
		var all []int
		for _, r := range w.seen() {
			if !r.bookmarks || r.seconds < 300 || r.seconds >= 600 {
				t.Errorf("asked %+v", r)
			}
			all = append(all, r.seconds)
		}
		if least, most := slices.Min(all), slices.Max(all); len(all) < 72 || least > 400 || most < 500 {
			t.Errorf("%d watches of %d to %d s", len(all), least, most)
		}
	})
}

// TestRetryAfterIsWaitedForAndNotMuchLonger, wherever it is said.
func TestRetryAfterIsWaitedForAndNotMuchLonger(t *testing.T) {
	for _, c := range []struct {
		name  string
		f     fault
		opts  []informer.Option
		which int // the request that is refused
		want  time.Duration
	}{
		{"a streaming list", fault{status: 429, reason: "TooManyRequests", retryAfter: 7}, nil, 0, 7 * time.Second},
		{"a list", fault{status: 429, reason: "TooManyRequests", retryAfter: 7}, []informer.Option{informer.NoStreamingLists()}, 0, 7 * time.Second},
		{"a watch", fault{status: 429, reason: "TooManyRequests", retryAfter: 40}, []informer.Option{informer.NoStreamingLists()}, 1, 40 * time.Second},
		{"503", fault{status: 503, reason: "ServiceUnavailable", retryAfter: 40}, []informer.Option{informer.NoStreamingLists()}, 1, 40 * time.Second},
		{"in the stream", fault{end: "429", retryAfter: 7}, []informer.Option{informer.NoStreamingLists()}, 1, 7 * time.Second},
		{"a year", fault{status: 429, reason: "TooManyRequests", retryAfter: 365 * 24 * 3600}, nil, 0, 10 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.put("a", 1)
				var at times
				n := 0
				w.fail(moments(&at, func(request) fault {
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

// TestBackoffIsExactForADay: 0.8 s, twice as long each time, at most 30 s, up to half
// of it more, and it does not begin anew as long as nothing is well: an outage of a day
// costs 2 310 requests. client-go's begins anew every two minutes, which makes 4 526.
func TestBackoffIsExactForADay(t *testing.T) {
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
			"refused": {refuse: true}, "410": {status: 410, reason: "Expired"}, "too large": {status: 504, reason: "Timeout", tooLarge: true},
			"forbidden": {status: 403, reason: "Forbidden"}, "cut": {end: "cut"},
		} {
			t.Run(c.name+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld()
					w.put("a", 1)
					var at times
					w.fail(moments(&at, func(request) fault { return f }))
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

// TestAListIsNoSignOfHealth: the server answers each list and refuses each watch. The
// pauses grow all the same, and the state is not read again; after a watch that lived,
// the next pause is short again.
func TestAListIsNoSignOfHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.put("a", 1)
		var well atomic.Bool
		var at times
		w.fail(moments(&at, func(r request) fault {
			if r.watch && !well.Load() {
				return fault{refuse: true}
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

// TestAnObjectThatIsNeverReadableCostsNothingElse: it is there from the beginning, and
// for ever. client-go would read the state again and again.
func TestAnObjectThatIsNeverReadableCostsNothingElse(t *testing.T) {
	for name, opts := range map[string][]informer.Option{"LIST": {informer.NoStreamingLists()}, "streaming": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.put("good", 1)
				w.put("bad", 1)
				w.mu.Lock()
				w.things["bad"] = strings.Replace(w.things["bad"], `"value":1`, `"value":"one"`, 1)
				w.mu.Unlock()
				play(t, w, func(i *informer.Informer[*thing]) {
					for n := range 60 {
						after(10 * time.Minute)
						w.put("good", n)
					}
					after(time.Second)
					s := i.Status()
					if s.Lists != 1 || s.Undecodable != 1 || s.Objects != 1 || s.Incidents[informer.Undecodable] != 1 || len(s.Incidents) != 1 {
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

// TestFramesThatNobodyKnowsAreReportedAndPassedOver: what comes behind them is not lost,
// the connection is kept, and the position does not move with them.
func TestFramesThatNobodyKnowsAreReportedAndPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		server := scripted{watch: func(ctx context.Context, _ request, say func(...string)) error {
			say(frame("ADDED", w.object("a", 1, 1, 1)), mark("1", theEnd))
			linger(ctx, time.Second)
			say(
				frame("SURPRISE", w.object("b", 2, 50, 1)),
				frame("ADDED", `{"kind":"Table","apiVersion":"meta.k8s.io/v1","rows":[]}`),
				frame("ADDED", `{"kind":"Status","apiVersion":"v1","status":"Success"}`),
				frame("BOOKMARK", `{"kind":"Thing","metadata":{}}`),
				"{\"type\":\"ADDED\"}\n", "17\n",
			)
			linger(ctx, time.Second)
			say(frame("ADDED", w.object("c", 3, 3, 1)))
			<-ctx.Done()
			return nil
		}}
		i := server.informer()
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

// TestATransformThatFailsOnAnEventIsSaid: the cache keeps the state it has, and says
// that there is a newer one.
func TestATransformThatFailsOnAnEventIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.put("a", 1)
		unlucky := errors.New("no luck")
		var last informer.Incident
		source := informer.From("things", memory{w}, informer.JSON[*thing]()).Transform(func(o *thing) (*thing, error) {
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
			w.put("a", 13)
			after(time.Second)
			if o, _ := i.Get(key("a")); o.Value != 1 || i.Status().Undecodable != 1 {
				t.Errorf("it is %v, %+v", o, i.Status())
			}
			if last.Kind != informer.Undecodable || last.Key != key("a") || !errors.Is(last.Err, unlucky) {
				t.Errorf("incident %v", last)
			}
			w.put("a", 2)
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
