package gapless

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/gapless-io/gapless/fault/control"
	"github.com/gapless-io/gapless/internal/baseline"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// keptLogDir is the directory in the data directory that holds a copy of the log, made by the
// call keep. Reset reads it after a restart, and a test can start a server with it.
const keptLogDir = "kept"

// testCalls is what tests do to a server with Config.Faults, over HTTP.
type testCalls struct {
	server *Server
	log    *revlog.Log

	// turn is held while the kept state is made or used.
	turn sync.Mutex
	kept *baseline.Baseline // nil: of an earlier start, if there is one
}

// calls is what tests of this module do to a server; see package seam.
type calls struct{ *Server }

// Baseline implements seam.Calls.
func (c calls) Baseline(ctx context.Context) (*baseline.Baseline, error) {
	<-c.ready
	b, err := baseline.Take(ctx, c.backend.store)
	if err != nil {
		return nil, fmt.Errorf("remember what is stored: %w", err)
	}
	return b, nil
}

// Restore implements seam.Calls.
func (c calls) Restore(ctx context.Context, b *baseline.Baseline) error {
	<-c.ready
	last, err := b.Restore(ctx, c.backend.store)
	if err != nil {
		return fmt.Errorf("restore the baseline: %w", err)
	}
	return c.registry.WaitPublished(ctx, kube.ResourceVersion(last)) //nolint:gosec // revisions are not negative
}

// CompactEvery implements seam.Calls.
func (c calls) CompactEvery(ctx context.Context) (kube.ResourceVersion, error) {
	rv, err := c.ResourceVersion(ctx)
	if err != nil {
		return 0, err
	}
	return c.compact(ctx, store.Compaction{UpTo: int64(rv), Every: true}) //nolint:gosec // revisions are not that large
}

// CompactEvery implements control.Server.
func (c *testCalls) CompactEvery(ctx context.Context) (kube.ResourceVersion, error) {
	return calls{c.server}.CompactEvery(ctx)
}

// Keep implements control.Server.
func (c *testCalls) Keep(ctx context.Context) error {
	c.turn.Lock()
	defer c.turn.Unlock()
	b, err := calls{c.server}.Baseline(ctx)
	if err != nil {
		return err
	}
	if !c.server.cfg.Memory {
		if err := c.copyLog(ctx); err != nil {
			return err
		}
	}
	c.kept = b
	return nil
}

// copyLog replaces the copy of the log.
func (c *testCalls) copyLog(ctx context.Context) (err error) {
	kept := filepath.Join(c.server.cfg.DataDir, keptLogDir)
	next := kept + ".new"
	if err := os.RemoveAll(next); err != nil {
		return fmt.Errorf("remove an unfinished copy of the log: %w", err)
	}
	to, err := disk.NewUnsynced(next)
	if err != nil {
		return err
	}
	if err := errors.Join(c.log.CopyTo(ctx, to), to.Dir().Close()); err != nil {
		return err
	}
	if err := os.RemoveAll(kept); err != nil {
		return fmt.Errorf("remove the earlier copy of the log: %w", err)
	}
	return os.Rename(next, kept)
}

// Reset implements control.Server.
func (c *testCalls) Reset(ctx context.Context) error {
	c.turn.Lock()
	defer c.turn.Unlock()
	c.server.cfg.Faults.Clear()
	if c.kept == nil {
		b, err := c.readKept(ctx)
		if err != nil {
			return err
		}
		c.kept = b
	}
	return calls{c.server}.Restore(ctx, c.kept)
}

// readKept returns what a copy of the log holds that an earlier start has made.
func (c *testCalls) readKept(ctx context.Context) (b *baseline.Baseline, err error) {
	dir := filepath.Join(c.server.cfg.DataDir, keptLogDir)
	if _, err := os.Stat(dir); c.server.cfg.Memory || errors.Is(err, fs.ErrNotExist) {
		return nil, wire.BadRequest("nothing was kept that the server can go back to: POST keep first")
	}
	files, err := disk.NewUnsynced(dir)
	if err != nil {
		return nil, err
	}
	log, err := revlog.Open(ctx, revlog.Options{Dir: dir, FS: files, Logger: c.server.cfg.Logger})
	if err != nil {
		return nil, fmt.Errorf("read what was kept: %w", err)
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	values, err := c.server.decrypted(ctx, log)
	if err != nil {
		return nil, fmt.Errorf("read what was kept: %w", err)
	}
	defer values.Close()
	held, err := baseline.Take(ctx, values)
	if err != nil {
		return nil, fmt.Errorf("read what was kept: %w", err)
	}
	return held, nil
}

// Apply implements control.Server.
func (c *testCalls) Apply(ctx context.Context, paths ...string) error {
	_, err := c.server.Apply(ctx, paths...)
	return err
}

// Watches implements control.Server.
func (c *testCalls) Watches() []control.Watch {
	open := c.server.Watches()
	all := make([]control.Watch, len(open))
	for i, w := range open {
		all[i] = control.Watch(w)
	}
	return all
}
