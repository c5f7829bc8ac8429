package builtin

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/wire"
)

// Gapless writes objects with this module's registry, in memory.
type Gapless struct {
	log      *revlog.Log
	registry *registry.Registry
	stop     func() error
}

// NewGapless starts a registry, which has the namespace "default". Close it.
func NewGapless(ctx context.Context) (*Gapless, error) {
	log, err := revlog.Open(ctx, revlog.Options{Memory: true})
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	g := &Gapless{log: log, registry: registry.New(registry.Config{Store: log, Live: kinds.NewLive(builtin.Catalog())})}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 2)
	go func() { ended <- log.Run(running) }()        // ends with running
	go func() { ended <- g.registry.Run(running) }() // ends with running
	g.stop = func() error {
		cancel()
		err := errors.Join(<-ended, <-ended, log.Close())
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	}
	if err := g.registry.WaitReady(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start the registry: %w", err), g.stop())
	}
	return g, nil
}

// Close stops the registry.
func (g *Gapless) Close() error { return g.stop() }

// Store creates an object for updates of it.
func (g *Gapless) Store(ctx context.Context, t Target, body []byte) (v Verdict) {
	defer recovered(&v, "gapless panics")
	return verdict(g.registry.Create(ctx, t, body, metav1.CreateOptions{}))
}

// Keep stores an object as an earlier version has done, which had other rules. The body has
// what the server sets.
func (g *Gapless) Keep(ctx context.Context, t Target, body []byte) Verdict {
	v := g.Decode(t, body)
	if v.Object == nil {
		return v
	}
	done, err := g.log.Commit(ctx, store.Txn{Key: t.Resource.GR().String() + "/" + t.Key().String(), Value: v.raw})
	if err != nil {
		return failed("store the %s: %w", t.Resource.Kind, err)
	}
	v.uid, v.version = FixedUID, strconv.FormatInt(done.Revision, 10)
	return v
}

// Create returns what becomes of the body of a POST. It stores nothing.
func (g *Gapless) Create(ctx context.Context, t Target, body []byte) (v Verdict) {
	defer recovered(&v, "gapless panics")
	return verdict(g.registry.Create(ctx, t, body, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}))
}

// Change updates an object, or a part of it, that is stored as was says.
func (g *Gapless) Change(ctx context.Context, t Target, was Verdict, body []byte) (v Verdict) {
	defer recovered(&v, "gapless panics")
	return verdict(g.registry.Update(ctx, t, current(was, body), metav1.UpdateOptions{}))
}

// Update returns what becomes of the body of a PUT to an object, or to a part of it, that
// is stored as was says. It changes nothing.
func (g *Gapless) Update(ctx context.Context, t Target, was Verdict, body []byte) (v Verdict) {
	defer recovered(&v, "gapless panics")
	return verdict(g.registry.Update(ctx, t, current(was, body), metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}))
}

// Decode returns a body with its defaults, which nothing has validated.
func (g *Gapless) Decode(t Target, body []byte) Verdict {
	u, _, err := t.Resource.Type.Decode(body, kinds.FieldsWarn)
	if err == nil {
		err = t.Resource.Type.Default(u)
	}
	if err != nil {
		return refused(wire.StatusOf(err))
	}
	raw, err := wire.Canonical(u.Object)
	if err != nil {
		return failed("encode the %s: %w", t.Resource.Kind, err)
	}
	v := accepted(raw, "")
	v.raw = raw
	return v
}

// verdict is the verdict of a write.
func verdict(out wire.Written, err error) Verdict {
	v := Verdict{}
	if err != nil {
		v = refused(wire.StatusOf(err))
	} else {
		v = accepted(out.Object.JSON(), string(out.Object.UID()))
	}
	v.Warnings = out.Warnings
	return v
}
