package gapless

import (
	"context"
	"fmt"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/seed"
	"github.com/gapless-io/gapless/internal/seed/manifest"
)

// Applied counts what a start did with the manifests of Config.From.
type Applied struct {
	Files int
	// Created, Updated and Unchanged count objects.
	Created, Updated, Unchanged int
}

// Applied returns what the start did with the manifests of Config.From. It blocks until
// the server is ready.
func (s *Server) Applied() Applied {
	<-s.ready
	return s.applied
}

// findManifests finds the files of Config.From, before the start creates anything.
func (s *Server) findManifests() error {
	if len(s.cfg.From) == 0 {
		return nil
	}
	var err error
	s.manifests, err = manifest.Find(s.cfg.From)
	return err
}

// seed applies the manifests.
func (s *Server) seed(ctx context.Context, live *kinds.Live) error {
	if s.manifests == nil {
		return nil
	}
	seeder := seed.New(seed.Config{Verbs: s.registry, Live: live, Files: s.manifests, Logger: s.cfg.Logger})
	done, err := seeder.Apply(ctx)
	if err != nil {
		return fmt.Errorf("apply manifests: %w", err)
	}
	s.applied = Applied(done)
	s.manifests = nil // and with it what was read
	return nil
}
