package gapless

import (
	"context"

	"github.com/gapless-io/gapless/internal/seed"
	"github.com/gapless-io/gapless/internal/seed/manifest"
)

// Apply applies the manifests in these files and directories, as the start does with
// Config.From: it checks all of them and writes nothing if one is wrong. It blocks until the
// server is ready, and returns when all objects are durable and visible, and definitions
// are served.
func (s *Server) Apply(ctx context.Context, from ...string) (Applied, error) {
	<-s.ready
	files, err := manifest.Find(from)
	if err != nil {
		return Applied{}, err
	}
	done, err := seed.New(seed.Config{Verbs: s.registry, Live: s.live, Files: files, Logger: s.cfg.Logger}).Apply(ctx)
	return Applied(done), err
}
