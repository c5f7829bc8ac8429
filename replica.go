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
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/durable"
	"github.com/gapless-io/gapless/internal/kinds/layout"
	"github.com/gapless-io/gapless/internal/registry/caches"
	"github.com/gapless-io/gapless/internal/serve"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/encrypted"
	"github.com/gapless-io/gapless/internal/store/etcd"
	"github.com/gapless-io/gapless/internal/store/etcd/members"
	"github.com/gapless-io/gapless/internal/store/revlog"
)

// replicaIDFile is in the data directory of a replica: what it is registered as in etcd.
const replicaIDFile = "replica-id"

// replica is a server among those whose objects are in one etcd.
type replica struct {
	store     *etcd.Store
	patient   *patientStore // the store
	layout    *encrypted.Layout
	client    *clientv3.Client // the store's
	members   *members.Members
	compactor *members.Compactor
	turn      *serve.Turn
	health    *etcdHealth
	// unreadable returns the objects whose values in etcd cannot be read, as far as the registry has come.
	unreadable func() []caches.Unreadable
}

// openReplica opens the log of a replica and a client of etcd.
func (s *Server) openReplica(ctx context.Context) (_ *backend, err error) {
	if err := s.cfg.Etcd.cluster().Check(); err != nil {
		return nil, err
	}
	own, err := members.Prefix(s.cfg.Etcd.Prefix)
	if err != nil {
		return nil, err
	}
	r := &replica{turn: serve.NewTurn()}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	plain := layout.New(s.cfg.Etcd.Prefix, s.live)
	if r.layout, err = encrypted.OpenLayout(ctx, plain, s.encryption(ctx)); err != nil {
		return nil, err
	}
	if err := s.openEtcd(ctx, r, own, plain.Known()); err != nil {
		return nil, err
	}
	id, err := s.replicaID()
	if err != nil {
		return nil, err
	}
	r.members = members.New(members.Options{
		Client: r.client, Prefix: own, CertFile: s.cfg.Etcd.CertFile, Logger: s.cfg.Logger,
		Replica: members.Replica{ID: id, URL: s.reachable(), Version: Version().GitVersion},
		Reached: r.reached, CatchUp: r.store.Progress,
	})
	r.compactor = members.NewCompactor(r.members, members.CompactorOptions{Interval: max(s.cfg.Etcd.CompactionInterval, 0)})
	r.health = &etcdHealth{store: r.patient, members: r.members}
	r.unreadable = func() []caches.Unreadable { return s.registry.Unreadable() } // it is there when somebody asks
	s.warnOfOwnKeys(ctx)
	return s.replicaBackend(context.WithoutCancel(ctx), r), nil
}

// openEtcd opens the store. own is the prefix of gapless's own keys, known are the resources of the layout.
func (s *Server) openEtcd(ctx context.Context, r *replica, own string, known map[string]string) (err error) {
	r.store, err = etcd.Open(ctx, etcd.Options{
		Cluster: s.cfg.Etcd.cluster(), Prefix: s.cfg.Etcd.Prefix, Layout: r.layout, Known: known,
		Dir:     filepath.Join(s.cfg.DataDir, serve.ReplicaDir),
		History: max(s.cfg.History, 0), HistoryBytes: max(s.cfg.HistoryBytes, 0), Logger: s.cfg.Logger,
		TTL:   s.timeToLive,
		Admit: func(ctx context.Context, client *clientv3.Client) error { return admit(ctx, client, own) },
	})
	if err != nil {
		return fmt.Errorf("open the replica of etcd: %w", err)
	}
	r.client, r.patient = r.store.Client(), newPatientStore(r.store, s.cfg.Etcd.HealthcheckTimeout)
	return nil
}

// admit refuses the objects of a migration that did not finish.
func admit(ctx context.Context, client *clientv3.Client, own string) error {
	migration, err := members.UnfinishedMigration(ctx, client, own)
	if err == nil && migration != nil {
		return &etcd.RefusedError{Cause: migration}
	}
	return err
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
		store: r.patient, stale: r.stale,
		log: replicaLog{r.store}, name: "replica", turn: r.turn, close: r.close, wrap: r.patient.withAge, status: r.status,
		run: []func(context.Context) error{
			r.store.Run, r.patient.run, r.members.Run, r.compactor.Run, s.leadWhenReady(r), r.health.run,
		},
		checks: append(r.health.checks(lasting, s.cfg.Etcd),
			apiserver.Check{Name: "readable-values", Check: r.readable, ReadyOnly: true, Notice: true},
			apiserver.Check{Name: "storage-durable", Check: r.store.Durable},
			apiserver.Check{Name: "storage-writes", Check: r.store.Writable, ReadyOnly: true}),
		metrics: append(r.layout.Metrics(), prometheus.Collector(newReplicaGauges(r))),
	}
	if s.cfg.EncryptionProviderConfig != "" {
		b.checks = append(b.checks, apiserver.Check{Name: "kms-providers", Check: r.layout.Healthy}) // upstream's name
	}
	return b
}

// reached returns the revision up to which the replica has every change.
func (r *replica) reached() int64 { return r.store.Stats().Reached }

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

// replicaLog is the log of a replica, with etcd's revisions in its figures.
type replicaLog struct{ *etcd.Store }

// Stats implements serve.Log.
func (l replicaLog) Stats() revlog.Stats {
	s := l.Store.Stats()
	figures := s.Stats
	figures.Revision, figures.Compacted = s.Reached, s.Compacted
	return figures
}

// close closes what was opened.
func (r *replica) close() error {
	var errs []error
	if r.store != nil {
		errs = append(errs, r.store.Close())
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
			return r.members.Lead(ctx, r.turn.Hold)
		case <-ctx.Done():
			return nil
		}
	}
}

// stale implements registry.Config.Stale: it looks at the value in etcd, as kube-apiserver does
// before it leaves out a write (apiserver storage/etcd3 store.go GuaranteedUpdate).
func (r *replica) stale(ctx context.Context, key string, revision int64) (bool, error) {
	if away := r.patient.away(); away != nil {
		return false, &store.UnavailableError{Cause: away}
	}
	at, err := r.layout.Key(key)
	if err != nil {
		return false, err
	}
	limited, cancel := context.WithTimeoutCause(ctx, r.patient.patience, errSilent)
	defer cancel()
	now, err := r.client.Get(limited, at)
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
