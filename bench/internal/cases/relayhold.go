package cases

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gapless-io/gapless/bench/internal/load"
	"github.com/gapless-io/gapless/bench/internal/peer"
)

// historyWriters is the number of clients that make an hour's changes.
const historyWriters = 16

// runRelayHold measures how long a relay needs for many objects, with nothing on its disk and
// after a restart with an hour of history, and what memory it and upstream need.
func runRelayHold(ctx context.Context, r *Run) (s Sample, err error) {
	s = Sample{Values: map[string]float64{}}
	if r.Server, err = r.Program.Start(ctx, r.dir); err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, r.remove()) }()
	if err := r.define(ctx); err != nil {
		return s, err
	}
	all, err := r.fillWith(ctx, r.Scale.Held, r.large())
	if err != nil {
		return s, err
	}
	upstream, err := r.Settled(ctx, r.Scale.Quiet)
	if err != nil {
		return s, err
	}
	s.Values["upstream"] = float64(upstream) / megabyte

	front, err := peer.NewFront(ctx, r.Server, r.dir+"-front")
	if err != nil {
		return s, err
	}
	defer front.Cut()
	dir := r.dir + "-relay"
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	relay, err := r.cold(ctx, &s, front, dir)
	if err != nil {
		return s, err
	}
	stop := func() error { return relay.Stop() }
	defer func() { err = errors.Join(err, stop()) }()
	held, err := relay.Settled(ctx, r.Scale.Quiet)
	if err != nil {
		return s, err
	}
	s.Values["relay"], s.Values["memory"] = float64(held)/megabyte, float64(held)/float64(upstream)
	from, err := r.listOf(ctx, &s, relay)
	if err != nil {
		return s, err
	}
	if err := r.hour(ctx, all, relay); err != nil {
		return s, err
	}
	history, err := relay.Settled(ctx, r.Scale.Quiet)
	if err != nil {
		return s, err
	}
	s.Values["relay-history"] = float64(history) / megabyte

	if err := relay.Stop(); err != nil {
		return s, err
	}
	stop = func() error { return nil }
	again, warm, cpu, err := r.holding(ctx, front, dir)
	if err != nil {
		return s, err
	}
	relay, stop = again, again.Stop
	s.Values["warm"], s.Values["warm-cpu"] = warm.Seconds(), cpu.Seconds()
	if err := r.resumed(ctx, &s, relay, from); err != nil {
		return s, err
	}
	settled, err := relay.Settled(ctx, r.Scale.Quiet)
	s.Values["relay-warm"] = float64(settled) / megabyte
	return s, errors.Join(err, r.heap(ctx, relay))
}

// heap writes what is in a relay's memory to the directory of profiles, if there is one.
func (r *Run) heap(ctx context.Context, relay *peer.Server) error {
	if r.profiles == "" {
		return nil
	}
	return fetch(ctx, relay.Profiles+"/debug/pprof/heap?gc=1", filepath.Join(r.profiles, r.unique()+"-heap.pprof"))
}

// cold starts a relay that has nothing on its disk.
func (r *Run) cold(ctx context.Context, s *Sample, front *peer.Front, dir string) (*peer.Server, error) {
	before, err := r.Usage()
	if err != nil {
		return nil, err
	}
	relay, cold, cpu, err := r.holding(ctx, front, dir)
	if err != nil {
		return nil, err
	}
	after, err := r.Usage()
	if err != nil {
		return nil, errors.Join(err, relay.Stop())
	}
	s.Values["cold"], s.Values["cold-cpu"], s.Values["cold-upstream"] = cold.Seconds(), cpu.Seconds(),
		(after.CPU - before.CPU).Seconds()
	return relay, nil
}

// holding starts a relay on a directory, and returns how long it took until it had mirrored
// everything, and how much CPU.
func (r *Run) holding(ctx context.Context, front *peer.Front, dir string) (relay *peer.Server, took, cpu time.Duration, err error) { //nolint:revive // both are of one start
	if relay, err = r.Relay.StartRelay(ctx, r.Server, front, dir, "--resources", r.relayOf()); err != nil {
		return nil, 0, 0, err
	}
	took, err = relay.Complete(ctx, relayWithin)
	used, failed := relay.Usage()
	if err = errors.Join(err, failed); err != nil {
		return nil, 0, 0, errors.Join(err, relay.Stop())
	}
	return relay, took, used.CPU, nil
}

// listOf lists everything from the relay, and returns the resourceVersion.
func (r *Run) listOf(ctx context.Context, s *Sample, relay *peer.Server) (string, error) {
	conn, err := connection(ctx, relay.Target)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	began := time.Now()
	list, err := load.ReadState(conn, r.collection())
	if err != nil {
		return "", err
	}
	s.Values["list"] = time.Since(began).Seconds()
	if list.Objects != r.filled {
		return "", fmt.Errorf("%w: %d objects instead of %d", errShort, list.Objects, r.filled)
	}
	return list.Version, nil
}

// hour makes as many changes as there are in an hour, and waits until the relay has them.
func (r *Run) hour(ctx context.Context, all []*load.Writer, relay *peer.Server) error {
	conns, hangUp, err := load.Connect(ctx, r.Target, historyWriters)
	if err != nil {
		return err
	}
	defer hangUp()
	some := all[:len(all)/historyWriters*historyWriters] // so that no two clients share objects
	if err := load.InParallel(ctx, historyWriters, historyWriters, func(ctx context.Context, worker, i int) error {
		for n := i; n < r.Scale.Changes && ctx.Err() == nil; n += historyWriters {
			w := some[n%len(some)]
			w.Conn = conns[worker]
			if err := w.Update(); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	newest, err := strconv.ParseUint(load.Writers(some).Newest(), 10, 64)
	if err != nil {
		return fmt.Errorf("the newest change: %w", err)
	}
	conn, err := connection(ctx, relay.Target)
	if err != nil {
		return err
	}
	defer conn.Close()
	for end := time.Now().Add(relayWithin); ; {
		at, err := load.ReadVersion(conn, r.collection(), "0")
		if err != nil || at >= newest {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("the relay is at %d after %v, upstream at %d", at, relayWithin, newest)
		}
		if err := wait(ctx, collectPoll); err != nil {
			return err
		}
	}
}

// resumed reads all changes from a relay that was started again, and looks whether that made it
// list upstream.
func (r *Run) resumed(ctx context.Context, s *Sample, relay *peer.Server, from string) error {
	follower := load.NewFollower(0, r.filled, 1)
	watch := load.Watch{Path: r.collection(), Follower: follower}
	began := time.Now()
	crowd, err := load.Open(ctx, relay.Target, 0, from, []load.Watch{watch})
	if err != nil {
		return err
	}
	changes := int64(r.Scale.Changes)
	behind := crowd.Drained(ctx, drainWithin, func(f *load.Follower) int64 { return int64(r.filled) + changes })
	s.Values["resumed"] = float64(follower.Events()) / time.Since(began).Seconds()
	if err := crowd.Close(); err != nil {
		return err
	}
	verdict, _ := crowd.Judge()
	if behind > 0 || !verdict.Faultless() || verdict.Cut > 0 || follower.Events() != changes {
		return fmt.Errorf("a watch that resumes after the relay's restart got %d of %d changes: %s",
			follower.Events(), changes, verdict)
	}
	s.Values["warm-lists"], err = relayReads(ctx, relay)
	return err
}
