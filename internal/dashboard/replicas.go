package dashboard

import (
	"net/http"
	"time"

	"github.com/gapless-io/gapless/status"
)

// Bounds of the page about replicas.
const (
	maxClusters = 3  // besides that of the server
	maxMembers  = 12 // of etcd, and replicas, of a cluster
	maxHoles    = 12 // and problems, and unreadable objects
)

// replicasPage is the status of a replica.
type replicasPage struct {
	Self     status.Replica
	Clusters []cluster // that of the server first
	Omitted  int       // clusters
	Now      time.Time
}

// cluster is a replica in one etcd cluster, of which the first ones are shown.
type cluster struct {
	status.Replica

	Own []string // the resources of a cluster of their own; nil: those that are in no other
	// What is left out.
	MoreReplicas, MoreMembers, MoreHoles, MoreUnreadable int
}

func (d *Dashboard) replicas(w http.ResponseWriter, r *http.Request) error {
	p := replicasPage{Now: time.Now().UTC()}
	if err := d.askFor(r, d.cfg.StatusPath+"?"+status.WatchesParameter+"=0", mediaJSON, &p.Self); err != nil {
		return err
	}
	p.Clusters = append(p.Clusters, clusterOf(p.Self, nil))
	for _, o := range p.Self.Overrides[:min(len(p.Self.Overrides), maxClusters)] {
		p.Clusters = append(p.Clusters, clusterOf(o.Replica, o.Resources))
	}
	p.Omitted = len(p.Self.Overrides) + 1 - len(p.Clusters)
	d.render(w, r, view{Page: "replicas", Code: http.StatusOK, Title: "Replicas", Live: true, Data: p})
	return nil
}

// clusterOf bounds what is shown of a cluster.
func clusterOf(of status.Replica, resources []string) cluster {
	c := cluster{Replica: of, Own: first(resources, maxMembers)}
	c.Replicas, c.Etcd.Members = first(of.Replicas, maxMembers), first(of.Etcd.Members, maxMembers)
	c.MoreReplicas, c.MoreMembers = len(of.Replicas)-len(c.Replicas), len(of.Etcd.Members)-len(c.Etcd.Members)
	c.Holes, c.Unreadable = first(of.Holes, maxHoles), first(of.Unreadable, maxHoles)
	c.MoreHoles, c.MoreUnreadable = len(of.Holes)-len(c.Holes), of.UnreadableCount-len(c.Unreadable)
	c.Etcd.Problems = first(of.Etcd.Problems, maxHoles)
	return c
}

// first returns the first ones of many.
func first[T any](all []T, most int) []T { return all[:min(len(all), most)] }
