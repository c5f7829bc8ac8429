package gapless

import (
	"context"
	"fmt"

	"github.com/gapless-io/gapless/internal/baseline"
	"github.com/gapless-io/gapless/kube"
)

// Baseline is what a server held at one moment, for tests that share a server.
type Baseline struct{ of *baseline.Baseline }

// Baseline returns what the server holds now. It blocks until the server is ready.
func (s *Server) Baseline(ctx context.Context) (*Baseline, error) {
	<-s.ready
	b, err := baseline.Take(ctx, s.values)
	if err != nil {
		return nil, fmt.Errorf("remember what is stored: %w", err)
	}
	return &Baseline{b}, nil
}

// Restore brings the server back to a baseline, of its own or of an earlier server with the same
// data: it deletes the other objects without waiting for their finalizers, and writes those
// that were changed or deleted. Watches see this. It returns when every reader does. The history
// stays, and resource versions go on. It blocks until the server is ready.
func (s *Server) Restore(ctx context.Context, b *Baseline) error {
	<-s.ready
	last, err := b.of.Restore(ctx, s.values)
	if err != nil {
		return fmt.Errorf("restore the baseline: %w", err)
	}
	return s.registry.WaitPublished(ctx, kube.ResourceVersion(last)) //nolint:gosec // revisions are not negative
}
