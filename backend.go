package gapless

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gapless-io/gapless/internal/addresses"
	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/seam"
	"github.com/gapless-io/gapless/internal/serve"
	"github.com/gapless-io/gapless/internal/serve/statuses"
	"github.com/gapless-io/gapless/internal/starts"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/status"
)

// backend is where a server keeps its objects, with what it asks of that besides reads and writes.
type backend struct {
	// store has the values in the clear.
	store store.Store
	// apart are the stores of resources that are not in store.
	apart []registry.Apart
	// log is the log on disk, which has all there is or, of a replica, the history; name says which, in
	// metrics.
	log  statuses.Log
	name string
	// embedded is the log if it has all there is, otherwise nil.
	embedded *revlog.Log
	// run are what requests need; they run until their context ends.
	run []func(context.Context) error
	// close is called when none of them runs any more.
	close func() error
	// stale is registry.Config.Stale.
	stale   func(ctx context.Context, key string, revision int64) (bool, error)
	checks  []apiserver.Check
	metrics []prometheus.Collector
	// wrap, if not nil, is in front of the API.
	wrap func(http.Handler) http.Handler
	// status reports the state of a replica, with a part that every server has; nil: there is only this server.
	status func(ctx context.Context, state *status.State) (any, error)
	// turn runs controllers on one replica at a time; nil: there is only this server.
	turn *serve.Turn
	// nodePorts is where all servers register node ports; nil: there is only this server.
	nodePorts *addresses.Shared
	// apiServers reports whether kube-apiservers work over the same store; nil: there is only this server.
	apiServers func(ctx context.Context) (bool, error)
}

// openLog opens the log of a server that keeps its objects in its data directory.
func (s *Server) openLog(ctx context.Context) (*backend, error) {
	options, err := s.cfg.storeOptions()
	if err != nil {
		return nil, fmt.Errorf("open the data directory: %w", err)
	}
	log, err := revlog.Open(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("open the data directory: %w", err)
	}
	values, err := s.decrypted(ctx, log)
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	b := &backend{
		store: values, log: log, name: "embedded", embedded: log, stale: values.Stale, metrics: values.Metrics(),
		run: []func(context.Context) error{log.Run},
		close: func() error {
			values.Close()
			return log.Close()
		},
		checks: []apiserver.Check{
			// A restart repairs the first of these, but not the second.
			{Name: "storage-durable", Check: log.Durable},
			{Name: "storage-writes", Check: log.Writable, ReadyOnly: true},
		},
	}
	if s.cfg.EncryptionProviderConfig != "" {
		b.checks = append(b.checks,
			apiserver.Check{Name: "kms-providers", Check: values.Healthy}, // upstream's name
			apiserver.Check{Name: "encrypted-values", Check: values.Readable, ReadyOnly: true})
	}
	if s.cfg.EncryptionProviderConfigAutomaticReload {
		b.run = append(b.run, values.Run)
	}
	return b, nil
}

// openHistory records the start of a server that has all there is. A replica has no history of its own.
func (s *Server) openHistory() (err error) {
	if s.backend.embedded == nil {
		return nil
	}
	dir := s.cfg.DataDir
	if s.cfg.Memory && seam.Of(&s.cfg).Disk == nil {
		dir = ""
	}
	s.history, err = starts.Open(dir, s.backend.log.Stats().Revision)
	return err
}
