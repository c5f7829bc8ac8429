// Package manager notices a kube-controller-manager that works over the same objects, so that what both can do is left to
// it.
//
// An [Observer] reads the Lease by which kube-controller-managers elect their leader, and judges it as they do: by its own
// clock, since it has last seen the Lease change. The times in the Lease are of another machine's clock: nothing is
// concluded from them but that it was written.
package manager

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// The Lease of kube-controller-manager: the defaults of its flags --leader-elect-resource-namespace and
// --leader-elect-resource-name (kubernetes pkg/controller/apis/config/v1alpha1 defaults.go).
const (
	LeaseNamespace = "kube-system"
	LeaseName      = "kube-controller-manager"
)

// defaultDuration is for a Lease that does not say how long it lasts: the default of --leader-elect-lease-duration.
const defaultDuration = 15 * time.Second

// Config configures an Observer. All members are required.
type Config struct {
	// Read returns the Lease as it is now, not as it was; nil: there is none.
	Read func(ctx context.Context) (*coordinationv1.Lease, error)
	// Period is the longest time between two reads.
	Period time.Duration
	Logger *slog.Logger
}

// Observer reads the Lease.
type Observer struct {
	cfg    Config
	holder atomic.Pointer[string] // nil: nobody has the Lease, or it is not renewed
	failed bool                   // the last read

	// What was seen of the Lease: spec is nil before the first read, and changed is when it was another one than before.
	spec    *coordinationv1.LeaseSpec
	changed time.Time
}

// New returns an Observer; it reads nothing.
func New(cfg Config) *Observer { return &Observer{cfg: cfg} }

// Holder returns the kube-controller-manager that has the Lease, as far as Run has seen; "": none. It does not block, and
// may be called by any goroutine.
func (o *Observer) Holder() string {
	if holder := o.holder.Load(); holder != nil {
		return *holder
	}
	return ""
}

// Run runs work whenever no kube-controller-manager works, until ctx ends, which is no error, or work fails. The context of
// work ends when a kube-controller-manager appears, and work returns then. A Lease that somebody has when it is read first
// counts as just renewed: work begins when it has not changed for as long as it lasts, and at once if nobody has it.
// While the Lease cannot be read, all stays as it is. Run is called once.
func (o *Observer) Run(ctx context.Context, work func(ctx context.Context) error) error {
	for o.until(ctx, free) {
		alone, end := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { // it is Run's, which waits for it
			defer end()
			done <- work(alone)
		}()
		o.until(alone, held)
		end()
		if err := <-done; err != nil {
			return err
		}
	}
	return nil
}

// state is that of the Lease.
type state bool

const (
	held state = false
	free state = true
)

// until returns when the Lease is in a state, or ctx has ended, and then false.
func (o *Observer) until(ctx context.Context, wanted state) bool {
	for ctx.Err() == nil {
		next := o.cfg.Period
		lease, err := o.cfg.Read(ctx)
		switch {
		case ctx.Err() != nil:
			return false
		case err != nil && !o.failed:
			o.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "read the Lease of kube-controller-manager", slog.Any("err", err))
		}
		if o.failed = err != nil; !o.failed {
			left := o.look(ctx, lease)
			if now := state(left <= 0); now == wanted {
				return true
			}
			if left > 0 {
				next = min(next, left)
			}
		}
		select {
		case <-time.After(next):
		case <-ctx.Done():
		}
	}
	return false
}

// look returns for how long the Lease holds if it is not renewed; 0 or less: nobody has it.
func (o *Observer) look(ctx context.Context, lease *coordinationv1.Lease) time.Duration {
	var spec coordinationv1.LeaseSpec
	if lease != nil {
		spec = lease.Spec
	}
	now := time.Now()
	if o.spec == nil || !equality.Semantic.DeepEqual(*o.spec, spec) {
		o.spec, o.changed = &spec, now
	}
	if spec.HolderIdentity == nil || *spec.HolderIdentity == "" {
		o.set(ctx, nil)
		return 0
	}
	lasts := defaultDuration
	if spec.LeaseDurationSeconds != nil {
		lasts = time.Duration(*spec.LeaseDurationSeconds) * time.Second
	}
	left := lasts - now.Sub(o.changed)
	if left <= 0 {
		o.set(ctx, nil)
		return left
	}
	o.set(ctx, spec.HolderIdentity)
	return left
}

// set notes who has the Lease, and logs when that begins and when it ends.
func (o *Observer) set(ctx context.Context, holder *string) {
	was := o.holder.Swap(holder)
	switch {
	case was == nil && holder != nil:
		o.cfg.Logger.LogAttrs(ctx, slog.LevelInfo,
			"kube-controller-manager has its Lease: what it does is left to it as long as it renews that",
			slog.String("holder", *holder))
	case was != nil && holder == nil:
		o.cfg.Logger.LogAttrs(ctx, slog.LevelInfo,
			"kube-controller-manager does not renew its Lease: what it does is done here from now on",
			slog.String("holder", *was))
	}
}
