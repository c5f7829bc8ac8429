// Package oracle runs the reference server: the upstream generic API server
// (k8s.io/apiextensions-apiserver) over an etcd of its own, both in this process,
// on ephemeral ports of 127.0.0.1. It serves CustomResourceDefinitions and what
// they define, through the handlers, watch cache and storage of
// kube-apiserver. It has no core types, no namespace life cycle, no garbage
// collection, no admission webhooks and no priority and fairness.
//
// [Options] say where its data are and which flags it gets. A [Server] is the running pair,
// which can compact its history and be restarted. An [Endpoint] is what a client needs to
// reach it.
//
// Some goroutines of the API server outlive [Server.Stop]: upstream starts a few
// that nothing ends (metrics, feature gates, caches of the CEL compiler). Those of
// the listener, of etcd and of the watch caches end.
package oracle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/gapless-io/gapless/conformance/oracle/etcd"
)

// Options say how to run a [Server].
type Options struct {
	// Dir is an existing directory for etcd's data and for the API server's
	// kubeconfig. A second Start on the same directory finds the objects of the
	// first. It is required, and the caller removes it.
	Dir string
	// Flags are further flags of the API server, after the ones it needs. Without
	// any it compacts etcd every 5 minutes, as kube-apiserver does.
	Flags []string
	// NoSync lets etcd acknowledge writes before they are on disk. A benchmark
	// leaves it false.
	NoSync bool
	// Log gets what the API server logs; nil discards it. It is global to the
	// process, as upstream's logger is.
	Log io.Writer
}

// Endpoint is how to reach the server.
type Endpoint struct {
	// URL has the scheme https and an address of 127.0.0.1, and no path.
	URL string `json:"url"`
	// Token is the bearer token of a user who may do everything.
	Token string `json:"token"`
	// CA is the PEM of the authority that signed the serving certificate.
	CA string `json:"ca"`
}

// Server is a running API server over a running etcd. Its methods may be called
// from any goroutine.
type Server struct {
	options Options
	etcd    *etcd.Member

	// mu guards what a restart replaces.
	mu  sync.Mutex
	api *apiServer
}

// Start starts etcd and the API server and returns when it answers /healthz, which
// takes a second on an idle machine. ctx bounds the start only.
func Start(ctx context.Context, options Options) (*Server, error) {
	if info, err := os.Stat(options.Dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("oracle directory %q: it is not a directory", options.Dir)
	}
	setLog(options.Log)
	e, err := etcd.Start(ctx, etcd.Options{Dir: options.Dir, NoSync: options.NoSync})
	if err != nil {
		return nil, err
	}
	api, err := startAPIServer(ctx, e.URL(), options)
	if err != nil {
		return nil, errors.Join(err, e.Stop())
	}
	return &Server{options: options, etcd: e, api: api}, nil
}

// Endpoint returns how to reach the server. All of it changes with a restart.
func (s *Server) Endpoint() Endpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.api.endpoint
}

// Revision returns etcd's current revision, which is the resourceVersion that a
// consistent list would carry.
func (s *Server) Revision(ctx context.Context) (int64, error) {
	return s.etcd.Revision(ctx)
}

// Compact makes etcd compact what was superseded or deleted at or below a revision,
// and notes it under upstream's key, as upstream's compactor does, which costs a
// revision. etcd refuses older reads when Compact returns. The watch caches of the
// API server learn of it when they next poll, every 15 s
// (apiserver cacher/compactor.go compactorPollPeriod); until then they answer exact
// lists and continue tokens from their snapshots. Their window of events forgets
// nothing: only [Server.Restart] empties it.
func (s *Server) Compact(ctx context.Context, revision int64) error {
	return s.etcd.Compact(ctx, revision)
}

// Restart stops the API server, which ends all its streams, and starts a new one
// over the same etcd. The new one has another port, another token and empty
// caches.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.api.stop()
	api, err := startAPIServer(ctx, s.etcd.URL(), s.options)
	if err != nil {
		return err
	}
	s.api = api
	return nil
}

// Stop ends the API server and etcd and waits for both. It is called once.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.api.stop()
	return s.etcd.Stop()
}
