package gapless

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gapless-io/gapless/internal/store/etcd/members"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/kube"
)

// ReplicaStatusPath is where a replica of etcd reports its state, as a ReplicaStatus in JSON. Who may GET
// that path decides as for every other.
const ReplicaStatusPath = "/gapless/v1/status"

// ReplicaStatus is what a replica reports of itself, of etcd, and of the other replicas.
type ReplicaStatus struct {
	ReplicaMember

	// Away says why this replica is not sure to have what etcd has now; "": it had all of it when it was asked.
	Away string `json:"etcdAway,omitempty"`
	// AgeSeconds is how old what it serves may be while etcd is away.
	AgeSeconds int64 `json:"ageSeconds"`
	// OldestTime is when the oldest version was recorded that this replica still has; zero: there is none.
	OldestTime time.Time `json:"oldestTime,omitzero"`
	// HistoryBytes is the size of the versions that are not the newest.
	HistoryBytes int64 `json:"historyBytes"`
	// Floors are the resources whose history does not go back to the replica's first state, by name.
	Floors []ReplicaFloor `json:"floors"`
	// Holes are what this replica was away for, and etcd compacted; the first one may end at its first state.
	Holes []ReplicaHole `json:"holes"`
	// Unreadable are objects whose values in etcd cannot be read, the first hundred: their resources are not listed
	// and watched. UnreadableCount is how many there are.
	Unreadable      []ReplicaUnreadable `json:"unreadable"`
	UnreadableCount int                 `json:"unreadableCount"`
	Etcd            ReplicaEtcd         `json:"etcd"`
	// Replicas are all that are registered, by their IDs, this one too.
	Replicas []ReplicaMember `json:"replicas"`
	Leader   string          `json:"leader,omitempty"` // the ID of the one that runs the controllers; "": none
	// ControllerManager has the Lease of kube-controller-manager and renews it: what it does the leader does not, unless its
	// flags say so; "": there is none.
	ControllerManager string `json:"controllerManager,omitempty"`
	// ReplicasUnknown says why etcd did not answer who the replicas are; "": it did.
	ReplicasUnknown string `json:"replicasUnknown,omitempty"`
	// Overrides are the clusters of --etcd-servers-overrides.
	Overrides []ReplicaOverride `json:"overrides,omitempty"`
}

// ReplicaOverride is what a replica reports of an etcd cluster that some resources are in: their resourceVersions are its
// revisions. There is no leader in it.
type ReplicaOverride struct {
	Resources []string `json:"resources"` // with their groups
	ReplicaStatus
}

// ReplicaMember is one of the replicas over an etcd.
type ReplicaMember struct {
	ID      string    `json:"id"` // that of the data directory
	URL     string    `json:"url"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	// ResourceVersion is one that the replica has reached: the one that reports now, others some seconds ago.
	ResourceVersion kube.ResourceVersion `json:"resourceVersion"`
}

// ReplicaFloor is where the history of a resource begins.
type ReplicaFloor struct {
	Resource   string               `json:"resource"` // with its group: "deployments.apps"
	Oldest     kube.ResourceVersion `json:"oldestResourceVersion"`
	OldestTime time.Time            `json:"oldestTime,omitzero"` // of the change there; zero: unknown
	Reason     string               `json:"reason,omitempty"`    // why there is no more: "age", "bytes", "requested", "unseen"
}

// ReplicaHole is a part of the history of which only the difference between its ends is known: reads and watches
// from a resourceVersion between them get 410.
type ReplicaHole struct {
	After  kube.ResourceVersion `json:"afterResourceVersion"`
	Before kube.ResourceVersion `json:"beforeResourceVersion"`
}

// ReplicaUnreadable is an object whose value in etcd cannot be read.
type ReplicaUnreadable struct {
	Resource  string `json:"resource"` // with its group: "deployments.apps"
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	EtcdKey   string `json:"etcdKey,omitempty"`
	// ResourceVersion is that of the write that cannot be read.
	ResourceVersion kube.ResourceVersion `json:"resourceVersion"`
	Why             string               `json:"why"` // and what to do
}

// unreadableNamed is how many of them a status names.
const unreadableNamed = 100

// ReplicaEtcd is the state of etcd as a replica sees it.
type ReplicaEtcd struct {
	Cluster string `json:"cluster,omitempty"` // its ID, hexadecimal as etcdctl shows it; "": no member has answered
	// ResourceVersion is etcd's revision when the replica was asked; 0: etcd did not answer.
	ResourceVersion kube.ResourceVersion `json:"resourceVersion"`
	// Compacted is the revision to which etcd was compacted last, as compactors have noted it; 0: not known.
	Compacted kube.ResourceVersion `json:"compactedResourceVersion"`
	// Seen is when the rest was asked for: a replica does it every ten seconds.
	Seen   time.Time `json:"seen"`
	Quorum bool      `json:"quorum"` // a majority of the members works together
	// Members are those that --etcd-servers names, in its order.
	Members []ReplicaEtcdMember `json:"members"`
	// Problems are what is wrong, each with the name by which /readyz has it, and the member.
	Problems []string `json:"problems"`
	// CertificateEnds is until when the client certificate for etcd is valid; zero: there is none.
	CertificateEnds time.Time `json:"certificateEnds,omitzero"`
}

// ReplicaEtcdMember is what a member of etcd says about itself.
type ReplicaEtcdMember struct {
	Endpoint string   `json:"endpoint"`
	ID       string   `json:"id,omitempty"` // hexadecimal as etcdctl shows it
	Version  string   `json:"version,omitempty"`
	Role     string   `json:"role,omitempty"` // "leader", "follower", "learner"; "no leader": it knows none
	Alarms   []string `json:"alarms,omitempty"`
	DBBytes  int64    `json:"dbBytes,omitempty"`
	// InUseBytes is what is left of DBBytes after defragmentation.
	InUseBytes int64 `json:"dbInUseBytes,omitempty"`
	// QuotaBytes is how large the database may become; 0: etcd before 3.6 does not say.
	QuotaBytes int64  `json:"dbQuotaBytes,omitempty"`
	Problem    string `json:"problem,omitempty"` // why it did not answer; "": it did
}

// status reports the state of a replica. It waits for etcd, where that does not answer, as long as reads do.
func (r *replica) status(ctx context.Context) (any, error) {
	status, err := r.main.status(ctx)
	if err != nil {
		return nil, err
	}
	r.addUnreadable(&status)
	status.ControllerManager = r.manager()
	for _, c := range r.apart {
		of, err := c.status(ctx)
		if err != nil {
			return nil, err
		}
		status.Overrides = append(status.Overrides, ReplicaOverride{Resources: c.names(), ReplicaStatus: of})
	}
	return status, nil
}

// status reports the state of a replica in one cluster.
func (c *etcdCluster) status(ctx context.Context) (ReplicaStatus, error) {
	report, err := c.health.latest(ctx)
	if err != nil {
		return ReplicaStatus{}, err
	}
	status := ReplicaStatus{
		ReplicaMember: replicaMember(c.members.Self()), Floors: []ReplicaFloor{}, Holes: []ReplicaHole{},
		Etcd: etcdStatus(report), Replicas: []ReplicaMember{}, Unreadable: []ReplicaUnreadable{},
	}
	limited, cancel := context.WithTimeout(ctx, c.patient.patience)
	view, err := c.members.List(limited)
	cancel()
	if err != nil {
		status.ReplicasUnknown = err.Error()
	}
	for _, other := range view.Replicas {
		status.Replicas = append(status.Replicas, replicaMember(other))
	}
	status.Leader = view.Leader
	// Only after the revision of etcd, so that it has all up to there where this one succeeds.
	if _, err := c.patient.Progress(ctx); err != nil {
		status.Away = err.Error()
	}
	status.AgeSeconds = ageSeconds(c.store.Age())
	c.addHistory(&status)
	status.Etcd.ResourceVersion = resourceVersion(view.Revision)
	status.Etcd.Compacted = resourceVersion(c.compactor.Revision())
	return status, nil
}

// addHistory adds what the replica's own log has.
func (c *etcdCluster) addHistory(status *ReplicaStatus) {
	stats := c.store.Stats()
	status.ResourceVersion = resourceVersion(stats.Reached)
	status.OldestTime, status.HistoryBytes = stats.Oldest, stats.History
	for name, floor := range stats.Floors {
		status.Floors = append(status.Floors, replicaFloor(name, floor))
	}
	slices.SortFunc(status.Floors, func(a, b ReplicaFloor) int { return cmp.Compare(a.Resource, b.Resource) })
	for _, hole := range stats.Holes {
		status.Holes = append(status.Holes, ReplicaHole{resourceVersion(hole.From), resourceVersion(hole.To)})
	}
}

// addUnreadable adds the objects that cannot be read.
func (r *replica) addUnreadable(status *ReplicaStatus) {
	all := r.unreadable()
	status.UnreadableCount = len(all)
	for _, o := range all[:min(len(all), unreadableNamed)] {
		status.Unreadable = append(status.Unreadable, ReplicaUnreadable{
			Resource: o.Resource.String(), Namespace: o.Key.Namespace, Name: o.Key.Name, EtcdKey: o.Why.Place,
			ResourceVersion: resourceVersion(o.Why.Revision), Why: o.Why.Error(),
		})
	}
}

func replicaFloor(name string, floor revlog.Floor) ReplicaFloor {
	return ReplicaFloor{
		Resource: name, Oldest: resourceVersion(floor.Revision), OldestTime: floor.Time, Reason: floor.Reason,
	}
}

func replicaMember(m members.Replica) ReplicaMember {
	return ReplicaMember{
		ID: m.ID, URL: m.URL, Version: m.Version, Started: m.Started, ResourceVersion: resourceVersion(m.Revision),
	}
}

// resourceVersion is that of a revision, which is not negative.
func resourceVersion(revision int64) kube.ResourceVersion {
	return kube.ResourceVersion(max(revision, 0)) //nolint:gosec // it is not negative
}

// etcdStatus is what an inspection has found.
func etcdStatus(report *members.Report) ReplicaEtcd {
	etcd := ReplicaEtcd{
		Seen: report.At, Quorum: report.Quorum == nil, CertificateEnds: report.CertificateEnds,
		Members: []ReplicaEtcdMember{}, Problems: []string{},
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

func etcdMember(m members.Member) ReplicaEtcdMember {
	if m.Err != nil {
		return ReplicaEtcdMember{Endpoint: m.Endpoint, Problem: m.Err.Error()}
	}
	of := ReplicaEtcdMember{
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
