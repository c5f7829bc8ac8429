package cases

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/gapless-io/gapless/bench/internal/load"
	"github.com/gapless-io/gapless/bench/internal/wire"
)

const (
	// passedUpdates are the updates that a resume passes over (at full scale), but for the
	// one in passedShards of them that it selects.
	passedUpdates = 100_000
	passedShards  = 100
	// passers is how many watches resume at once.
	passers = 64
)

// passing are the resumes for which the server passes over nearly all of its history.
func passing() []Case {
	var all []Case
	for _, by := range []string{"namespace", "label"} {
		all = append(all, Case{
			Name: "resume-select-" + by,
			Title: fmt.Sprintf("%d resumes at once, %d updates back, each selects 1/%d by %s",
				passers, passedUpdates, passedShards, by),
			Stage: Shards, Ours: true, Run: runPassed(by), Metrics: []Metric{
				{Name: "cpu", Unit: "us/update", Goal: AtMost(1)}, {Name: "rate", Unit: "updates/s"}, {Name: "p99", Unit: "ms"},
			},
		})
	}
	return all
}

// runPassed measures watches of one shard each that begin before the updates of many
// shards. The updates that a watch passes over count, those that it returns do not.
func runPassed(by string) func(context.Context, *Run) (Sample, error) {
	return func(ctx context.Context, r *Run) (Sample, error) {
		s := Sample{Values: map[string]float64{}}
		updates := passedUpdates * r.Scale.Resumes / Full().Resumes
		followers, began, err := r.followers(ctx, updates, min(passers, r.Scale.PerConn))
		if err != nil {
			return s, err
		}
		conn, err := r.Target.Dial(ctx, wire.HTTP2)
		if err != nil {
			return s, err
		}
		defer conn.Close()
		latency := make([]load.Histogram, len(followers))
		u, err := r.measure(ctx, func() error {
			return load.InParallel(ctx, len(followers), len(followers), func(_ context.Context, worker, i int) error {
				f := followers[i]
				sent := time.Now()
				_, err := conn.Do(wire.Request{Path: passedPath(by, f.First, began)}, f)
				latency[worker].Add(time.Since(sent))
				return err
			})
		})
		if err != nil {
			return s, err
		}
		var verdict load.Verdict
		passed, all := int64(0), &load.Histogram{}
		for _, f := range followers {
			verdict = verdict.Plus(f.Verdict())
			passed += int64(updates) - f.Events()
		}
		for i := range latency {
			all.Merge(&latency[i])
		}
		s.Values["rate"] = float64(passed) / u.wall.Seconds()
		s.Values["p99"] = milliseconds(all.Quantile(0.99))
		u.into(s, float64(passed))
		return s, r.judge(&s, verdict, 0)
	}
}

// passedPath is that of a watch of a shard after a resourceVersion.
func passedPath(by string, i int, after uint64) string {
	query := []string{"watch", "1", "resourceVersion", strconv.FormatUint(after, 10), "timeoutSeconds", "600"}
	if by == "label" {
		return load.Query(load.Everyone, append(query, "labelSelector", "shard="+shard(i))...)
	}
	return load.Query(load.Namespaced(namespace(i)), query...)
}

// followers returns a follower of the history for each of n resumes, which ends at the last
// update of its shard, and the resourceVersion before the history. The first call of a
// server makes the history, which takes longer than all resumes.
func (r *Run) followers(ctx context.Context, updates, n int) ([]*load.Follower, uint64, error) {
	if r.passed == nil {
		var err error
		if r.passed, err = r.passedHistory(ctx, updates); err != nil {
			return nil, 0, err
		}
	}
	followers := make([]*load.Follower, n)
	for i := range followers {
		shard := i % len(r.passed.seqs)
		f := load.NewFollower(shard, 1, r.passed.seqs[shard])
		f.From(r.passed.began)
		var err error
		if f.Until, err = strconv.ParseUint(r.Shards[shard].Object.Version, 10, 64); err != nil {
			return nil, 0, err
		}
		followers[i] = f
	}
	return followers, r.passed.began, nil
}

// history is where updates begin.
type history struct {
	began uint64  // the resourceVersion before them
	seqs  []int64 // of each shard, the number of its first
}

// passedHistory updates the first shards in turn.
func (r *Run) passedHistory(ctx context.Context, updates int) (*history, error) {
	conns, hangUp, err := load.Connect(ctx, r.Target, selectWriters)
	if err != nil {
		return nil, err
	}
	defer hangUp()
	version, err := load.Current(conns[0])
	if err != nil {
		return nil, err
	}
	h := &history{}
	if h.began, err = strconv.ParseUint(version, 10, 64); err != nil {
		return nil, err
	}
	shards := r.Shards[:min(passedShards, len(r.Shards))/selectWriters*selectWriters] // no two writers share objects
	for _, w := range shards {
		h.seqs = append(h.seqs, w.Seq)
	}
	errs := make([]error, selectWriters)
	var all sync.WaitGroup
	for worker, conn := range conns {
		all.Go(func() {
			for i := worker; i < updates && errs[worker] == nil && ctx.Err() == nil; i += selectWriters {
				w := shards[i%len(shards)]
				w.Conn = conn
				errs[worker] = w.Update()
			}
		})
	}
	all.Wait()
	return h, errors.Join(errors.Join(errs...), context.Cause(ctx))
}
