package caches

import (
	"context"
	"log/slog"
	"time"
)

// loadingEvery is how long a start reads objects before it says how far it is, and then between two such messages.
const loadingEvery = 2 * time.Second

// loading says how far a start is that takes long.
type loading struct {
	logger  *slog.Logger
	of      int // resources
	done    int
	objects int64
	noted   time.Time
}

func newLoading(logger *slog.Logger, of int) *loading {
	return &loading{logger: logger, of: of, noted: time.Now()}
}

// add notes that the objects of a resource were read.
func (l *loading) add(ctx context.Context, r *Resource) {
	l.done++
	l.objects += int64(r.Cache.Snapshot().Len())
	if now := time.Now(); now.Sub(l.noted) >= loadingEvery {
		l.noted = now
		l.logger.LogAttrs(ctx, slog.LevelInfo, "reading objects", slog.Int64("objects", l.objects),
			slog.Int("resources", l.done), slog.Int("total_resources", l.of), slog.String("last", r.GR.String()))
	}
}
