// Package upstream implements Kubernetes' storage.Interface by gapless, so that the
// suites of k8s.io/apiserver/pkg/storage/testing run against our store, our watch
// cache and our verbs.
//
// A [Server] is a store with a registry over it that serves one resource, the pods of
// upstream's example group. A [Storage] is upstream's interface over a Server. A stream is one
// watch of it.
//
// The Storage only translates. LIST, GET and WATCH are the registry's, with their
// options read from a query as the API server reads them, so that wire.PlanList,
// wire.PlanWatch, the continue tokens, the cache and its history are what is
// tested. Writes go to the store as conditional commits, because the registry's
// own writes are those of an API server: they fill in uid, generation and times,
// where upstream's storage stores what it is given.
package upstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/custom"
	"github.com/gapless-io/gapless/internal/kinds/layout"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/etcd"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/wire"
)

// Config says what a Server is made of.
type Config struct {
	// Dir is the directory of the log; "" keeps it in memory.
	Dir string
	// Etcd is the URL of an etcd of which the Server is a replica; "": it has its log alone.
	Etcd string
	// Window is how many changes the watch cache keeps in memory; 0 is its default.
	// A small one makes watches and exact reads go to the log.
	Window int
}

const (
	// baseRevision is where an empty etcd stands, which upstream's tests count from.
	baseRevision = 1
	// segmentBytes is small, so that the log of a test has several segments.
	segmentBytes = 64 << 10
	// othersPrefix holds the keys of a resource that no test reads.
	othersPrefix = "others.example.org/"
	other        = `{"apiVersion":"example.org/v1","kind":"Other","metadata":{"name":"one"}}`
	// prefix is that of all keys in etcd.
	prefix = "/registry"
)

// definition is the CustomResourceDefinition of the pods, as it is stored when it
// is established.
const definition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
"metadata":{"name":"pods.example.apiserver.k8s.io"},
"spec":{"group":"example.apiserver.k8s.io","scope":"Namespaced","names":{"plural":"pods","kind":"Pod"},
"versions":[{"name":"v1","served":true,"storage":true,
"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}},
"selectableFields":[{"jsonPath":".spec.nodeName"},{"jsonPath":".spec.restartPolicy"},{"jsonPath":".status.phase"}]}]},
"status":{"acceptedNames":{"plural":"pods","singular":"pod","kind":"Pod","listKind":"PodList"},
"conditions":[{"type":"Established","status":"True"}],"storedVersions":["v1"]}}`

// engine is a store that runs.
type engine interface {
	store.Store
	Compacted() int64
	Run(ctx context.Context) error
	Close() error
}

// The two engines, which have more to say than how far they are compacted.
type (
	log     struct{ *revlog.Log }
	replica struct{ *etcd.Store }
)

func (l log) Compacted() int64     { return l.Stats().Compacted }
func (r replica) Compacted() int64 { return r.Stats().Compacted }

// Server is a running store with a registry of pods over it.
type Server struct {
	store    engine
	registry *registry.Registry
	pods     *kinds.Resource
	stop     context.CancelFunc
	ended    chan error // the registry's end, then the log's
}

// Open opens the store and runs it, with its registry, until Close. It blocks
// until everything is loaded.
func Open(ctx context.Context, cfg Config) (*Server, error) {
	resources, err := custom.Resources([]byte(definition))
	if err != nil {
		return nil, fmt.Errorf("define the pods: %w", err)
	}
	live := kinds.NewLive(kinds.NewCatalog(resources...))
	opened, err := openStore(ctx, cfg, live)
	if err != nil {
		return nil, err
	}
	s := &Server{
		store: opened, pods: resources[0], ended: make(chan error, 2),
		registry: registry.New(registry.Config{Store: opened, Live: live, CacheEntries: cfg.Window}),
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = cancel
	// Both are the Server's. The store ends with its Close, the registry with stop.
	go func() { s.ended <- opened.Run(context.WithoutCancel(ctx)) }()
	go func() { s.ended <- s.registry.Run(running) }()
	if err := s.registry.WaitReady(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("wait for the registry: %w", err), s.Close())
	}
	return s, nil
}

func openStore(ctx context.Context, cfg Config, live *kinds.Live) (engine, error) {
	if cfg.Etcd == "" {
		opened, err := revlog.Open(ctx, revlog.Options{
			Dir: cfg.Dir, Memory: cfg.Dir == "", BaseRevision: baseRevision, SegmentBytes: segmentBytes,
		})
		if err != nil {
			return nil, fmt.Errorf("open the log: %w", err)
		}
		return log{opened}, nil
	}
	places := layout.New(prefix, live)
	opened, err := etcd.Open(ctx, etcd.Options{
		Cluster: etcd.Cluster{Servers: []string{cfg.Etcd}}, Prefix: prefix, Layout: places, Known: places.Known(),
		Dir: cfg.Dir, Memory: cfg.Dir == "", SegmentBytes: segmentBytes,
	})
	if err != nil {
		return nil, fmt.Errorf("open the replica: %w", err)
	}
	return replica{opened}, nil
}

// Close ends what Open began, and waits for it. Watches end.
func (s *Server) Close() error {
	s.stop()
	registryEnd := <-s.ended
	closed := s.store.Close()
	return errors.Join(registryEnd, closed, <-s.ended)
}

// WriteOther writes to another resource and returns the revision, after it is
// visible to all readers. It is what moves the resourceVersion of the pods
// although nothing happens to them.
func (s *Server) WriteOther(ctx context.Context) (int64, error) {
	for {
		page, err := s.store.Read(ctx, store.Query{Start: othersPrefix + "one"})
		if err != nil {
			return 0, fmt.Errorf("read the other resource: %w", err)
		}
		txn := store.Txn{Key: othersPrefix + "one", Value: []byte(other)}
		if len(page.Records) > 0 {
			txn.ExpectedModRevision = page.Records[0].ModRevision
		}
		done, err := s.store.Commit(ctx, txn)
		if conflicts(err) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("write the other resource: %w", err)
		}
		return done.Revision, s.visible(ctx, done.Revision)
	}
}

// Compact removes what was superseded or deleted at or below a revision.
func (s *Server) Compact(ctx context.Context, upTo int64) error {
	if _, err := s.registry.Compact(ctx, store.Compaction{UpTo: upTo}); err != nil {
		return fmt.Errorf("compact up to %d: %w", upTo, err)
	}
	return nil
}

// HistoryReads is how often the cache of the pods had to ask the log, because its
// memory did not go back that far.
func (s *Server) HistoryReads() int64 { return s.registry.Stats()[s.pods.GR().String()].HistoryReads }

// Stored returns the stored bytes of a pod by its key, "/pods/ns/name".
func (s *Server) Stored(ctx context.Context, key string) ([]byte, error) {
	p, err := placeOf(key)
	if err != nil {
		return nil, err
	}
	page, err := s.store.Read(ctx, store.Query{Start: s.storeKey(p)})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	if len(page.Records) == 0 {
		return nil, fmt.Errorf("read %s: there is none", key)
	}
	return page.Records[0].Value, nil
}

// visible waits until every reader sees a revision, as the registry's own writes
// do before they answer.
func (s *Server) visible(ctx context.Context, revision int64) error {
	_, err := s.registry.Get(ctx, kinds.Target{Resource: s.pods, Name: "-"}, strconv.FormatInt(revision, 10))
	if err == nil || wire.StatusOf(err).Code == 404 {
		return nil
	}
	return refusal(err)
}

// storeKey is the key in the store of the pod at a place.
func (s *Server) storeKey(p place) string { return s.pods.GR().String() + "/" + p.key().String() }
