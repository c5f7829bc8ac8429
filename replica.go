package gapless

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/durable"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/layout"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/registry/caches"
	"github.com/gapless-io/gapless/internal/serve"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/encrypted"
	"github.com/gapless-io/gapless/internal/store/etcd/members"
)

// replicaIDFile is in the data directory of a replica: what it is registered as in etcd.
const replicaIDFile = "replica-id"

// replica is a server among those whose objects are in one etcd, or several.
type replica struct {
	id     string // as which it is registered
	layout *encrypted.Layout
	live   *kinds.Live
	turn   *serve.Turn
	main   *etcdCluster   // of --etcd-servers
	apart  []*etcdCluster // of --etcd-servers-overrides

	// mu guards claimed: whose the clusters are that have answered, by their IDs.
	mu      sync.Mutex
	claimed map[uint64]*etcdCluster
	// unreadable returns the objects whose values in etcd cannot be read, as far as the registry has come.
	unreadable func() []caches.Unreadable
	// manager returns the kube-controller-manager to which work is left; "": none.
	manager func() string
}

// openReplica opens the logs of a replica and clients of etcd.
func (s *Server) openReplica(ctx context.Context) (_ *backend, err error) {
	if err := s.cfg.Etcd.cluster(nil).Check(); err != nil {
		return nil, err
	}
	own, err := members.Prefix(s.cfg.Etcd.Prefix)
	if err != nil {
		return nil, err
	}
	r := &replica{live: s.live, turn: serve.NewTurn(), claimed: map[uint64]*etcdCluster{}, manager: s.controllerManager}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	plain := layout.New(s.cfg.Etcd.Prefix, s.live)
	if r.layout, err = encrypted.OpenLayout(ctx, plain, s.encryption(ctx)); err != nil {
		return nil, err
	}
	if r.id, err = s.replicaID(); err != nil {
		return nil, err
	}
	if err := s.openClusters(ctx, r, own, plain.Known()); err != nil {
		return nil, err
	}
	r.unreadable = func() []caches.Unreadable { return s.registry.Unreadable() } // it is there when somebody asks
	s.warnOfOwnKeys(ctx)
	return s.replicaBackend(context.WithoutCancel(ctx), r), nil
}

// openClusters opens what the replica has for each etcd cluster. own is the prefix of gapless's own keys, known
// are the resources of the layout.
func (s *Server) openClusters(ctx context.Context, r *replica, own string, known map[string]string) error {
	apart, idle := s.cfg.Etcd.apart(s.live.Load())
	for _, o := range idle {
		s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "an override of etcd's servers has no effect: it is of no built-in "+
			"resource that can be in a cluster of its own, or a later one takes its place",
			slog.String("override", o.String()))
	}
	r.main = &etcdCluster{servers: s.cfg.Etcd.Servers, dir: serve.ReplicaDir}
	for _, a := range apart {
		r.apart = append(r.apart, &etcdCluster{
			place: a.place, servers: a.servers, resources: a.resources, dir: serve.ReplicaDirOf(a.resources[0].String()),
		})
	}
	for _, c := range r.clusters() {
		if err := s.openCluster(ctx, r, c, own, known); err != nil {
			return err
		}
	}
	return nil
}

// clusters are all clusters of the replica.
func (r *replica) clusters() []*etcdCluster { return append([]*etcdCluster{r.main}, r.apart...) }

// of returns the cluster of a resource, by its name.
func (r *replica) of(resource string) *etcdCluster {
	for _, c := range r.apart {
		if c.has(resource) {
			return c
		}
	}
	return r.main
}

// timeToLive is how long an object stays after its last write; 0: for ever.
func (s *Server) timeToLive(key string) time.Duration {
	if store.ResourceOf(key) == "events" {
		return max(s.cfg.EventTTL, 0)
	}
	return 0
}

// replicaBackend is the backend of a replica.
func (s *Server) replicaBackend(lasting context.Context, r *replica) *backend {
	b := &backend{
		store: r.main.patient, stale: r.stale, log: replicaLog{r}, name: "replica", turn: r.turn, close: r.close,
		wrap: r.withAge, status: r.status, run: []func(context.Context) error{s.leadWhenReady(r)},
		metrics: r.layout.Metrics(), nodePorts: r.nodePorts(s.cfg.Etcd.Prefix),
		apiServers: r.apiServers(s.cfg.Etcd.Prefix),
	}
	for _, c := range r.clusters() {
		b.run = append(b.run, c.store.Run, c.patient.run, c.members.Run, c.compactor.Run, c.health.run)
		b.checks = append(b.checks, c.health.checks(lasting, s.cfg.Etcd, c.place)...)
		b.metrics = append(b.metrics, newReplicaGauges(r, c))
		if c != r.main {
			b.apart = append(b.apart, registry.Apart{Store: c.patient, Resources: c.resources, Late: c.isLeaf()})
		}
	}
	b.checks = append(b.checks,
		apiserver.Check{Name: "readable-values", Check: r.readable, ReadyOnly: true, Notice: true},
		apiserver.Check{Name: "storage-durable", Check: r.durable},
		apiserver.Check{Name: "storage-writes", Check: r.writable, ReadyOnly: true})
	if s.cfg.EncryptionProviderConfig != "" {
		b.checks = append(b.checks, apiserver.Check{Name: "kms-providers", Check: r.layout.Healthy}) // upstream's name
	}
	return b
}

// durable returns what the logs have lost.
func (r *replica) durable() error {
	return r.each(func(c *etcdCluster) error { return c.store.Durable() })
}

// writable returns why some cluster would not take a write although it answers: other checks say whether it does.
func (r *replica) writable() error {
	return r.each(func(c *etcdCluster) error { return c.store.Writable() })
}

// readable is a check of health: it fails while there are objects whose values in etcd cannot be read. All
// replicas have the same, and all other resources are served, so that it must not take them out of a balancer.
func (r *replica) readable() error {
	all := r.unreadable()
	if len(all) == 0 {
		return nil
	}
	return fmt.Errorf("objects cannot be read, and their resources are not listed and watched: %d, the first is %w",
		len(all), all[0].Why)
}

// each returns what is wrong with clusters, by their names.
func (r *replica) each(check func(*etcdCluster) error) error {
	var errs []error
	for _, c := range r.clusters() {
		if err := check(c); err != nil {
			errs = append(errs, c.named(err))
		}
	}
	return errors.Join(errs...)
}

// close closes what was opened.
func (r *replica) close() error {
	var errs []error
	for _, c := range r.clusters() {
		if c != nil && c.store != nil {
			errs = append(errs, c.store.Close())
		}
	}
	if r.layout != nil {
		r.layout.Close()
	}
	return errors.Join(errs...)
}

// leadWhenReady returns what takes part in the election of the replica that runs the controllers, from when
// this one can run them.
func (s *Server) leadWhenReady(r *replica) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-s.ready:
			return r.main.members.Lead(ctx, r.turn.Hold)
		case <-ctx.Done():
			return nil
		}
	}
}

// stale implements registry.Config.Stale: it looks at the value in etcd, as kube-apiserver does
// before it leaves out a write (apiserver storage/etcd3 store.go GuaranteedUpdate).
func (r *replica) stale(ctx context.Context, key string, revision int64) (bool, error) {
	c := r.of(store.ResourceOf(key))
	if away := c.patient.away(); away != nil {
		return false, &store.UnavailableError{Cause: away}
	}
	at, err := r.layout.Key(key)
	if err != nil {
		return false, err
	}
	limited, cancel := context.WithTimeoutCause(ctx, c.patient.patience, errSilent)
	defer cancel()
	now, err := c.client.Get(limited, at)
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case err != nil:
		return false, &store.UnavailableError{Cause: fmt.Errorf("read %s from etcd: %w", at, err)}
	}
	if len(now.Kvs) == 0 || now.Kvs[0].ModRevision != revision {
		return false, nil // it has changed meanwhile
	}
	return r.layout.Stale(ctx, key, now.Kvs[0].Value)
}

// reachable returns where the other replicas' administrators find this one.
func (s *Server) reachable() string {
	address, err := serve.Reachable(s.listener.Addr())
	if err != nil {
		return s.url()
	}
	return "https://" + address.String()
}

// replicaID returns what the replica is registered as: the same over restarts.
func (s *Server) replicaID() (string, error) {
	file := filepath.Join(s.cfg.DataDir, replicaIDFile)
	text, err := os.ReadFile(file)
	if id := strings.TrimSpace(string(text)); err == nil && id != "" {
		return id, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the identity of the replica: %w", err)
	}
	if err := durable.MkdirAll(s.cfg.DataDir); err != nil {
		return "", fmt.Errorf("make the data directory: %w", err)
	}
	id := strings.ToLower(rand.Text())
	if err := durable.WriteFile(file, []byte(id+"\n")); err != nil {
		return "", fmt.Errorf("keep the identity of the replica: %w", err)
	}
	return id, nil
}

// warnOfOwnKeys warns where the credentials of one replica are not those of the others.
func (s *Server) warnOfOwnKeys(ctx context.Context) {
	if s.cfg.Authentication.ServiceAccountSigningKeyFile == "" {
		s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn,
			"service account tokens are signed with a key of this data directory: another "+
				"replica accepts them only if it has the same pki/sa.key, or both name one with "+
				"--service-account-signing-key-file",
			slog.String("data_dir", s.cfg.DataDir))
	}
}
