package campaign

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
)

// fault is one thing that fails. heal ends all of them.
type fault struct {
	name   string
	weight int
	lasts  time.Duration // at most
	alone  bool          // nothing else fails meanwhile
	start  func(ctx context.Context, r *run) error
}

const (
	short = 1500 * time.Millisecond
	long  = 4 * time.Second
)

func faultsOfReplicas() []fault {
	return []fault{
		{name: "replica killed", weight: 12, lasts: short, start: func(_ context.Context, r *run) error {
			r.killReplica(r.replica())
			return nil
		}},
		{name: "replica killed, and nothing else", weight: 8, lasts: short, alone: true, start: killAlone},
		{name: "replica killed as it starts", weight: 4, lasts: short, start: killAsItStarts},
		{name: "replica paused", weight: 8, lasts: long, start: func(_ context.Context, r *run) error {
			if of := r.replica(); !r.down[of] {
				return of.server.Pause()
			}
			return nil
		}},
		{name: "replica cut off from etcd", weight: 8, lasts: long, start: toAll((*link).cut)},
		{name: "replica hears nothing of etcd", weight: 6, lasts: long, start: toAll((*link).stall)},
		{name: "replica cut off from one member", weight: 6, lasts: long, start: toOne((*link).cut)},
		{name: "replica hears nothing of one member", weight: 6, lasts: long, start: toOne((*link).stall)},
		{name: "clients of a replica moved", weight: 6, start: func(_ context.Context, r *run) error {
			r.replica().clients.cut()
			return nil
		}},
		{name: "replica away for longer than history", weight: 4, lasts: short, alone: true, start: missHistory},
	}
}

func faultsOfEtcd() []fault {
	return []fault{
		{name: "member killed", weight: 6, lasts: short, start: func(_ context.Context, r *run) error {
			return r.member().kill()
		}},
		{name: "leader killed", weight: 6, lasts: short, start: func(ctx context.Context, r *run) error {
			return r.cluster.leader(ctx).kill()
		}},
		{name: "two members killed", weight: 3, lasts: long, alone: true, start: killTwo},
		{name: "member paused", weight: 4, lasts: long, start: func(_ context.Context, r *run) error {
			return r.member().pause()
		}},
		{name: "leader paused", weight: 5, lasts: long, start: func(ctx context.Context, r *run) error {
			return r.cluster.leader(ctx).pause()
		}},
		{name: "member cut off from the members", weight: 4, lasts: long, start: func(_ context.Context, r *run) error {
			r.cluster.isolate(r.member())
			return nil
		}},
		{name: "leader cut off from the members", weight: 6, lasts: long, start: func(ctx context.Context, r *run) error {
			r.cluster.isolate(r.cluster.leader(ctx))
			return nil
		}},
		{name: "leader moved", weight: 5, start: moveLeader},
		{name: "etcd compacted", weight: 5, start: func(ctx context.Context, r *run) error {
			r.compact(ctx, r.safe)
			return nil
		}},
		{name: "member defragmented", weight: 3, start: defragment},
		{name: "no space", weight: 1, lasts: short, start: func(ctx context.Context, r *run) error {
			return r.alarm(ctx, etcdserverpb.AlarmRequest_ACTIVATE)
		}},
	}
}

// toAll does something to what connects a replica with etcd.
func toAll(do func(*link)) func(context.Context, *run) error {
	return func(_ context.Context, r *run) error {
		for _, l := range r.replica().etcd {
			do(l)
		}
		return nil
	}
}

// toOne does something to what connects a replica with one member of etcd.
func toOne(do func(*link)) func(context.Context, *run) error {
	return func(_ context.Context, r *run) error {
		do(r.replica().etcd[r.random.IntN(members)])
		return nil
	}
}

// killAlone kills a replica, and measures when its watches go on at others.
func killAlone(_ context.Context, r *run) error {
	of := r.replica()
	r.moves.kill(of.url())
	r.killReplica(of)
	return nil
}

func killAsItStarts(ctx context.Context, r *run) error {
	of := r.replica()
	r.killReplica(of)
	if err := of.server.Exec(); err != nil {
		return err
	}
	if err := sleep(ctx, r.upTo(400*time.Millisecond)); err != nil {
		return err
	}
	r.killReplica(of)
	return nil
}

func killTwo(_ context.Context, r *run) error {
	first := r.random.IntN(members)
	for i := range 2 {
		if err := r.cluster.members[(first+i)%members].kill(); err != nil {
			return err
		}
	}
	return nil
}

func defragment(ctx context.Context, r *run) error {
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, _ = r.cluster.client.Defragment(limited, r.member().Client) // it may not serve
	return nil
}

// choose draws a fault.
func (r *run) choose() fault {
	all := append(faultsOfReplicas(), faultsOfEtcd()...)
	total := 0
	for _, f := range all {
		total += f.weight
	}
	n := r.random.IntN(total)
	for _, f := range all {
		if n -= f.weight; n < 0 {
			return f
		}
	}
	return all[0]
}

func (r *run) replica() *replica { return r.cluster.replicas[r.random.IntN(replicas)] }
func (r *run) member() *member   { return r.cluster.members[r.random.IntN(members)] }

// killReplica kills a replica, unless it was.
func (r *run) killReplica(of *replica) {
	if err := of.server.Kill(); err != nil && !r.down[of] {
		r.record.Violation("%s: %v", of.name, err)
	}
	r.down[of] = true
}

func (m *member) pause() error {
	if m.process == nil {
		return nil
	}
	return m.process.Pause()
}

func moveLeader(ctx context.Context, r *run) error {
	from := r.cluster.leader(ctx)
	to := r.member()
	if from == to || from.process == nil {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return r.cluster.moveLeader(limited, from, to)
}

// compact compacts etcd to a revision, if it answers.
func (r *run) compact(ctx context.Context, to int64) {
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, _ = r.cluster.client.Compact(limited, to) // it may have no quorum, or have compacted more
}

// missHistory cuts a replica off, and compacts what it misses. Its clients go elsewhere, as a balancer that
// asks for /readyz sends them: they come back when it is known which revisions it has missed.
func missHistory(ctx context.Context, r *run) error {
	of := r.replica()
	r.away(of)
	for _, l := range of.etcd {
		l.cut()
	}
	if err := sleep(ctx, 200*time.Millisecond+r.upTo(calm)); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	now, err := r.cluster.client.Get(limited, "none")
	if err != nil {
		return fmt.Errorf("read etcd's revision: %w", err)
	}
	r.missed = now.Header.Revision
	r.compact(ctx, r.missed)
	return nil
}
