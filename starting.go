package gapless

import (
	"context"
	"log/slog"
	"time"

	"github.com/gapless-io/gapless/internal/addresses"
	"github.com/gapless-io/gapless/internal/bootstrap"
	"github.com/gapless-io/gapless/internal/kinds"
)

// repairAddresses finds what the writes of Services have left when the server ended, and gives those that were stored
// before there were allocations what they lack. Who may read is served also if that cannot be written.
func (s *Server) repairAddresses(ctx context.Context) {
	grace := time.Duration(0) // nobody writes yet
	if s.cfg.Etcd.used() {
		grace = addresses.Grace
	}
	if err := s.addresses.Repair(ctx, grace); err != nil && ctx.Err() == nil {
		s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "addresses of Services were not all repaired; it is tried again",
			slog.Any("err", err))
	}
}

// start waits until everything is read, makes what is there from the start, and opens the gate. It
// returns nil too if the server, whose context is ctx, was stopped meanwhile, or running, the context of
// its parts, has ended.
func (s *Server) start(ctx, running context.Context, objects *bootstrap.Controller, live *kinds.Live) error {
	if err := s.registry.WaitReady(running); err != nil {
		return nil // Run of the registry returns the same error
	}
	if objects != nil {
		objects.Make(running)
	}
	s.repairAddresses(running)
	s.makeAPIServices(running)
	starting, end := context.WithCancel(running)
	defer end()
	defer context.AfterFunc(ctx, end)()
	err := s.seed(starting, live)
	if running.Err() != nil || ctx.Err() != nil {
		return nil // the server was stopped meanwhile
	}
	if err != nil {
		return err
	}
	s.gate.Open()
	close(s.ready)
	s.cfg.Logger.InfoContext(ctx, "serving", slog.String("url", s.url()))
	return nil
}
