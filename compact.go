package gapless

import (
	"context"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/store"
)

// compactFunc returns the function that compacts history for the HTTP API. Writes during
// the compaction make the freed bytes look smaller.
func (s *Server) compactFunc() func(context.Context, apiserver.Compaction) (apiserver.Compacted, error) {
	log := s.backend.log
	return func(ctx context.Context, c apiserver.Compaction) (apiserver.Compacted, error) {
		before := log.Stats()
		done, err := s.compact(ctx, store.Compaction{UpTo: int64(c.UpTo), OlderThan: c.OlderThan, Purge: c.Purge})
		after := log.Stats()
		return apiserver.Compacted{
			UpTo:         done,
			HistoryBytes: max(0, before.History-after.History),
			LogBytes:     max(0, before.Bytes-after.Bytes),
		}, err
	}
}
