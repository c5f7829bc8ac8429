package gapless

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/gapless-io/gapless/internal/store/etcd/members"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/kube"
	"github.com/gapless-io/gapless/status"
)

// unreadableNamed is how many of them a status names.
const unreadableNamed = 100

// status reports the state of a replica, with what it has as every server. It waits for etcd, where
// that does not answer, as long as reads do.
func (r *replica) status(ctx context.Context, state *status.State) (any, error) {
	own, err := r.main.status(ctx)
	if err != nil {
		return nil, err
	}
	r.addUnreadable(&own)
	own.ControllerManager, own.State = r.manager(), state
	for _, c := range r.apart {
		of, err := c.status(ctx)
		if err != nil {
			return nil, err
		}
		own.Overrides = append(own.Overrides, status.Override{Resources: c.names(), Replica: of})
	}
	return own, nil
}

// status reports the state of a replica in one cluster.
func (c *etcdCluster) status(ctx context.Context) (status.Replica, error) {
	report, err := c.health.latest(ctx)
	if err != nil {
		return status.Replica{}, err
	}
	own := status.Replica{
		Member: replicaMember(c.members.Self()), Floors: []status.Floor{}, Holes: []status.Hole{},
		Etcd: etcdStatus(report), Replicas: []status.Member{}, Unreadable: []status.Unreadable{},
	}
	limited, cancel := context.WithTimeout(ctx, c.patient.patience)
	view, err := c.members.List(limited)
	cancel()
	if err != nil {
		own.ReplicasUnknown = err.Error()
	}
	for _, other := range view.Replicas {
		own.Replicas = append(own.Replicas, replicaMember(other))
	}
	own.Leader = view.Leader
	// Only after the revision of etcd, so that it has all up to there where this one succeeds.
	if _, err := c.patient.Progress(ctx); err != nil {
		own.Away = err.Error()
	}
	own.AgeSeconds = ageSeconds(c.store.Age())
	c.addHistory(&own)
	own.Etcd.ResourceVersion = resourceVersion(view.Revision)
	own.Etcd.Compacted = resourceVersion(c.compactor.Revision())
	return own, nil
}

// addHistory adds what the replica's own log has.
func (c *etcdCluster) addHistory(to *status.Replica) {
	stats := c.store.Stats()
	to.ResourceVersion = resourceVersion(stats.Reached)
	to.OldestTime, to.HistoryBytes = stats.Oldest, stats.History
	for name, floor := range stats.Floors {
		to.Floors = append(to.Floors, replicaFloor(name, floor))
	}
	slices.SortFunc(to.Floors, func(a, b status.Floor) int { return cmp.Compare(a.Resource, b.Resource) })
	for _, hole := range stats.Holes {
		to.Holes = append(to.Holes, status.Hole{After: resourceVersion(hole.From), Before: resourceVersion(hole.To)})
	}
}

// addUnreadable adds the objects that cannot be read.
func (r *replica) addUnreadable(to *status.Replica) {
	all := r.unreadable()
	to.UnreadableCount = len(all)
	for _, o := range all[:min(len(all), unreadableNamed)] {
		to.Unreadable = append(to.Unreadable, status.Unreadable{
			Resource: o.Resource.String(), Namespace: o.Key.Namespace, Name: o.Key.Name, EtcdKey: o.Why.Place,
			ResourceVersion: resourceVersion(o.Why.Revision), Why: o.Why.Error(),
		})
	}
}

func replicaFloor(name string, floor revlog.Floor) status.Floor {
	return status.Floor{
		Resource: name, Oldest: resourceVersion(floor.Revision), OldestTime: floor.Time, Reason: floor.Reason,
	}
}

func replicaMember(m members.Replica) status.Member {
	return status.Member{
		ID: m.ID, URL: m.URL, Version: m.Version, Started: m.Started, ResourceVersion: resourceVersion(m.Revision),
	}
}

// resourceVersion is that of a revision, which is not negative.
func resourceVersion(revision int64) kube.ResourceVersion {
	return kube.ResourceVersion(max(revision, 0)) //nolint:gosec // it is not negative
}

// etcdStatus is what an inspection has found.
func etcdStatus(report *members.Report) status.Etcd {
	etcd := status.Etcd{
		Seen: report.At, Quorum: report.Quorum == nil, CertificateEnds: report.CertificateEnds,
		Members: []status.EtcdMember{}, Problems: []string{},
	}
	if report.ClusterID != 0 {
		etcd.Cluster = fmt.Sprintf("%x", report.ClusterID)
	}
	for _, m := range report.Members {
		etcd.Members = append(etcd.Members, etcdMember(m))
	}
	for _, p := range report.Problems {
		etcd.Problems = append(etcd.Problems, fmt.Sprintf("%s: %s", p.Cause, p.Detail))
	}
	return etcd
}

func etcdMember(m members.Member) status.EtcdMember {
	if m.Err != nil {
		return status.EtcdMember{Endpoint: m.Endpoint, Problem: m.Err.Error()}
	}
	of := status.EtcdMember{
		Endpoint: m.Endpoint, ID: fmt.Sprintf("%x", m.ID), Version: m.Version, Role: "follower",
		DBBytes: m.DBBytes, InUseBytes: m.InUseBytes, QuotaBytes: m.QuotaBytes,
	}
	switch {
	case m.Leader == 0:
		of.Role = "no leader"
	case m.Learner:
		of.Role = "learner"
	case m.Leader == m.ID:
		of.Role = "leader"
	}
	for _, alarm := range m.Alarms {
		of.Alarms = append(of.Alarms, string(alarm))
	}
	return of
}
