package cases

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gapless-io/gapless/bench/internal/load"
	"github.com/gapless-io/gapless/bench/internal/wire"
)

// drainWithin is how long watchers may need for their last events.
const drainWithin = 2 * time.Minute

// floodWriters is the number of clients that write flat out.
const floodWriters = 8

// form is a form of objects that a watch can ask for.
type form struct {
	accept string // media type; empty is JSON
	kind   string // what the objects of its events are
}

// The forms that are measured.
//
//nolint:gochecknoglobals // constants, which cannot be structs
var (
	whole    = form{kind: load.Kind}
	tables   = form{"application/json;as=Table;g=meta.k8s.io;v=v1", "Table"}
	metadata = form{"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", "PartialObjectMetadata"}
)

// crowd is a kind of crowd: over HTTP/1.1 unless it says otherwise.
type crowd struct {
	form        form // Scale.Forms watchers that all ask for it
	large       bool // Scale.Crowd instead of Scale.Watchers
	multiplexed bool // over HTTP/2, Scale.PerConn on each connection
	single      bool // over one HTTP/2 connection, as many as go there

	content load.Content // of the objects; zero: of Run.content
	binary  bool         // in protobuf
}

func (c crowd) watchers(s Scale) int {
	switch {
	case c.form != form{}:
		return s.Forms
	case c.single:
		return s.PerConn
	case c.large:
		return s.Crowd
	}
	return s.Watchers
}

func (c crowd) connections(s Scale) int {
	if !c.multiplexed && !c.single {
		return 0
	}
	return (c.watchers(s) + s.PerConn - 1) / s.PerConn
}

// open opens watches on the whole collection of a namespace, that expect what the
// writers write from now on.
func (c crowd) open(ctx context.Context, r *Run, writers load.Writers) (*load.Crowd, error) {
	watches := make([]load.Watch, c.watchers(r.Scale))
	for i := range watches {
		watches[i] = load.Watch{
			Path: writers[0].Object.Collection(), Accept: c.form.accept, Follower: load.NewFollower(0, len(writers), 1),
		}
		watches[i].Follower.Kind, watches[i].Follower.Binary = c.form.kind, c.binary
		if c.binary {
			watches[i].Accept = load.Protobuf
		}
	}
	return load.Open(ctx, r.Target, c.connections(r.Scale), writers.Newest(), watches)
}

// runFlood measures watchers while writers write flat out.
func runFlood(kind crowd) func(context.Context, *Run) (Sample, error) {
	return func(ctx context.Context, r *Run) (Sample, error) {
		return r.deliver(ctx, kind, floodWriters, func(w load.Writers) error { return w.Flood(ctx, r.Scale.For) })
	}
}

// pace is that of the paced case: 5 updates a second.
const pace = 200 * time.Millisecond

// runPaced measures watchers of a collection that changes now and then.
func runPaced(ctx context.Context, r *Run) (Sample, error) {
	return r.deliver(ctx, crowd{}, 1, func(w load.Writers) error { return w.Pace(ctx, pace, r.Scale.Paced) })
}

// deliver opens a crowd, lets write write, and measures until every watcher has
// every event.
func (r *Run) deliver(ctx context.Context, kind crowd, n int, write func(load.Writers) error) (Sample, error) {
	s := Sample{Values: map[string]float64{}}
	writers, err := load.NewWriters(ctx, r.Target, n, load.Object{
		Namespace: "default", Name: r.unique(), Annotated: kind.form != form{}, Content: cmp.Or(kind.content, r.content),
	})
	if err != nil {
		return s, err
	}
	defer writers.Close()
	crowd, err := kind.open(ctx, r, writers)
	if err != nil {
		return s, err
	}
	before, behind := writers.Written(), 0
	var wrote time.Duration
	u, err := r.measure(ctx, func() error {
		began := time.Now()
		if err := write(writers); err != nil {
			return err
		}
		wrote = time.Since(began)
		behind = crowd.Drained(ctx, drainWithin, func(*load.Follower) int64 { return writers.Written() })
		return nil
	})
	events := float64(crowd.Events())
	err = errors.Join(err, crowd.Close())
	if err != nil {
		return s, err
	}
	verdict, latency := crowd.Judge()
	s.Values["rate"] = events / u.wall.Seconds()
	s.Values["writes"] = float64(writers.Written()-before) / wrote.Seconds()
	s.Values["p50"], s.Values["p99"] = milliseconds(latency.Quantile(0.5)), milliseconds(latency.Quantile(0.99))
	u.into(s, events)
	return s, r.judge(&s, verdict, behind)
}

// resumers is how many resumes are under way at once.
const resumers = 8

// runResume measures watches that begin with history: one from each of the recent
// resourceVersions up to the newest, over one connection.
func runResume(ctx context.Context, r *Run) (Sample, error) {
	versions, err := r.history(ctx, r.Scale.Resumes)
	if err != nil {
		return Sample{}, err
	}
	return r.resume(ctx, versions, len(versions)-1)
}

// runResumeFar measures watches that begin with history that lies a number of updates
// back (at full scale).
func runResumeFar(updates int) func(context.Context, *Run) (Sample, error) {
	return func(ctx context.Context, r *Run) (Sample, error) {
		versions, err := r.history(ctx, updates*r.Scale.Resumes/Full().Resumes)
		if err != nil {
			return Sample{}, err
		}
		return r.resume(ctx, versions, min(resumers, len(versions)-1))
	}
}

// resume watches from each of the first n versions up to the last one.
func (r *Run) resume(ctx context.Context, versions []uint64, n int) (Sample, error) {
	s := Sample{Values: map[string]float64{}}
	conn, err := r.Target.Dial(ctx, wire.HTTP2)
	if err != nil {
		return s, err
	}
	defer conn.Close()
	latency := make([]load.Histogram, resumers)
	var mu sync.Mutex
	var events int64
	var verdict load.Verdict
	last := versions[len(versions)-1]
	u, err := r.measure(ctx, func() error {
		return load.InParallel(ctx, resumers, n, func(_ context.Context, worker, i int) error {
			f := load.NewFollower(0, floodWriters, -1)
			f.From(versions[i])
			f.Until = last
			began := time.Now()
			path := load.Query(r.collection(), "watch", "1", "resourceVersion", strconv.FormatUint(versions[i], 10),
				"timeoutSeconds", "600")
			if _, err := conn.Do(wire.Request{Path: path}, f); err != nil {
				return err
			}
			latency[worker].Add(time.Since(began))
			if want := int64(len(versions) - 1 - i); f.Events() != want {
				return fmt.Errorf("a resume got %d events instead of %d", f.Events(), want)
			}
			mu.Lock()
			defer mu.Unlock()
			events += f.Events()
			verdict = verdict.Plus(f.Verdict())
			return nil
		})
	})
	if err != nil {
		return s, err
	}
	all := &load.Histogram{}
	for i := range latency {
		all.Merge(&latency[i])
	}
	s.Values["rate"] = float64(events) / u.wall.Seconds()
	s.Values["p99"] = milliseconds(all.Quantile(0.99))
	u.into(s, float64(events))
	return s, r.judge(&s, verdict, 0)
}

// history makes n updates and returns their resourceVersions, ascending.
func (r *Run) history(ctx context.Context, n int) ([]uint64, error) {
	writers, err := load.NewWriters(ctx, r.Target, floodWriters, load.Object{
		Namespace: "default", Name: r.unique(), Content: r.content,
	})
	if err != nil {
		return nil, err
	}
	defer writers.Close()
	versions := make([]uint64, n)
	err = load.InParallel(ctx, len(writers), len(versions), func(_ context.Context, worker, i int) error {
		err := writers[worker].Update()
		if err != nil {
			return err
		}
		versions[i], err = strconv.ParseUint(writers[worker].Object.Version, 10, 64)
		return err
	})
	slices.Sort(versions)
	return versions, err
}

// selection returns what watcher i of a kind asks for.
func selection(by string, i int) string {
	switch by {
	case "namespace":
		return load.Namespaced(namespace(i))
	case "field":
		return load.Query(load.Everyone, "fieldSelector", "spec.shard="+shard(i))
	}
	return load.Query(load.Everyone, "labelSelector", "shard="+shard(i))
}

// selectWriters is the number of clients that write to the shards.
const selectWriters = 4

// rewrite changes the objects of the shards one after another and returns the number of
// writes.
func (r *Run) rewrite(ctx context.Context, d time.Duration) (int64, error) {
	whole := len(r.Shards) / selectWriters * selectWriters // so that no two writers share objects
	return during(ctx, d, selectWriters, func(worker, i int) error { return r.Shards[(worker+i*selectWriters)%whole].Update() })
}

// unwatched measures the same writes before anybody watches.
func (r *Run) unwatched(ctx context.Context, s *Sample) error {
	var ops int64
	u, err := r.measure(ctx, func() (err error) {
		ops, err = r.rewrite(ctx, r.Scale.For/2)
		return err
	})
	s.Values["unwatched"] = float64(u.cpu.Microseconds()) / float64(ops)
	return err
}

// runSelect measures writes to objects each of which one of many watchers wants.
func runSelect(by string) func(context.Context, *Run) (Sample, error) {
	return func(ctx context.Context, r *Run) (Sample, error) {
		s := Sample{Values: map[string]float64{}}
		conns, hangUp, err := load.Connect(ctx, r.Target, selectWriters)
		if err != nil {
			return s, err
		}
		defer hangUp()
		for i, w := range r.Shards {
			w.Conn = conns[i%selectWriters]
		}
		if err := r.unwatched(ctx, &s); err != nil {
			return s, err
		}
		version, err := load.Current(conns[0])
		if err != nil {
			return s, err
		}
		watches := make([]load.Watch, len(r.Shards))
		for i, w := range r.Shards {
			watches[i] = load.Watch{Path: selection(by, i), Follower: load.NewFollower(i, 1, w.Seq)}
		}
		crowd, err := load.Open(ctx, r.Target, (len(watches)+r.Scale.PerConn-1)/r.Scale.PerConn, version, watches)
		if err != nil {
			return s, err
		}
		var ops int64
		behind := 0
		u, err := r.measure(ctx, func() (err error) {
			ops, err = r.rewrite(ctx, r.Scale.For)
			behind = crowd.Drained(ctx, drainWithin, func(f *load.Follower) int64 { return r.Shards[f.First].Seq })
			return err
		})
		if err = errors.Join(err, crowd.Close()); err != nil {
			return s, err
		}
		verdict, latency := crowd.Judge()
		s.Values["writes"] = float64(ops) / u.wall.Seconds()
		s.Values["p99"] = milliseconds(latency.Quantile(0.99))
		u.into(s, float64(ops))
		return s, r.judge(&s, verdict, behind)
	}
}

// runIdle measures the memory of watchers that wait, on a server that has just
// been started.
func runIdle(kind crowd) func(context.Context, *Run) (Sample, error) {
	return func(ctx context.Context, r *Run) (Sample, error) {
		s := Sample{Values: map[string]float64{}}
		writers, err := load.NewWriters(ctx, r.Target, 1, load.Object{
			Namespace: "default", Name: r.unique(), Content: r.content,
		})
		if err != nil {
			return s, err
		}
		defer writers.Close()
		before, err := r.Settled(ctx, r.Scale.Quiet)
		if err != nil {
			return s, err
		}
		crowd, err := kind.open(ctx, r, writers)
		if err != nil {
			return s, err
		}
		after, err := r.Settled(ctx, r.Scale.Quiet)
		s.Values["memory"] = float64(after-before) / 1000 / float64(kind.watchers(r.Scale))
		behind := 0
		if err == nil { // they must be alive
			err = writers[0].Update()
			behind = crowd.Drained(ctx, drainWithin, func(*load.Follower) int64 { return writers.Written() })
		}
		if err = errors.Join(err, crowd.Close()); err != nil {
			return s, err
		}
		verdict, _ := crowd.Judge()
		return s, r.judge(&s, verdict, behind)
	}
}
