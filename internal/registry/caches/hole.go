package caches

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/kube"
)

// gather reads the holes of a batch, and makes visible what is before a hole, and the difference
// over one that ends. It returns the changes of the batch that follow.
func (p *Publisher) gather(ctx context.Context, batch store.Batch) ([]store.Change, error) {
	if p.hole != nil && (len(batch.Holes) == 0 || batch.Holes[0] != *p.hole) {
		return nil, fmt.Errorf("the feed at revision %d does not end the hole from %d to %d",
			batch.Through, p.hole.From, p.hole.To)
	}
	changes := batch.Changes
	for _, h := range batch.Holes {
		if p.hole == nil {
			n := upTo(changes, h.From)
			if err := p.visible(ctx, changes[:n], h.From); err != nil {
				return nil, err
			}
			changes = changes[n:]
			p.hole = &h
		}
		n := upTo(changes, h.To)
		p.difference = append(p.difference, changes[:n]...)
		if changes = changes[n:]; batch.Through < h.To {
			break // the rest comes in the next batch
		}
		if err := p.skip(ctx); err != nil {
			return nil, err
		}
	}
	return changes, nil
}

// upTo returns how many changes are at or before a revision.
func upTo(changes []store.Change, revision int64) int {
	n := slices.IndexFunc(changes, func(c store.Change) bool { return c.Revision > revision })
	if n < 0 {
		return len(changes)
	}
	return n
}

// skip makes the difference over a hole visible, at once: every cache gets its part, also if that is
// empty, since a watch may wait inside for what it has seen at another server.
func (p *Publisher) skip(ctx context.Context) error {
	h := p.hole
	p.set.logger.LogAttrs(ctx, slog.LevelWarn, "changes were not seen: only what came of them is known; watches that begin "+
		"between these resourceVersions must read the state again",
		slog.Int64("after_rv", h.From), slog.Int64("to_rv", h.To), slog.Int("changes", len(p.difference)))
	if err := p.together(ctx, p.difference); err != nil {
		return err
	}
	p.flush()
	p.tell(nil)
	p.hole, p.difference = nil, nil
	p.of.clock.Publish(kube.ResourceVersion(h.To))
	p.settle(ctx)
	return nil
}

// tell tells of the hole the caches of which nothing has changed, except one.
func (p *Publisher) tell(except *Resource) {
	if p.hole == nil {
		return
	}
	for r := range p.of.resources {
		if r != except {
			r.Cache.AppendHole(gap(p.hole))
		}
	}
}

func gap(h *store.Hole) watchcache.Hole {
	return watchcache.Hole{From: kube.ResourceVersion(h.From), To: kube.ResourceVersion(h.To)}
}
