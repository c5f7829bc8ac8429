package inspect

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/gapless-io/gapless/status"
)

// replicaReport shows a replica of etcd.
func replicaReport(of status.Replica, rates *rates) *report {
	r := &report{}
	r.addCluster(&of)
	for i := range of.Overrides {
		o := &of.Overrides[i]
		r.add("of its own", "IN AN ETCD CLUSTER OF THEIR OWN: %s", strings.Join(o.Resources, ", "))
		r.addCluster(&o.Replica)
	}
	if of.State != nil {
		r.addState(of.State, rates)
	} else {
		r.addFloors(&of)
	}
	r.addMembers(&of)
	return r
}

// addCluster adds the state of a replica in one etcd cluster.
func (r *report) addCluster(of *status.Replica) {
	r.add("replica", "%s at %s, gapless %s, up %s", of.ID, of.URL, of.Version, ago(of.Started))
	switch {
	case of.Away == "":
		r.add("resourceVersion", "%d, all that etcd has", of.ResourceVersion)
	case of.Etcd.ResourceVersion > of.ResourceVersion:
		r.add("resourceVersion", "%d, and etcd has %d", of.ResourceVersion, of.Etcd.ResourceVersion)
	default:
		r.add("resourceVersion", "%d, not older than %d s", of.ResourceVersion, of.AgeSeconds)
	}
	if of.Away != "" {
		r.addProblem("problem", "%s", of.Away)
	}
	history := "everything since its first state"
	if !of.OldestTime.IsZero() {
		history = "the last " + ago(of.OldestTime)
	}
	r.add("history", "%s, %s", history, bytes(of.HistoryBytes))
	for _, h := range of.Holes {
		r.add("hole", "between resourceVersions %d and %d only the difference is known", h.After, h.Before)
	}
	if of.ControllerManager != "" {
		r.add("controllers", "left to kube-controller-manager %s", of.ControllerManager)
	}
	for _, o := range of.Unreadable {
		r.addProblem("unreadable", "%s", o.Why)
	}
	if more := of.UnreadableCount - len(of.Unreadable); more > 0 {
		r.addProblem("unreadable", "and %d more", more)
	}
	etcd := of.Etcd
	r.add("etcd", "cluster %s, %s, compacted to %d, seen %s ago", cmp.Or(etcd.Cluster, "unknown"), quorum(etcd), etcd.Compacted,
		ago(etcd.Seen))
	for _, p := range etcd.Problems {
		r.addProblem("problem", "%s", p)
	}
	if !etcd.CertificateEnds.IsZero() {
		r.add("certificate", "for etcd, valid until %s", etcd.CertificateEnds.Format(time.RFC3339))
	}
	if of.ReplicasUnknown != "" {
		r.addProblem("replicas", "unknown: %s", of.ReplicasUnknown)
	}
}

// quorum says whether etcd has one.
func quorum(etcd status.Etcd) string {
	if etcd.Quorum {
		return "with a quorum"
	}
	return "WITHOUT A QUORUM"
}

// addMembers adds the replicas, and the members of all etcd clusters.
func (r *report) addMembers(of *status.Replica) {
	replicas := table{name: "replicas", columns: named("REPLICA", "URL", "VERSION", "#RESOURCEVERSION", "#UP", "ROLE")}
	for _, m := range of.Replicas {
		role := ""
		if m.ID == of.Leader {
			role = "leader"
		}
		replicas.rows = append(replicas.rows, []cell{
			text(m.ID), text(m.URL), text(m.Version), number(m.ResourceVersion), since(m.Started), text(role),
		})
	}
	members := table{name: "etcd", columns: named("MEMBER", "ID", "ETCD", "ROLE", "#SIZE", "#IN-USE", "#QUOTA", "ALARMS")}
	members.rows = memberRows(of.Etcd)
	for i := range of.Overrides {
		members.rows = append(members.rows, memberRows(of.Overrides[i].Etcd)...)
	}
	r.tables = append(r.tables, replicas, members)
}

func memberRows(of status.Etcd) (rows [][]cell) {
	none := cell{text: "-"}
	for _, m := range of.Members {
		if m.Problem != "" {
			rows = append(rows, []cell{text(m.Endpoint), none, none, text("away"), none, none, none, none})
			continue
		}
		quota := cell{text: "unknown"}
		if m.QuotaBytes > 0 {
			quota = size(m.QuotaBytes)
		}
		rows = append(rows, []cell{
			text(m.Endpoint), text(m.ID), text(m.Version), text(m.Role), size(m.DBBytes), size(m.InUseBytes), quota,
			text(cmp.Or(strings.Join(m.Alarms, ","), "none")),
		})
	}
	return rows
}

// addFloors adds where the history of resources begins, of a replica that does not say more of them.
func (r *report) addFloors(of *status.Replica) {
	t := table{name: "resources", columns: named("RESOURCE", "#OLDEST", "#SINCE", "REMOVED-BY")}
	for _, f := range of.Floors {
		t.rows = append(t.rows, []cell{
			text(f.Resource), number(f.Oldest), since(f.OldestTime), text(cmp.Or(f.Reason, "unknown")),
		})
	}
	r.tables = append(r.tables, t)
}

// relayReport shows a relay.
func relayReport(of status.Relay, rates *rates) *report {
	r := &report{}
	about := ""
	if of.URL != "" { // an older one does not say it
		about = fmt.Sprintf(", at %s, gapless %s, up %s", of.URL, of.Version, ago(of.Started))
	}
	r.add("mirror", "of %s%s", of.Upstream, about)
	if of.Away != "" {
		r.addProblem("problem", "the API server does not answer: %s", of.Away)
	}
	if of.URL != "" {
		r.addStorage(of.Storage)
		r.addRefused(of.Refused)
	}
	t := table{name: "resources", columns: named("RESOURCE", "#RESOURCEVERSION", "#OLDEST", "#HISTORY", "#OBJECTS", "#READERS",
		"#BEHIND", "#LISTS", "#RESUMED", "#SENT", "#410S", "#UPSTREAM-LISTS", "#LAST-CONTACT", "PROBLEM", "+#BYTES",
		"+#HISTORY-BYTES", "+#CHANGED", "+REMOVED-BY")}
	for _, o := range of.Resources {
		history := cell{text: "all"}
		if !o.OldestTime.IsZero() {
			history = since(o.OldestTime)
		}
		expired := int64(0)
		for _, n := range o.Expired {
			expired += n
		}
		t.rows = append(t.rows, []cell{
			text(o.Resource), number(o.ResourceVersion), number(o.Oldest), history, number(o.Objects), number(o.Readers),
			number(o.Behind), number(o.ListsServed), number(o.WatchesResumed), size(o.BytesServed), number(expired),
			number(o.Lists), since(o.LastContact), text(o.Problem), size(o.Bytes), size(o.HistoryBytes), since(o.LastTime),
			text(o.RemovedBy),
		})
	}
	r.tables = append(r.tables, t)
	r.addClients(&of.Clients, rates)
	return r
}
