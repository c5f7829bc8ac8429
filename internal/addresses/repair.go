package addresses

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/gapless-io/gapless/internal/wire"
)

const (
	// repairEvery is upstream's interval (pkg/controlplane IPRepairInterval).
	repairEvery = 3 * time.Minute
	// repairers is how many IPAddresses are made or deleted at once, so that they share the syncs of the store.
	repairers = 64
	// Grace is how old an IPAddress without its Service must be to be deleted while others may write Services: as long
	// as upstream lets a request take.
	Grace = time.Minute
)

// repair is what passes of the repair remember.
type repair struct {
	turn    sync.Mutex
	parents map[netip.Addr]parent // of IPAddresses
	warned  map[string]bool       // of what nobody can repair
}

// parent is what an IPAddress says.
type parent struct {
	object  *wire.Object
	of      wire.Key // the Service; empty: it is of something else
	made    time.Time
	managed bool // it is one of an allocator
	labeled bool // its labels are those that an allocator gives it
}

func readParent(ip netip.Addr, o *wire.Object) parent {
	var address networkingv1.IPAddress
	if err := json.Unmarshal(o.JSON(), &address); err != nil {
		return parent{object: o}
	}
	managed := address.Labels[networkingv1.LabelManagedBy] == controller
	return parent{
		object: o, of: parentOf(o), made: address.CreationTimestamp.Time, managed: managed,
		labeled: managed && address.Labels[networkingv1.LabelIPAddressFamily] == string(familyOf(ip)),
	}
}

// Run repairs, from time to time, until ctx ends.
func (a *Allocator) Run(ctx context.Context) error {
	for {
		select {
		case <-time.After(repairEvery):
		case <-ctx.Done():
			return nil
		}
		if !a.shared && !a.hasMoved() {
			continue
		}
		if err := a.Repair(ctx, Grace); err != nil && ctx.Err() == nil {
			a.logger.LogAttrs(ctx, slog.LevelWarn, "addresses of Services were not all repaired", slog.Any("err", err))
		}
	}
}

func (a *Allocator) hasMoved() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.moved
}

// Repair makes the IPAddresses that Services lack, deletes those of no Service that are older than grace, and brings
// the registered node ports in line (upstream's repair loops). It changes no Service. It is called once before requests
// are served: what was stored before there were allocations has none. Errors: those of the store; the rest is done.
func (a *Allocator) Repair(ctx context.Context, grace time.Duration) error {
	a.repair.turn.Lock()
	defer a.repair.turn.Unlock()
	parents := a.readParents() // before the Services: who is not among them has been gone since
	if err := a.verbs.Fresh(ctx, servicesResource()); err != nil {
		return err
	}
	services, ranges := a.snapshot()
	var tasks []func() error
	for key, h := range services {
		for _, ip := range h.addresses {
			if task := a.mend(ctx, mending{key: key, ip: ip, in: ranges}, services); task != nil {
				tasks = append(tasks, task)
			}
		}
	}
	for ip, p := range parents {
		if a.leaked(ip, p, services) {
			if time.Since(p.made) < grace {
				a.lookAgain()
				continue
			}
			tasks = append(tasks, func() error {
				a.logger.LogAttrs(ctx, slog.LevelWarn, "an IPAddress that no Service has is deleted",
					slog.String("ip", ip.String()), slog.String("service", p.of.String()))
				a.deleteAddress(ctx, ip, p.object.UID())
				return nil
			})
		}
	}
	errs := []error{all(tasks)}
	if shared, is := a.ports.(*sharedPorts); is {
		errs = append(errs, shared.repair(ctx))
	}
	err := errors.Join(errs...)
	if err != nil {
		a.lookAgain()
	}
	return err
}

// all does tasks, several at a time, and returns the first few of their errors.
func all(tasks []func() error) error {
	var mu sync.Mutex // guards errs
	var errs []error
	var g errgroup.Group
	g.SetLimit(repairers)
	for _, task := range tasks {
		g.Go(func() error {
			if err := task(); err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			}
			return nil // the others are done all the same
		})
	}
	_ = g.Wait() // they have none
	const most = 3
	if len(errs) > most {
		errs = append(errs[:most], fmt.Errorf("and %d more", len(errs)-most))
	}
	return errors.Join(errs...)
}

// readParents reads the IPAddresses that have changed since the last pass.
func (a *Allocator) readParents() map[netip.Addr]parent {
	a.mu.Lock()
	objects := maps.Clone(a.objects)
	a.moved = false
	a.mu.Unlock()
	parents := make(map[netip.Addr]parent, len(objects))
	for ip, o := range objects {
		p := a.repair.parents[ip]
		if p.object != o {
			p = readParent(ip, o)
		}
		parents[ip] = p
	}
	a.repair.parents = parents
	return parents
}

func (a *Allocator) lookAgain() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.moved = true
}

// snapshot returns what the Services have, and all ranges.
func (a *Allocator) snapshot() (map[wire.Key]held, []cidr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.settleLocked()
	a.rangesLocked()
	return maps.Clone(a.services), a.known
}

// leaked reports whether an IPAddress is one that an allocator made for a Service which has not got it.
func (a *Allocator) leaked(ip netip.Addr, p parent, services map[wire.Key]held) bool {
	if !p.managed || a.flight.has(ip) {
		return false
	}
	if p.of == (wire.Key{}) {
		return true
	}
	h := services[p.of]
	return !slices.Contains(h.addresses, ip) && a.verbs.Unread(servicesResource(), p.of) == nil
}

// mending is an address of a Service.
type mending struct {
	key wire.Key
	ip  netip.Addr
	in  []cidr
}

// mend returns what makes the IPAddress of a Service what it should be; nil: it is, or nothing can be done.
func (a *Allocator) mend(ctx context.Context, m mending, services map[wire.Key]held) func() error {
	p, found := a.repair.parents[m.ip]
	switch {
	case found && p.of == m.key && p.labeled, a.flight.has(m.ip):
		return nil
	case !slices.ContainsFunc(m.in, func(c cidr) bool { return c.has(m.ip) }):
		a.warn(ctx, m, "it is in no ServiceCIDR")
		return nil
	case found && p.of != m.key && slices.Contains(services[p.of].addresses, m.ip):
		a.warn(ctx, m, "another Service has it too")
		return nil
	}
	return func() error {
		if found {
			a.deleteAddress(ctx, m.ip, p.object.UID())
		}
		_, err := a.createAddress(ctx, m.ip, m.key)
		if errors.Is(err, errTaken) { // by another server that repairs, or by one that was faster
			a.lookAgain()
			return nil
		}
		if err != nil {
			return fmt.Errorf("take the cluster IP %s of the Service %s: %w", m.ip, m.key, err)
		}
		return nil
	}
}

// warn says once what nobody can repair, and why.
func (a *Allocator) warn(ctx context.Context, m mending, why string) {
	key := m.key.String() + " " + m.ip.String()
	if a.repair.warned[key] {
		return
	}
	a.repair.warned[key] = true
	a.logger.LogAttrs(ctx, slog.LevelWarn,
		"a Service has a cluster IP that is not its own: create it again to give it another one",
		slog.String("service", m.key.String()), slog.String("ip", m.ip.String()), slog.String("reason", why))
}
