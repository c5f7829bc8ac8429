package gapless

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/etcd"
	"github.com/gapless-io/gapless/internal/store/etcd/members"
	"github.com/gapless-io/gapless/internal/store/revlog"
)

// etcdCluster is an etcd cluster that has objects, and what a replica has for it: a log of its own, because its revisions
// are not those of another cluster, and a registration, so that who compacts it waits for this replica.
type etcdCluster struct {
	place     string // of a cluster of overrides; "": that of --etcd-servers
	servers   []string
	resources []kinds.GroupResource // that are in it; nil: all that are in no other
	dir       string                // of its log, in the data directory

	store     *etcd.Store
	patient   *patientStore    // the store
	client    *clientv3.Client // the store's
	members   *members.Members
	compactor *members.Compactor
	health    *etcdHealth
}

// has reports whether a resource is one of those that are in no other cluster.
func (c *etcdCluster) has(resource string) bool {
	return slices.ContainsFunc(c.resources, func(gr kinds.GroupResource) bool { return gr.String() == resource })
}

// names are the names of its resources; none of the cluster of --etcd-servers.
func (c *etcdCluster) names() []string {
	var names []string
	for _, gr := range c.resources {
		names = append(names, gr.String())
	}
	return names
}

// named says of an error that it is about a cluster of overrides.
func (c *etcdCluster) named(err error) error {
	if c.resources == nil {
		return err
	}
	return fmt.Errorf("etcd of %s: %w", strings.Join(c.names(), ", "), err)
}

// isLeaf reports whether the cluster has only Events: a server needs them for nothing but requests for them.
func (c *etcdCluster) isLeaf() bool {
	return !slices.ContainsFunc(c.resources, func(gr kinds.GroupResource) bool { return gr.String() != "events" })
}

// reached returns the revision up to which the replica has every change.
func (c *etcdCluster) reached() int64 { return c.store.Stats().Reached }

// catchUp lets the replica have what etcd has committed, on its disk, and returns the revision.
func (c *etcdCluster) catchUp(ctx context.Context) (int64, error) {
	if _, err := c.store.Progress(ctx); err != nil {
		return 0, err
	}
	return c.store.Keep(ctx)
}

// openCluster opens what the replica has for a cluster. own is the prefix of gapless's own keys, known are the
// resources of the layout.
func (s *Server) openCluster(ctx context.Context, r *replica, c *etcdCluster, own string, known map[string]string) (err error) {
	known = maps.Clone(known)
	maps.DeleteFunc(known, func(resource, _ string) bool { return r.of(resource) != c })
	c.store, err = etcd.Open(ctx, etcd.Options{
		Cluster: s.cfg.Etcd.cluster(c.servers), Prefix: s.cfg.Etcd.Prefix, Layout: clusterLayout{r, c}, Known: known,
		Dir:     filepath.Join(s.cfg.DataDir, c.dir),
		History: max(s.cfg.History, 0), HistoryBytes: max(s.cfg.HistoryBytes, 0), Logger: s.cfg.Logger,
		TTL:   s.timeToLive,
		Admit: func(ctx context.Context, client *clientv3.Client) error { return r.admit(ctx, client, c, own) },
	})
	if err != nil {
		return fmt.Errorf("open the replica of etcd: %w", c.named(err))
	}
	c.client, c.patient = c.store.Client(), newPatientStore(c.store, s.cfg.Etcd.HealthcheckTimeout)
	c.members = members.New(members.Options{
		Client: c.client, Prefix: own, CertFile: s.cfg.Etcd.CertFile, Logger: s.cfg.Logger,
		Replica: members.Replica{ID: r.id, URL: s.reachable(), Version: Version().GitVersion},
		Reached: c.store.Kept, CatchUp: c.catchUp,
	})
	c.compactor = members.NewCompactor(c.members, members.CompactorOptions{Interval: max(s.cfg.Etcd.CompactionInterval, 0)})
	c.health = &etcdHealth{store: c.patient, members: c.members}
	return nil
}

// clusterLayout is the layout of a replica in one of its clusters: what is there of resources that are in another
// one is left alone, as kube-apiserver does.
type clusterLayout struct {
	replica *replica
	cluster *etcdCluster
}

var _ etcd.Layout = clusterLayout{}

// Key implements etcd.Layout.
func (l clusterLayout) Key(key string) (string, error) { return l.replica.layout.Key(key) }

// StoreKey implements etcd.Layout.
func (l clusterLayout) StoreKey(etcdKey string) (key string, known bool) {
	key, known = l.replica.layout.StoreKey(etcdKey)
	return key, known && (len(l.replica.apart) == 0 || l.replica.of(store.ResourceOf(key)) == l.cluster)
}

// Encode implements etcd.Layout.
func (l clusterLayout) Encode(key string, value []byte, before func() ([]byte, error)) ([]byte, error) {
	return l.replica.layout.Encode(key, value, before)
}

// AppendDecoded implements etcd.Layout.
func (l clusterLayout) AppendDecoded(b []byte, key string, stored []byte) ([]byte, error) {
	return l.replica.layout.AppendDecoded(b, key, stored)
}

// admit refuses the objects of a migration that did not finish, and a cluster under two names: two logs of it would be
// registered as one.
func (r *replica) admit(ctx context.Context, client *clientv3.Client, c *etcdCluster, own string) error {
	migration, err := members.UnfinishedMigration(ctx, client, own)
	if err == nil && migration != nil {
		return &etcd.RefusedError{Cause: migration}
	}
	if err != nil || len(r.apart) == 0 {
		return err
	}
	resp, err := client.Get(ctx, own, clientv3.WithCountOnly())
	if err != nil {
		return fmt.Errorf("ask which cluster this is: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if other := r.claimed[resp.Header.ClusterId]; other != nil && other != c {
		return &etcd.RefusedError{Cause: fmt.Errorf("%s and %s are one cluster of etcd, %x: name it with the same URLs, and "+
			"override no resource that is in the cluster of --etcd-servers", strings.Join(other.servers, ","),
			strings.Join(c.servers, ","), resp.Header.ClusterId)}
	}
	r.claimed[resp.Header.ClusterId] = c
	return nil
}

// replicaLog are the logs of a replica, with etcd's revisions in the figures. Its revision, and whether it takes writes,
// are those of the cluster of --etcd-servers.
type replicaLog struct{ of *replica }

// Stats implements serve.Log.
func (l replicaLog) Stats() revlog.Stats {
	s := l.of.main.store.Stats()
	all := s.Stats
	all.Revision, all.Compacted = s.Reached, s.Compacted
	for _, c := range l.of.apart {
		s := c.store.Stats()
		for _, name := range c.names() {
			if floor, is := s.Floors[name]; is {
				all.Floors[name] = floor
			}
		}
		if !s.Oldest.IsZero() && (all.Oldest.IsZero() || s.Oldest.Before(all.Oldest)) {
			all.Oldest = s.Oldest
		}
		all.Bytes, all.History, all.Groups = all.Bytes+s.Bytes, all.History+s.History, all.Groups+s.Groups
		all.RefusedWrites += s.RefusedWrites
		all.MaintenanceFailures += s.MaintenanceFailures
	}
	return all
}

// Resources implements statuses.Log.
func (l replicaLog) Resources() map[string]revlog.ResourceStats {
	all := l.of.main.store.Resources()
	for _, c := range l.of.apart {
		of := c.store.Resources()
		for _, name := range c.names() {
			if has, is := of[name]; is {
				all[name] = has
			}
		}
	}
	return all
}

// ExpiresAt implements statuses.Log.
func (l replicaLog) ExpiresAt(resource string, revision int64) time.Time {
	return l.of.of(resource).store.ExpiresAt(resource, revision)
}

// Durable implements serve.Log.
func (l replicaLog) Durable() error { return l.of.durable() }

// Writable implements serve.Log.
func (l replicaLog) Writable() error {
	return errors.Join(l.of.main.store.Writable(), l.of.main.patient.away())
}
