package cases

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gapless-io/gapless/bench/internal/load"
	"github.com/gapless-io/gapless/bench/internal/peer"
	"github.com/gapless-io/gapless/bench/internal/wire"
)

const (
	// relayPace is the interval of the changes: 50 a second.
	relayPace = 20 * time.Millisecond
	// sampled is how many watches are read event for event; the others only count bytes.
	sampled = 50
	// sinkEvery is how often what came over the others is discarded.
	sinkEvery = 200 * time.Millisecond
	// sinkQuiet is how long nothing must come over the others until they have everything.
	sinkQuiet = 3 * sinkEvery
)

// arrivals are when each write arrived at one watcher, in nanoseconds since 1970, by its number.
type arrivals map[int64]int64

// audience is many watchers: some that are read, the others dropped.
type audience struct {
	crowd    *load.Crowd
	sink     *wire.Sink
	arrivals []arrivals
}

// attend opens n watches of the collection from the newest write of the writers.
func attend(ctx context.Context, t wire.Target, n int, writers load.Writers) (*audience, error) {
	a := &audience{sink: wire.NewSink(t, sinkEvery)}
	watches := make([]load.Watch, min(n, sampled))
	for i := range watches {
		at := arrivals{}
		a.arrivals = append(a.arrivals, at)
		watches[i] = load.Watch{Path: writers[0].Object.Collection(), Follower: load.NewFollower(0, 1, writers[0].Seq)}
		watches[i].Follower.Arrived = func(s load.Stamp, now int64) { at[s.Seq] = now }
	}
	var err error
	if a.crowd, err = load.Open(ctx, t, 0, writers.Newest(), watches); err != nil {
		a.sink.Close()
		return nil, err
	}
	path := relayAt(writers[0].Object.Collection(), writers.Newest())
	if err := load.InParallel(ctx, 16, n-len(watches), func(ctx context.Context, _, _ int) error {
		return a.sink.Open(ctx, wire.Request{Path: path})
	}); err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

// drained waits until all have everything, and returns how many of those that are read have not.
// The others have as many bytes then, and no more come.
func (a *audience) drained(ctx context.Context, written int64) int {
	end := time.Now().Add(drainWithin)
	behind := a.crowd.Drained(ctx, drainWithin, func(*load.Follower) int64 { return written })
	for before := int64(-1); time.Now().Before(end) && ctx.Err() == nil; {
		_, total := a.sink.Least()
		if total == before {
			break
		}
		before = total
		select {
		case <-ctx.Done():
		case <-time.After(sinkQuiet):
		}
	}
	return behind
}

func (a *audience) close() error {
	a.sink.Close()
	return a.crowd.Close()
}

// check fails for a relay that has lost or cut something, and notes it for others.
func (a *audience) check(s *Sample, who string, behind, changes int) error {
	verdict, _ := a.crowd.Judge()
	least, _ := a.sink.Least()
	const smallest = 1 << 10 // an event has more bytes than its payload
	ended := a.sink.Ended()
	if behind == 0 && verdict.Faultless() && verdict.Cut == 0 && ended == 0 && (least == 0 || least >= int64(changes*smallest)) {
		return nil
	}
	text := fmt.Sprintf("%s: %s; %d of %d that are read are behind, %d others were ended, the least of them got %d bytes",
		who, verdict, behind, len(a.arrivals), ended, least)
	if who == peer.Relay {
		return errors.New(text)
	}
	s.Notes = append(s.Notes, text)
	return nil
}

// runRelayWatch measures what many watchers of one resource cost upstream alone, and upstream and
// a relay when they watch the relay; how much later than at one watcher of upstream a change
// arrives at those of the relay (added); and how much later they get it than they would from upstream
// itself (over).
func runRelayWatch(large bool) func(context.Context, *Run) (Sample, error) {
	return func(ctx context.Context, r *Run) (s Sample, err error) {
		s = Sample{Values: map[string]float64{}}
		n, changes := r.Scale.Forms, max(int(r.Scale.Rate/relayPace), 5)
		if large {
			n = r.Scale.Crowd
		}
		writers, err := load.NewWriters(ctx, r.Target, 1, load.Object{Namespace: "default", Name: r.unique(), Content: r.content})
		if err != nil {
			return s, err
		}
		defer writers.Close()
		relay, stop, err := r.relayed(ctx)
		if err != nil {
			return s, err
		}
		defer func() { err = errors.Join(err, stop()) }()
		perChange := func(d time.Duration) float64 { return milliseconds(d) / float64(changes) }

		writes, err := cpuOf(func() error { return writers.Pace(ctx, relayPace, changes) }, r.Server)
		if err != nil {
			return s, err
		}
		show := showing{of: r.Server, n: n, changes: changes, writers: writers}
		a, used, err := r.attended(ctx, &s, show)
		if err != nil {
			return s, err
		}
		alone := used[0]
		s.Values["alone"] = perChange(alone)
		_, latency := a.crowd.Judge()
		s.Values["alone-p50"], s.Values["alone-p99"] = milliseconds(latency.Quantile(0.5)), milliseconds(latency.Quantile(0.99))

		for _, of := range []struct {
			name  string
			count int
		}{{"one", 1}, {"added", n}} {
			direct := arrivals{}
			show.of, show.n, show.direct = relay, of.count, direct
			a, used, err := r.attended(ctx, &s, show)
			if err != nil {
				return s, err
			}
			added := &load.Histogram{}
			for _, at := range a.arrivals {
				for seq, now := range at {
					if first, is := direct[seq]; is {
						added.Add(time.Duration(now - first))
					}
				}
			}
			s.Values[of.name+"-p50"], s.Values[of.name+"-p99"] = milliseconds(added.Quantile(0.5)), milliseconds(
				added.Quantile(0.99))
			_, latency := a.crowd.Judge()
			s.Values["over-p50"] = milliseconds(latency.Quantile(0.5)) - s.Values["alone-p50"]
			s.Values["over-p99"] = milliseconds(latency.Quantile(0.99)) - s.Values["alone-p99"]
			s.Values["upstream"], s.Values["relay"] = perChange(used[0]), perChange(used[1])
			s.Values[of.name+"-relay"] = perChange(used[1])
			s.Values["share"] = used[0].Seconds() / alone.Seconds()
			s.Values["share-served"] = max(used[0]-writes[0], 0).Seconds() / max(alone-writes[0], time.Millisecond).Seconds()
		}
		return s, nil
	}
}

// showing is one piece of the work: changes while n watch a server.
type showing struct {
	of         *peer.Server
	n, changes int
	writers    load.Writers
	// direct gets the arrivals at one more watcher, of upstream; nil: there is none.
	direct arrivals
}

// attended lets the writer make changes, and returns what upstream and, if one more watches that,
// the relay used until all have them.
func (r *Run) attended(ctx context.Context, s *Sample, show showing) (*audience, []time.Duration, error) {
	a, err := attend(ctx, show.of.Target, show.n, show.writers)
	if err != nil {
		return nil, nil, err
	}
	servers := []*peer.Server{r.Server}
	var one *load.Crowd
	if show.direct != nil {
		servers = append(servers, show.of)
		watch := load.Watch{Path: show.writers[0].Object.Collection(), Follower: load.NewFollower(0, 1, show.writers[0].Seq)}
		watch.Follower.Arrived = func(s load.Stamp, now int64) { show.direct[s.Seq] = now }
		if one, err = load.Open(ctx, r.Target, 0, show.writers.Newest(), []load.Watch{watch}); err != nil {
			return nil, nil, errors.Join(err, a.close())
		}
	}
	behind := 0
	profiled := func() error { return nil }
	if show.direct != nil {
		profiled = r.profile(ctx, show.of, fmt.Sprintf("-relay-%d", show.n), relayProfile)
	}
	used, err := cpuOf(func() error {
		if err := show.writers.Pace(ctx, relayPace, show.changes); err != nil {
			return err
		}
		behind = a.drained(ctx, show.writers.Written())
		return nil
	}, servers...)
	err = errors.Join(err, profiled())
	if one != nil {
		one.Drained(ctx, drainWithin, func(*load.Follower) int64 { return show.writers.Written() })
		err = errors.Join(err, one.Close())
	}
	if err = errors.Join(err, a.close()); err != nil {
		return nil, nil, err
	}
	return a, used, a.check(s, show.of.Name, behind, show.changes)
}
