package gapless

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/internal/apiserver/limit"
	"github.com/gapless-io/gapless/internal/serve/statuses"
	"github.com/gapless-io/gapless/kube"
	"github.com/gapless-io/gapless/status"
)

// statusFunc returns what reports the state of a server that starts now, with so many watches.
func (s *Server) statusFunc(refusals *limit.Refusals) func(ctx context.Context, watches int) (any, error) {
	started := time.Now()
	return func(ctx context.Context, watches int) (any, error) {
		from := statuses.Server{
			Log: s.backend.log, Dir: onDisk(s.cfg.DataDir, s.cfg.Memory), Caches: s.registry.Stats(),
			Behind: func(resource string, rv kube.ResourceVersion) int {
				return s.registry.Behind(schema.ParseGroupResource(resource), rv)
			},
		}
		state := from.State(statuses.Clients{
			Watches: s.api.Watches, Expired: s.api.Expired, Refusals: refusals,
		}, watches)
		if s.backend.status != nil {
			return s.backend.status(ctx, state)
		}
		log := s.backend.log.Stats()
		return status.Server{
			URL: s.url(), Version: Version().GitVersion, Started: started, ResourceVersion: resourceVersion(log.Revision),
			OldestTime: log.Oldest, HistoryBytes: log.History, State: *state,
		}, nil
	}
}

// onDisk is the data directory, "" if the log is in memory.
func onDisk(dir string, memory bool) string {
	if memory {
		return ""
	}
	return dir
}
