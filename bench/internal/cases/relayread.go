package cases

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gapless-io/gapless/bench/internal/load"
	"github.com/gapless-io/gapless/bench/internal/peer"
	"github.com/gapless-io/gapless/bench/internal/wire"
)

// relayProfile is how many seconds of a relay's work a profile has.
const relayProfile = 2

// singleLists is how many lists are taken to find out what one costs upstream.
const singleLists = 3

// runRelayLists lets many clients list the same collection at once: any state (0) and the most
// recent one, from the relay, and the most recent one from upstream.
func runRelayLists(ctx context.Context, r *Run) (s Sample, err error) {
	s = Sample{Values: map[string]float64{}}
	relay, stop, err := r.relayed(ctx)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	one, err := connection(ctx, r.Target)
	if err != nil {
		return s, err
	}
	defer one.Close()
	reader := &load.Reader{Conn: one, List: load.List{Path: r.collection()}}
	single, err := cpuOf(func() error {
		for range singleLists {
			if _, err := reader.Read(); err != nil {
				return err
			}
		}
		return nil
	}, r.Server)
	if err != nil {
		return s, err
	}
	list := single[0] / singleLists
	for _, of := range []struct{ suffix, version string }{{"-0", "0"}, {"", ""}} {
		var took time.Duration
		profiled := r.profile(ctx, relay, "-relay"+of.suffix, relayProfile)
		used, err := cpuOf(func() (err error) {
			took, err = r.listers(ctx, relay, of.version)
			return err
		}, r.Server, relay)
		if err = errors.Join(err, profiled()); err != nil {
			return s, err
		}
		s.Values["time"+of.suffix] = took.Seconds()
		s.Values["upstream"+of.suffix] = used[0].Seconds() / max(list, time.Millisecond).Seconds()
		s.Values["relay"] = milliseconds(used[1]) / float64(r.Scale.Listers)
	}
	release := r.Guard(memoryReserve)
	took, failed := r.listers(ctx, r.Server, "")
	if _, killed := release(); killed != nil {
		s.Notes = append(s.Notes, r.Program.Name+" "+killed.Error()+": its time is that until then")
	} else if failed != nil {
		s.Notes = append(s.Notes, fmt.Sprintf("%s alone: %v", r.Program.Name, failed))
	}
	s.Values["alone"] = took.Seconds()
	s.Values["share-0"], s.Values["share"] = s.Values["time-0"]/took.Seconds(), s.Values["time"]/took.Seconds()
	return s, nil
}

// listers lets all clients list at once, and returns how long it took until the last one had
// everything.
func (r *Run) listers(ctx context.Context, of *peer.Server, version string) (time.Duration, error) {
	readers, hangUp, err := reading{clients: r.Scale.Listers}.readers(ctx, of.Target, r.collection())
	if err != nil {
		return 0, err
	}
	defer hangUp()
	readers[0].List.Version = "0"
	size, err := readers[0].Read()
	if err != nil {
		return 0, err
	}
	const smallest = 1 << 10 // an object has more bytes than its payload
	if size < int64(r.filled)*smallest/2 {
		return 0, fmt.Errorf("%w: %d bytes of %d objects", errShort, size, r.filled)
	}
	failed := make([]error, len(readers))
	began := time.Now()
	if _, err = during(ctx, 0, len(readers), func(worker, _ int) error {
		readers[worker].List.Version = version
		n, err := readers[worker].Read()
		if err == nil && n < size-size/100 {
			err = fmt.Errorf("%w: %d bytes instead of %d", errShort, n, size)
		}
		failed[worker] = err
		return nil
	}); err != nil {
		return 0, err
	}
	took := time.Since(began)
	failed = slices.DeleteFunc(failed, func(err error) bool { return err == nil })
	if len(failed) > 0 {
		err = fmt.Errorf("%d of %d lists failed, the first: %w", len(failed), len(readers), failed[0])
	}
	return took, err
}

// changes are what happens while consistent lists are read.
type changes int

const (
	quiet     changes = iota // nothing
	elsewhere                // another resource changes
	changing                 // the resource changes
)

// relayFresh is a case of consistent lists.
func relayFresh(name, title string, what changes) Case {
	return Case{
		Name: name, Title: title, Stage: Objects, Relay: true, Run: runRelayFresh(what), Metrics: []Metric{
			{Name: "progress", Unit: "/s", Goal: AtMost(20)},
			{Name: "compared", Unit: "/s"},
			{Name: "over", Unit: "ms", Goal: AtMost(100)},
			{Name: "p50", Unit: "ms"},
			{Name: "p99", Unit: "ms"},
			{Name: "alone-p99", Unit: "ms"},
			{Name: "upstream", Unit: "ms/list"},
			{Name: "alone", Unit: "ms/list"},
		},
	}
}

const (
	// freshEvery is the interval of consistent lists: 100 a second.
	freshEvery = 10 * time.Millisecond
	// freshReaders is how many clients take turns with them.
	freshReaders = 50
	// elsewherePace is the interval of changes of another resource.
	elsewherePace = 50 * time.Millisecond
)

// runRelayFresh measures lists of the most recent state at a rate, from upstream and from a relay.
// A page of one object is read: what counts is how long it takes to know that it is the most
// recent one.
func runRelayFresh(what changes) func(context.Context, *Run) (Sample, error) {
	return func(ctx context.Context, r *Run) (s Sample, err error) {
		s = Sample{Values: map[string]float64{}}
		relay, stop, err := r.relayed(ctx)
		if err != nil {
			return s, err
		}
		defer func() { err = errors.Join(err, stop()) }()
		acknowledged := &atomic.Uint64{}
		end, err := r.disturb(ctx, what, acknowledged)
		if err != nil {
			return s, err
		}
		defer func() { err = errors.Join(err, end()) }()
		asked := func(kind string) (float64, error) {
			return relay.Metric(ctx, "gapless_relay_upstream_progress_requests_total", fmt.Sprintf("request=%q", kind))
		}
		var before, after [2]float64
		for i, kind := range []string{"progress", "compare"} {
			if before[i], err = asked(kind); err != nil {
				return s, err
			}
		}
		p99 := map[string]time.Duration{}
		for _, of := range []*peer.Server{r.Server, relay} {
			var latency *load.Histogram
			began := time.Now()
			used, err := cpuOf(func() (err error) {
				latency, err = r.consistent(ctx, of, acknowledged)
				return err
			}, r.Server)
			if err != nil {
				return s, err
			}
			lists := float64(max(int(r.Scale.Rate/freshEvery), 1))
			p99[of.Name] = latency.Quantile(0.99)
			if of == r.Server {
				s.Values["alone"] = milliseconds(used[0]) / lists
				continue
			}
			s.Values["upstream"], s.Values["p50"] = milliseconds(used[0])/lists, milliseconds(latency.Quantile(0.5))
			for i, kind := range []string{"progress", "compare"} {
				if after[i], err = asked(kind); err != nil {
					return s, err
				}
			}
			took := time.Since(began).Seconds()
			s.Values["progress"], s.Values["compared"] = (after[0]-before[0])/took, (after[1]-before[1])/took
		}
		s.Values["p99"], s.Values["alone-p99"] = milliseconds(p99[relay.Name]), milliseconds(p99[r.Name])
		s.Values["over"] = s.Values["p99"] - s.Values["alone-p99"]
		return s, nil
	}
}

// consistent lists at a rate, whatever the answers take. A list that is older than the last
// change that was acknowledged before it was asked for is an error.
func (r *Run) consistent(ctx context.Context, of *peer.Server, acknowledged *atomic.Uint64) (*load.Histogram, error) {
	conns, hangUp, err := load.Connect(ctx, of.Target, freshReaders)
	if err != nil {
		return nil, err
	}
	defer hangUp()
	n := max(int(r.Scale.Rate/freshEvery), 1)
	begin := time.Now()
	latency := make([]load.Histogram, freshReaders)
	if err := load.InParallel(ctx, freshReaders, n, func(ctx context.Context, worker, i int) error {
		due := begin.Add(time.Duration(i) * freshEvery)
		if err := wait(ctx, time.Until(due)); err != nil {
			return err
		}
		least := acknowledged.Load()
		at, err := load.ReadVersion(conns[worker], r.collection(), "")
		latency[worker].Add(time.Since(due)) // a list that was late because others were counts so
		if err == nil && at < least {
			err = fmt.Errorf("a list of the most recent state is at %d, but a change at %d was acknowledged before", at, least)
		}
		return err
	}); err != nil {
		return nil, fmt.Errorf("consistent lists of %s: %w", of.Name, err)
	}
	all := &load.Histogram{}
	for i := range latency {
		all.Merge(&latency[i])
	}
	return all, nil
}

// disturb makes changes until the returned function is called. The versions of those of the
// resource go to acknowledged.
func (r *Run) disturb(ctx context.Context, what changes, acknowledged *atomic.Uint64) (end func() error, err error) {
	if what == quiet {
		return func() error { return nil }, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	change, interval, hangUp, err := r.changer(ctx, what, acknowledged)
	if err != nil {
		cancel()
		return nil, err
	}
	var running sync.WaitGroup
	var failed error
	running.Go(func() { // ends with the returned function
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for failed == nil {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				failed = change()
			}
		}
	})
	return func() error {
		cancel()
		running.Wait()
		hangUp()
		return failed
	}, nil
}

// changer returns what makes one change.
func (r *Run) changer(ctx context.Context, what changes, acknowledged *atomic.Uint64) (change func() error, interval time.Duration, hangUp func(), err error) { //nolint:revive // one thing and how often to do it
	if what == changing {
		writers, err := load.NewWriters(ctx, r.Target, 1, load.Object{Namespace: "default", Name: r.unique(), Content: r.content})
		if err != nil {
			return nil, 0, nil, err
		}
		return func() error {
			if err := writers[0].Update(); err != nil {
				return err
			}
			version, err := strconv.ParseUint(writers[0].Object.Version, 10, 64)
			acknowledged.Store(version)
			return err
		}, relayPace, writers.Close, nil
	}
	conn, err := connection(ctx, r.Target)
	if err != nil {
		return nil, 0, nil, err
	}
	change, err = r.others(ctx, conn)
	return change, elsewherePace, conn.Close, err
}

// others defines another resource if there is none, and returns what changes an object of it.
func (r *Run) others(ctx context.Context, conn wire.Conn) (func() error, error) {
	another := strings.NewReplacer("benches", "others", `"bench"`, `"other"`, "Bench", "Other").Replace
	collection := another(load.Namespaced("default"))
	_, err := conn.Do(wire.Request{
		Method: http.MethodPost, Path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		Body: []byte(another(load.Definition)),
	}, io.Discard)
	if refused, is := errors.AsType[*wire.StatusError](err); err != nil && (!is || refused.Status != http.StatusConflict) {
		return nil, fmt.Errorf("define another resource: %w", err)
	}
	name := "other-" + r.unique()
	body := fmt.Appendf(nil, `{"apiVersion":"%s/v1","kind":"Other","metadata":{"name":%q}}`, load.Group, name)
	for end := time.Now().Add(cacheLag); ; {
		_, err := conn.Do(wire.Request{Method: http.MethodPost, Path: collection, Body: body}, io.Discard)
		if err == nil {
			break
		}
		if refused, is := errors.AsType[*wire.StatusError](err); !is ||
			refused.Status != http.StatusNotFound && refused.Status != http.StatusTooManyRequests || time.Now().After(end) {
			return nil, fmt.Errorf("create an object of another resource: %w", err)
		}
		if err := wait(ctx, freshEvery); err != nil {
			return nil, err
		}
	}
	n := 0
	return func() error {
		n++
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"n":"%d"}}}`, n)
		_, err := conn.Do(wire.Request{
			Method: http.MethodPatch, Path: collection + "/" + name, Type: "application/merge-patch+json", Body: patch,
		}, io.Discard)
		return err
	}, nil
}
