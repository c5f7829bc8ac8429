package status

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gapless-io/gapless"
)

// printReplica prints the status of a replica.
func printReplica(out io.Writer, status gapless.ReplicaStatus) error {
	if err := printCluster(out, status); err != nil {
		return err
	}
	for _, o := range status.Overrides {
		_, _ = fmt.Fprintf(out, "\nIN AN ETCD CLUSTER OF THEIR OWN: %s\n", strings.Join(o.Resources, ", "))
		if err := printCluster(out, o.ReplicaStatus); err != nil {
			return err
		}
	}
	return nil
}

// printCluster prints the status of a replica in one etcd cluster.
func printCluster(out io.Writer, status gapless.ReplicaStatus) error {
	lines := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(lines, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	line("replica", "%s at %s, gapless %s, up %s", status.ID, status.URL, status.Version, ago(status.Started))
	switch {
	case status.Away == "":
		line("resourceVersion", "%d, all that etcd has", status.ResourceVersion)
	case status.Etcd.ResourceVersion > status.ResourceVersion:
		line("resourceVersion", "%d, and etcd has %d", status.ResourceVersion, status.Etcd.ResourceVersion)
	default:
		line("resourceVersion", "%d, not older than %d s", status.ResourceVersion, status.AgeSeconds)
	}
	if status.Away != "" {
		line("problem", "%s", status.Away)
	}
	history := "everything since its first state"
	if !status.OldestTime.IsZero() {
		history = "the last " + ago(status.OldestTime)
	}
	line("history", "%s, %s", history, bytes(status.HistoryBytes))
	for _, h := range status.Holes {
		line("hole", "between resourceVersions %d and %d only the difference is known", h.After, h.Before)
	}
	if status.ControllerManager != "" {
		line("controllers", "left to kube-controller-manager %s", status.ControllerManager)
	}
	for _, o := range status.Unreadable {
		line("unreadable", "%s", o.Why)
	}
	if more := status.UnreadableCount - len(status.Unreadable); more > 0 {
		line("unreadable", "and %d more", more)
	}
	etcd := status.Etcd
	line("etcd", "cluster %s, %s, compacted to %d, seen %s ago", cmp.Or(etcd.Cluster, "unknown"), quorum(etcd), etcd.Compacted,
		ago(etcd.Seen))
	for _, p := range etcd.Problems {
		line("problem", "%s", p)
	}
	if !etcd.CertificateEnds.IsZero() {
		line("certificate", "for etcd, valid until %s", etcd.CertificateEnds.Format(time.RFC3339))
	}
	if err := lines.Flush(); err != nil {
		return err
	}
	return printTables(out, status)
}

// quorum says whether etcd has one.
func quorum(etcd gapless.ReplicaEtcd) string {
	if etcd.Quorum {
		return "with a quorum"
	}
	return "WITHOUT A QUORUM"
}

// printTables prints the members of etcd, the replicas, and where the history of resources begins.
func printTables(out io.Writer, status gapless.ReplicaStatus) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(cells ...any) {
		_, _ = fmt.Fprintf(table, strings.Repeat("%v\t", len(cells)-1)+"%v\n", cells...)
	}
	_, _ = fmt.Fprintln(table)
	row("MEMBER", "ID", "VERSION", "ROLE", "SIZE", "IN-USE", "QUOTA", "ALARMS")
	for _, m := range status.Etcd.Members {
		if m.Problem != "" {
			row(m.Endpoint, "-", "-", "away", "-", "-", "-", "-")
			continue
		}
		quota := "unknown"
		if m.QuotaBytes > 0 {
			quota = bytes(m.QuotaBytes)
		}
		row(m.Endpoint, m.ID, m.Version, m.Role, bytes(m.DBBytes), bytes(m.InUseBytes), quota,
			cmp.Or(strings.Join(m.Alarms, ","), "none"))
	}
	_, _ = fmt.Fprintln(table)
	row("REPLICA", "URL", "VERSION", "RESOURCEVERSION", "UP", "ROLE")
	for _, r := range status.Replicas {
		role := ""
		if r.ID == status.Leader {
			role = "leader"
		}
		row(r.ID, r.URL, r.Version, r.ResourceVersion, ago(r.Started), role)
	}
	if status.ReplicasUnknown != "" {
		row("unknown: " + status.ReplicasUnknown)
	}
	if len(status.Floors) > 0 {
		_, _ = fmt.Fprintln(table)
		row("RESOURCE", "OLDEST", "SINCE", "REMOVED-BY")
	}
	for _, f := range status.Floors {
		row(f.Resource, f.Oldest, ago(f.OldestTime), cmp.Or(f.Reason, "unknown"))
	}
	return table.Flush()
}
