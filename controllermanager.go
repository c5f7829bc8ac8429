package gapless

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/controllers/manager"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/serve"
	"github.com/gapless-io/gapless/internal/wire"
)

// managerPeriod is how often a replica reads the Lease of kube-controller-manager, which renews it as often (its flag
// --leader-elect-retry-period).
const managerPeriod = 2 * time.Second

// managed is what a replica leaves to a kube-controller-manager, as long as one works.
type managed struct {
	observer *manager.Observer
	alone    *serve.Turn // held while none works
}

// newManaged returns what the server leaves to a kube-controller-manager; nil: nothing. Only over etcd it may be there
// without knowing of the server.
func (s *Server) newManaged() *managed {
	if !s.cfg.Etcd.used() || !slices.ContainsFunc(Controllers(), s.cfg.leaves) && s.cfg.Bootstrap != BootstrapAuto {
		return nil
	}
	return &managed{alone: serve.NewTurn(), observer: manager.New(manager.Config{
		Read: s.managerLease, Period: managerPeriod, Logger: s.cfg.Logger,
	})}
}

// leaves reports whether a controller is left to a kube-controller-manager that works: it is on, and not by its name.
func (c Config) leaves(controller string) bool {
	return c.Etcd.used() && c.runs(controller) &&
		!slices.ContainsFunc(c.Controllers, func(item string) bool { return manager.Name(item) == controller })
}

// managerLease returns the Lease of kube-controller-manager as it is now; nil: there is none.
func (s *Server) managerLease(ctx context.Context) (*coordinationv1.Lease, error) {
	resource, found := s.live.Load().Storage(kinds.GroupResource{Group: coordinationv1.GroupName, Resource: "leases"})
	if !found {
		return nil, nil
	}
	o, err := s.registry.Get(ctx, kinds.Target{
		Resource: resource, Namespace: manager.LeaseNamespace, Name: manager.LeaseName,
	}, "")
	if e, is := errors.AsType[*wire.StatusError](err); is && e.ErrStatus.Reason == metav1.StatusReasonNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	lease := new(coordinationv1.Lease)
	if err := json.Unmarshal(o.JSON(), lease); err != nil {
		return nil, fmt.Errorf("decode the Lease: %w", err)
	}
	return lease, nil
}

// keepsNamespaces is registry.Config.KeepNamespaces.
func (s *Server) keepsNamespaces() func() bool {
	switch {
	case !s.cfg.runs(NamespaceController):
		return func() bool { return true }
	case s.cfg.leaves(NamespaceController):
		return func() bool { return !s.managed.alone.Leads() }
	}
	return nil
}

// unmanaged returns what runs a controller while no kube-controller-manager works.
func (s *Server) unmanaged(run func(context.Context) error) func(context.Context) error {
	if s.managed == nil {
		return run
	}
	return func(ctx context.Context) error { return s.managed.alone.Run(ctx, run) }
}

// runManaged looks for a kube-controller-manager from when the server serves, on each replica: another one that begins to
// lead knows whether one works.
func (s *Server) runManaged(ctx context.Context, g *errgroup.Group) {
	if s.managed == nil {
		return
	}
	s.runWhenReady(ctx, g, func(ctx context.Context) error { return s.managed.observer.Run(ctx, s.managed.alone.Hold) })
	s.runWhenReady(ctx, g, s.unmanaged(func(context.Context) error {
		s.registry.LookAtNamespaces()
		return nil
	}))
}

// controllerManager returns the kube-controller-manager to which the server leaves its work; "": none.
func (s *Server) controllerManager() string {
	if s.managed == nil {
		return ""
	}
	return s.managed.observer.Holder()
}
