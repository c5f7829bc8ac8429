package revlog

import (
	"context"
	"log/slog"
	"time"

	"github.com/gapless-io/gapless/internal/store/revlog/format"
)

// openingEvery is how long a start reads the log before it says how far it is, and then between two such messages.
const openingEvery = 2 * time.Second

// opening says how far a start is that takes long.
type opening struct {
	logger       *slog.Logger
	total        int64 // bytes of all segments
	before       int64 // bytes of the segments that were read
	began, noted time.Time
}

// newOpening begins with what the manifest knows of the segments.
func newOpening(logger *slog.Logger, segments []format.SegmentEntry) *opening {
	now := time.Now()
	o := &opening{logger: logger, began: now, noted: now}
	for _, e := range segments {
		o.total += max(e.End, e.Size)
	}
	return o
}

// at notes that a segment was read up to an offset.
func (o *opening) at(ctx context.Context, offset int64) {
	now := time.Now()
	if now.Sub(o.noted) < openingEvery {
		return
	}
	o.noted = now
	read := o.before + offset
	attrs := []slog.Attr{slog.Int64("read_bytes", read), slog.Int64("total_bytes", o.total)}
	if read > 0 && read < o.total {
		took := now.Sub(o.began)
		left := time.Duration(float64(took) * float64(o.total-read) / float64(read))
		attrs = append(attrs, slog.Int64("took_ms", took.Milliseconds()), slog.Int64("left_ms", left.Milliseconds()))
	}
	o.logger.LogAttrs(ctx, slog.LevelInfo, "reading the log", attrs...)
}
