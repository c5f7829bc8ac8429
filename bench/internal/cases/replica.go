package cases

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gapless-io/gapless/bench/internal/load"
	"github.com/gapless-io/gapless/bench/internal/peer"
	"github.com/gapless-io/gapless/bench/internal/wire"
)

// replicas are what gapless over an etcd promises beside kube-apiserver, each with an etcd of its own, fsync on.
func replicas() []Case {
	all := slices.Concat(replicaCreates(), []Case{
		replicaStart(), {
			Name: "replica-visible", Title: "over etcd: a write at one server until another shows it", Etcd: true,
			Run: runReplicaVisible, Metrics: []Metric{
				{Name: "p50", Unit: "ms", Goal: Ratio(1)}, {Name: "p99", Unit: "ms", Goal: Ratio(1)},
			},
		}, {
			Name: "replica-etcd-load", Title: "over etcd: 3 servers, 100 writes/s, 20 resources", Etcd: true,
			Run: runReplicaLoad, Metrics: []Metric{
				{Name: "etcd", Unit: "us/write", Goal: Ratio(1. / 2)},
				{Name: "sent", Unit: "KB/write", Goal: Ratio(1. / 2)},
				{Name: "cpu", Unit: "us/write"},
				{Name: "alone-etcd", Unit: "us/write"},
				{Name: "alone-sent", Unit: "KB/write"},
			},
		}, {
			Name: "replica-failover", Title: "over etcd: a server is killed, its client watches another one, 50 writes/s",
			Etcd: true, Ours: true, Run: runReplicaFailover, Metrics: []Metric{
				{Name: "gap", Unit: "s", Goal: AtMost(2)}, {Name: "expired", Goal: AtMost(0)},
			},
		},
	}, twins())
	for i := range all {
		all[i].Asked = all[i].Name != "replica-creates-16" && all[i].Name != "replica-failover"
	}
	return all
}

func replicaCreates() []Case {
	var all []Case
	for _, c := range []struct {
		clients int
		rate    float64
		alone   Goal
	}{{16, 1.5, Goal{}}, {256, 2, AtMost(1.18)}} {
		all = append(all, Case{
			Name: fmt.Sprintf("replica-creates-%d", c.clients), Title: "over etcd: create, " + clients(c.clients),
			Etcd: true, Run: runReplicaCreates(c.clients), Metrics: []Metric{
				{Name: "rate", Unit: "/s", Goal: Times(c.rate)},
				{Name: "cpu", Unit: "us", Goal: Ratio(1. / 4)},
				{Name: "p50", Unit: "ms"},
				{Name: "p99", Unit: "ms"},
				{Name: "etcd", Unit: "us"},
				{Name: "sent", Unit: "KB"},
				{Name: "slower", Unit: "of etcd alone", Goal: c.alone},
				{Name: "alone", Unit: "/s"},
				{Name: "alone-etcd", Unit: "us"},
			},
		})
	}
	return all
}

func replicaStart() Case {
	return Case{
		Name: "replica-start", Title: "over etcd: restart over 100 000 ConfigMaps until ready",
		Etcd: true, Ours: true, Once: true,
		Run: runReplicaStart, Metrics: []Metric{
			{Name: "time", Unit: "of kube-apiserver's", Goal: AtMost(1. / 5)},
			{Name: "etcd", Unit: "of kube-apiserver's", Goal: AtMost(1. / 5)},
			{Name: "bytes", Unit: "of kube-apiserver's", Goal: AtMost(1. / 5)},
			{Name: "warm", Unit: "s"},
			{Name: "warm-cpu", Unit: "s"},
			{Name: "warm-etcd", Unit: "s"},
			{Name: "warm-sent", Unit: "MB"},
			{Name: "cold", Unit: "s"},
			{Name: "cold-cpu", Unit: "s"},
			{Name: "cold-etcd", Unit: "s"},
			{Name: "cold-sent", Unit: "MB"},
			{Name: "kube", Unit: "s"},
			{Name: "kube-cpu", Unit: "s"},
			{Name: "kube-etcd", Unit: "s"},
			{Name: "kube-sent", Unit: "MB"},
		},
	}
}

// twins are what gapless over an etcd promises beside gapless on its own log.
func twins() []Case {
	var all []Case
	for _, twin := range []struct {
		name, title string
		run         func(context.Context, *Run) (Sample, error)
	}{
		{"replica-list", "LIST of 10 000, 1 client", runList(reading{clients: 1})},
		{"replica-fanout", "1 000 watchers, flat out", runFlood(crowd{})},
		{"replica-resume", "1 000 resumes, 500 events each", runResume},
	} {
		all = append(all, Case{
			Name: twin.name, Title: "over etcd, and on its own log: " + twin.title, Etcd: true, Ours: true,
			Run: runTwins(twin.run), Metrics: []Metric{
				{Name: "slower", Unit: "of its own log", Goal: AtMost(1.1)}, {Name: "cpu"}, {Name: "own"},
			},
		})
	}
	return all
}

// over starts an etcd and n servers over it; the first one is the run's. stop ends them and removes their data.
func (r *Run) over(ctx context.Context, n int) (servers []*peer.Server, stop func() error, err error) {
	if r.store, err = r.etcd.StartStore(ctx, filepath.Join(r.dir, "etcd")); err != nil {
		return nil, nil, err
	}
	stop = func() error {
		var errs []error
		for _, s := range servers {
			errs = append(errs, s.Stop())
		}
		r.store.Stop()
		r.store = nil
		return errors.Join(append(errs, os.RemoveAll(r.dir))...)
	}
	for i := range n {
		name := fmt.Sprint("server-", i)
		if i > 0 && r.Program.Name == peer.Gapless { // clients move between them
			err = peer.CopyKeys(filepath.Join(r.dir, name, "pki"), filepath.Join(r.dir, "server-0", "pki"))
		}
		var s *peer.Server
		if err == nil {
			s, err = r.startOver(ctx, r.Program, name)
		}
		if err != nil {
			return nil, nil, errors.Join(err, stop())
		}
		servers = append(servers, s)
	}
	r.Server = servers[0]
	return servers, stop, nil
}

// startOver starts a server over the run's etcd.
func (r *Run) startOver(ctx context.Context, p peer.Program, name string) (*peer.Server, error) {
	p.Store = r.store
	return p.Start(ctx, filepath.Join(r.dir, name))
}

// runReplicaCreates measures creates of ConfigMaps, and the same bytes written to the same etcd by its client alone.
func runReplicaCreates(clients int) func(context.Context, *Run) (Sample, error) {
	return func(ctx context.Context, r *Run) (s Sample, err error) {
		_, stop, err := r.over(ctx, 1)
		if err != nil {
			return s, err
		}
		defer func() { err = errors.Join(err, stop()) }()
		if err := r.define(ctx); err != nil {
			return s, err
		}
		if s, err = runCreate(load.ConfigMap, clients)(ctx, r); err != nil {
			return s, err
		}
		return s, r.createdAlone(ctx, &s, clients)
	}
}

// runReplicaStart measures restarts of gapless with its log (warm) and without (cold), and of kube-apiserver over the
// same etcd.
func runReplicaStart(ctx context.Context, r *Run) (s Sample, err error) {
	s = Sample{Values: map[string]float64{}}
	servers, stop, err := r.over(ctx, 1)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := r.define(ctx); err != nil {
		return s, err
	}
	if err := r.fill(ctx, r.Scale.Held); err != nil {
		return s, err
	}
	if err := servers[0].Stop(); err != nil {
		return s, err
	}
	for _, of := range []struct {
		name, dir string
		program   peer.Program
	}{{"warm", "server-0", r.Program}, {"cold", "cold", r.Program}, {"kube", "kube", r.kube}} {
		before, err := r.store.Load(ctx)
		if err != nil {
			return s, err
		}
		one, err := r.startOver(ctx, of.program, of.dir)
		if err != nil {
			return s, err
		}
		after, err := r.store.Load(ctx)
		used, failed := one.Usage()
		if err = errors.Join(err, failed, one.Stop()); err != nil {
			return s, err
		}
		s.Values[of.name], s.Values[of.name+"-cpu"] = one.Ready.Seconds(), used.CPU.Seconds()
		s.Values[of.name+"-etcd"] = (after.CPU - before.CPU).Seconds()
		s.Values[of.name+"-sent"] = (after.Sent - before.Sent) / megabyte
	}
	s.Values["time"] = s.Values["warm"] / s.Values["kube"]
	s.Values["etcd"] = s.Values["warm-etcd"] / max(s.Values["kube-etcd"], cpuTick)
	s.Values["bytes"] = s.Values["warm-sent"] / s.Values["kube-sent"]
	return s, nil
}

// cpuTick is the smallest CPU time that the operating system tells, in seconds.
const cpuTick = 0.01

// runReplicaVisible measures how long after it is sent to one server a write is seen by a watcher of another one.
func runReplicaVisible(ctx context.Context, r *Run) (s Sample, err error) {
	s = Sample{Values: map[string]float64{}}
	servers, stop, err := r.over(ctx, 2)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := r.define(ctx); err != nil {
		return s, err
	}
	writers, err := load.NewWriters(ctx, r.Target, 1, load.Object{Namespace: "default", Name: r.unique(), Content: r.content})
	if err != nil {
		return s, err
	}
	defer writers.Close()
	watch := load.Watch{Path: r.collection(), Follower: load.NewFollower(0, 1, writers[0].Seq)}
	crowd, err := load.Open(ctx, servers[1].Target, 0, writers.Newest(), []load.Watch{watch})
	if err != nil {
		return s, err
	}
	err = writers.Pace(ctx, relayPace, max(int(r.Scale.Rate/relayPace), 5))
	behind := crowd.Drained(ctx, drainWithin, func(*load.Follower) int64 { return writers.Written() })
	if err = errors.Join(err, crowd.Close()); err != nil {
		return s, err
	}
	verdict, latency := crowd.Judge()
	s.Values["p50"], s.Values["p99"] = milliseconds(latency.Quantile(0.5)), milliseconds(latency.Quantile(0.99))
	return s, r.judge(&s, verdict, behind)
}

const (
	// loadResources is the number of resources that are written to, and loadPace the interval of the writes.
	loadResources = 20
	loadPace      = 10 * time.Millisecond
)

// runReplicaLoad measures what an etcd does for three servers while objects of many resources are changed.
func runReplicaLoad(ctx context.Context, r *Run) (s Sample, err error) {
	s = Sample{Values: map[string]float64{}}
	servers, stop, err := r.over(ctx, 3)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	var writers load.Writers
	defer func() { writers.Close() }()
	for i := range loadResources {
		one, err := definedWriters(ctx, r.Target, servers[i%len(servers)].Target,
			load.Object{Namespace: "default", Name: r.unique(), Group: loadGroup(i)})
		if err != nil {
			return s, err
		}
		writers = append(writers, one...)
	}
	if err := wait(ctx, r.Scale.Quiet); err != nil { // informers of the definitions
		return s, err
	}
	writes := max(int(r.Scale.Rate/loadPace), loadResources)
	var u used
	cpu, err := cpuOf(func() (err error) {
		u, err = r.measure(ctx, func() error {
			tick := time.NewTicker(loadPace)
			defer tick.Stop()
			for i := range writes {
				if err := writers[i%len(writers)].Update(); err != nil {
					return err
				}
				<-tick.C
			}
			return nil
		})
		return err
	}, servers...)
	if err != nil {
		return s, err
	}
	u.into(s, float64(writes))
	s.Values["cpu"] = 0
	for _, one := range cpu {
		s.Values["cpu"] += float64(one.Microseconds()) / float64(writes)
	}
	return s, r.watchedAlone(ctx, &s, len(servers), writes)
}

// loadGroup is the group of one of the resources.
func loadGroup(i int) string { return fmt.Sprintf("n%02d.%s", i, load.Group) }

// definedWriters defines the resource of an object at one server, and returns its writer at another one.
func definedWriters(ctx context.Context, at, writes wire.Target, object load.Object) (load.Writers, error) {
	if err := defineIn(ctx, at, object.Group); err != nil {
		return nil, err
	}
	conn, err := connection(ctx, writes)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := served(ctx, conn, object); err != nil {
		return nil, err
	}
	return load.NewWriters(ctx, writes, 1, object)
}

// runReplicaFailover measures for how long a watch gets nothing whose server is killed while another one is written
// to; a front, which knows that at once, leads its client there.
func runReplicaFailover(ctx context.Context, r *Run) (s Sample, err error) {
	s = Sample{Values: map[string]float64{}}
	servers, stop, err := r.over(ctx, 2)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := r.define(ctx); err != nil {
		return s, err
	}
	front, err := peer.NewFront(ctx, servers[0], r.dir+"-front")
	if err != nil {
		return s, err
	}
	defer front.Cut()
	target, err := front.Target(servers[0])
	if err != nil {
		return s, err
	}
	writers, err := load.NewWriters(ctx, servers[1].Target, 1,
		load.Object{Namespace: "default", Name: r.unique(), Content: r.content})
	if err != nil {
		return s, err
	}
	defer writers.Close()
	watch := load.Watch{Path: r.collection(), Follower: load.NewFollower(0, 1, writers[0].Seq)}
	var last, gap int64
	watch.Follower.Arrived = func(_ load.Stamp, now int64) {
		if last > 0 {
			gap = max(gap, now-last)
		}
		last = now
	}
	crowd, err := load.Open(ctx, target, 0, writers.Newest(), []load.Watch{watch})
	if err != nil {
		return s, err
	}
	writes := max(int(r.Scale.Rate/relayPace), 5)
	err = writers.Pace(ctx, relayPace, writes/2)
	failed := make(chan error, 1)
	go func() { // it is waited for below
		failed <- servers[0].Kill()
		front.Cut()
		failed <- front.Point(ctx, servers[1])
	}()
	err = errors.Join(err, writers.Pace(ctx, relayPace, writes), <-failed, <-failed)
	behind := crowd.Drained(ctx, drainWithin, func(*load.Follower) int64 { return writers.Written() })
	if err = errors.Join(err, crowd.Close()); err != nil {
		return s, err
	}
	verdict, _ := crowd.Judge()
	s.Values["gap"], s.Values["expired"] = time.Duration(gap).Seconds(), float64(verdict.Expired)
	if behind > 0 || !verdict.Faultless() || verdict.Cut == 0 {
		return s, fmt.Errorf("a watch that goes on at another server: %s, %d behind", verdict, behind)
	}
	return s, nil
}

// runTwins runs a case on gapless with its own log, and on gapless over an etcd.
func runTwins(run func(context.Context, *Run) (Sample, error)) func(context.Context, *Run) (Sample, error) {
	return func(ctx context.Context, r *Run) (s Sample, err error) {
		r.content = load.Payload
		filled := func(r *Run) (Sample, error) {
			if err := r.define(ctx); err != nil {
				return Sample{}, err
			}
			if err := r.fill(ctx, r.Scale.Objects); err != nil {
				return Sample{}, err
			}
			return run(ctx, r)
		}
		own := *r
		own.dir += "-own"
		if own.Server, err = r.Program.Start(ctx, own.dir); err != nil {
			return s, err
		}
		alone, err := filled(&own)
		if err = errors.Join(err, own.remove()); err != nil {
			return s, err
		}
		_, stop, err := r.over(ctx, 1)
		if err != nil {
			return s, err
		}
		defer func() { err = errors.Join(err, stop()) }()
		if s, err = filled(r); err != nil {
			return s, err
		}
		s.Values["own"] = alone.Values["cpu"]
		s.Values["slower"] = s.Values["cpu"] / s.Values["own"]
		return s, nil
	}
}
