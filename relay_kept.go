package gapless

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/gapless-io/gapless/internal/relay/kept"
)

// keptDir is the directory, in the data directory, of what is known of upstream.
const keptDir = "upstream"

// kept returns the file for what is known of upstream; with Memory nothing is kept.
func (r *Relay) kept(kind string) kept.File {
	if r.cfg.Memory {
		return kept.File{}
	}
	ca := r.cfg.Upstream.CAData
	if len(ca) == 0 && r.cfg.Upstream.CAFile != "" {
		ca, _ = os.ReadFile(r.cfg.Upstream.CAFile) // the connection will say what is wrong with it
	}
	return kept.In(filepath.Join(r.cfg.DataDir, keptDir), kind, kept.SourceOf(r.cfg.Upstream.Host, ca))
}

// restored logs what of upstream is not used. It is no error: upstream is asked.
func (r *Relay) restored(ctx context.Context, errs ...error) {
	if err := errors.Join(errs...); err != nil {
		r.cfg.Logger.WarnContext(ctx, "what was kept of the API server from before is not used", slog.Any("error", err))
	}
}
