package status

import (
	"time"

	"github.com/gapless-io/gapless/kube"
)

// Replica is what a replica reports of itself, of etcd, and of the other replicas.
type Replica struct {
	Member

	// Away says why this replica is not sure to have what etcd has now; "": it had all of it when it was asked.
	Away string `json:"etcdAway,omitempty"`
	// AgeSeconds is how old what it serves may be while etcd is away.
	AgeSeconds int64 `json:"ageSeconds"`
	// OldestTime is when the oldest version was recorded that this replica still has; zero: there is none.
	OldestTime time.Time `json:"oldestTime,omitzero"`
	// HistoryBytes is the size of the versions that are not the newest.
	HistoryBytes int64 `json:"historyBytes"`
	// Floors are the resources whose history does not go back to the replica's first state, by name.
	Floors []Floor `json:"floors"`
	// Holes are what this replica was away for, and etcd compacted; the first one may end at its first state.
	Holes []Hole `json:"holes"`
	// Unreadable are objects whose values in etcd cannot be read, the first hundred: their resources are not listed
	// and watched. UnreadableCount is how many there are.
	Unreadable      []Unreadable `json:"unreadable"`
	UnreadableCount int          `json:"unreadableCount"`
	Etcd            Etcd         `json:"etcd"`
	// Replicas are all that are registered, by their IDs, this one too.
	Replicas []Member `json:"replicas"`
	Leader   string   `json:"leader,omitempty"` // the ID of the one that runs the controllers; "": none
	// ControllerManager has the Lease of kube-controller-manager and renews it: what it does the leader does not, unless its
	// flags say so; "": there is none.
	ControllerManager string `json:"controllerManager,omitempty"`
	// ReplicasUnknown says why etcd did not answer who the replicas are; "": it did.
	ReplicasUnknown string `json:"replicasUnknown,omitempty"`
	// Overrides are the clusters of --etcd-servers-overrides.
	Overrides []Override `json:"overrides,omitempty"`

	// State is nil in an Override: that of the replica has the resources of all clusters.
	*State
}

// Override is what a replica reports of an etcd cluster that some resources are in: their resourceVersions are its
// revisions. There is no leader in it.
type Override struct {
	Resources []string `json:"resources"` // with their groups
	Replica
}

// Member is one of the replicas over an etcd.
type Member struct {
	ID      string    `json:"id"` // that of the data directory
	URL     string    `json:"url"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	// ResourceVersion is one that the replica has reached: the one that reports now, others some seconds ago.
	ResourceVersion kube.ResourceVersion `json:"resourceVersion"`
}

// Floor is where the history of a resource begins.
type Floor struct {
	Resource   string               `json:"resource"` // with its group: "deployments.apps"
	Oldest     kube.ResourceVersion `json:"oldestResourceVersion"`
	OldestTime time.Time            `json:"oldestTime,omitzero"` // of the change there; zero: unknown
	Reason     string               `json:"reason,omitempty"`    // why there is no more: "age", "bytes", "requested", "unseen"
}

// Hole is a part of the history of which only the difference between its ends is known: reads and watches
// from a resourceVersion between them get 410.
type Hole struct {
	After  kube.ResourceVersion `json:"afterResourceVersion"`
	Before kube.ResourceVersion `json:"beforeResourceVersion"`
}

// Unreadable is an object whose value in etcd cannot be read.
type Unreadable struct {
	Resource  string `json:"resource"` // with its group: "deployments.apps"
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	EtcdKey   string `json:"etcdKey,omitempty"`
	// ResourceVersion is that of the write that cannot be read.
	ResourceVersion kube.ResourceVersion `json:"resourceVersion"`
	Why             string               `json:"why"` // and what to do
}

// Etcd is the state of etcd as a replica sees it.
type Etcd struct {
	Cluster string `json:"cluster,omitempty"` // its ID, hexadecimal as etcdctl shows it; "": no member has answered
	// ResourceVersion is etcd's revision when the replica was asked; 0: etcd did not answer.
	ResourceVersion kube.ResourceVersion `json:"resourceVersion"`
	// Compacted is the revision to which etcd was compacted last, as compactors have noted it; 0: not known.
	Compacted kube.ResourceVersion `json:"compactedResourceVersion"`
	// Seen is when the rest was asked for: a replica does it every ten seconds.
	Seen   time.Time `json:"seen"`
	Quorum bool      `json:"quorum"` // a majority of the members works together
	// Members are those that --etcd-servers names, in its order.
	Members []EtcdMember `json:"members"`
	// Problems are what is wrong, each with the name by which /readyz has it, and the member.
	Problems []string `json:"problems"`
	// CertificateEnds is until when the client certificate for etcd is valid; zero: there is none.
	CertificateEnds time.Time `json:"certificateEnds,omitzero"`
}

// EtcdMember is what a member of etcd says about itself.
type EtcdMember struct {
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
